package launch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"drover/internal/agent/launch"
	"drover/internal/spec"
)

// TestSignal: a command has its file at the descriptor that it asks for, only there, and beside nothing else.
func TestSignal(t *testing.T) {
	crowd(t, 40)
	for name, f := range map[string]*launch.Forker{"here": forker(), "on a thread": forking(t)} {
		for _, fd := range []int{3, 4, 5, 6, 7, 9, 10, 31, spec.MaxNotifyFD} {
			t.Run(fmt.Sprint(name, " ", fd), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "signal")
				file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				out := output(t)
				// Not all shells can write to a descriptor of two digits by its number.
				c := command(t, fmt.Sprintf("readlink /proc/$$/fd/%d; "+
					"for d in /proc/$$/fd/*; do readlink $d; done | grep -c signal; echo >>/proc/$$/fd/%d", fd, fd), out)
				c.Signal, c.SignalFD = file, fd
				child, err := f.Start(c)
				if err != nil {
					t.Fatal(err)
				}
				if err := child.Release(); err != nil {
					t.Fatal(err)
				}
				wait(t, child)
				if want := path + "\n1"; out.Text() != want {
					t.Errorf("it has %q, want %q", out.Text(), want)
				}
				if text, err := os.ReadFile(path); err != nil || string(text) != "\n" {
					t.Errorf("the file holds %q, %v", text, err)
				}
			})
		}
	}
}

// TestArgumentsAtTheGate: a child at its gate has the arguments of the command already.
func TestArgumentsAtTheGate(t *testing.T) {
	for line, want := range map[string][]string{
		"exec sleep 1000":      {"sleep", "1000"},
		"sleep 1000; echo 'a'": {"/bin/sh", "-c", "sleep 1000; echo 'a'"},
	} {
		child, err := forker().Start(command(t, line, output(t)))
		if err != nil {
			t.Fatal(err)
		}
		info, err := live().Info(child.Identity().PID)
		for err == nil && len(info.Args) == 0 { // execve(2) lets the caller go before the kernel has set the arguments
			runtime.Gosched()
			info, err = live().Info(child.Identity().PID)
		}
		if err != nil || !slices.Equal(info.Args, want) {
			t.Errorf("it has %q, %v, want %q", info.Args, err, want)
		}
		child.Abandon()
		wait(t, child)
	}
}
