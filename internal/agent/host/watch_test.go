package host_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/agent/host"
	"drover/internal/agent/liveness"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/pidns"
	"drover/internal/agent/procfs"
	"drover/internal/process"
	"drover/internal/test/harness"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(sayVariable); text != "" {
		say(text)
	}
	os.Exit(harness.Main(m, nil, harness.Need{Test: "TestOutputToPipes", Accounts: true}))
}

// TestWatchOfACommandThatWasQuick: a command that was over, and reaped as an orphan, before anybody watched it still
// tells how it ended.
func TestWatchOfACommandThatWasQuick(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	fs := procfs.New("/proc")
	watcher, err := liveness.New(fs, log)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx := t.Context()
	go func() { ended <- watcher.Run(ctx) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	h, err := host.New(host.Config{
		FS: fs, Watcher: watcher, Name: "drover-test-" + strings.ToLower(t.Name()),
		Outputs: t.TempDir(), Proofs: filepath.Join(t.TempDir(), "proofs"), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	child, err := h.Launch(process.ID{}, "quick", "exit 7", &process.Spec{Directory: "/", User: "root", Compat: &v1.Compat{}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Discard("quick")
	handle, err := pidfd.Open(child.Identity().PID)
	if err != nil {
		t.Fatal(err)
	}
	reaped := os.NewFile(uintptr(handle), "child")
	defer reaped.Close()
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	if err := pidns.AwaitReaped(handle); err != nil {
		t.Fatal(err)
	}

	for range 2 { // whoever asks is told
		exits := make(chan liveness.Exit, 1)
		stop, err := h.Watch(child.Identity(), func(e liveness.Exit) { exits <- e })
		if err != nil {
			t.Fatal(err)
		}
		stop()
		select {
		case e := <-exits:
			if !e.Known || e.Code != 7 {
				t.Errorf("told %v, want exit status 7", e)
			}
		default:
			t.Fatal("nobody was told")
		}
	}
	stranger := child.Identity()
	stranger.StartTicks++
	if _, err := h.Watch(stranger, func(liveness.Exit) { t.Error("told of a stranger") }); !errors.Is(err,
		liveness.ErrGone) {
		t.Errorf("watch of a stranger: %v, want ErrGone", err)
	}
}
