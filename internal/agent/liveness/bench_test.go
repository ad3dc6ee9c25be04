package liveness_test

import (
	"log/slog"
	"os"
	"os/user"
	"syscall"
	"testing"

	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/agent/liveness"
)

// BenchmarkRelaunch is the way from a kill to the next child behind an open gate: the part of a relaunch that is the
// kernel's, the shell's and ours here.
func BenchmarkRelaunch(b *testing.B) {
	w, err := liveness.New(live(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = w.Run(b.Context()) }()
	u, err := user.Current()
	if err != nil {
		b.Fatal(err)
	}
	account, err := launch.LookupAccount("/", u.Username)
	if err != nil {
		b.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	exits := make(chan liveness.Exit, 1)
	start := func() instance.Identity {
		child, err := forker().Start(launch.Command{
			Line: "exec sleep 1000", Dir: "/", Account: account, Output: null,
			Proof: null,
		})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := w.Watch(child.Identity(), func(e liveness.Exit) { exits <- e }); err != nil {
			b.Fatal(err)
		}
		if err := child.Release(); err != nil {
			b.Fatal(err)
		}
		return child.Identity()
	}
	id := start()
	for b.Loop() {
		if err := liveness.Signal(live(), id, syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		<-exits
		id = start()
	}
}
