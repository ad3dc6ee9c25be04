package host_test

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// hog is a shell whose grandchild keeps a processor busy.
const hog = `sh -c 'sh -c "while :; do :; done" & wait' & wait`

// lost is one whose busy descendant has lost its parent.
const lost = `sh -c 'setsid sh -c "while :; do :; done" &' & wait; sleep 1000`

// measured looks at a process until it uses the processor as a hog does, or for half a minute.
func measured(t *testing.T, h *host.Host, root procfs.Root) procfs.TreeUse {
	t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		uses, err := h.Measure([]procfs.Root{root})
		if err != nil {
			t.Fatal(err)
		}
		// A tenth of a processor: other tests want their part of it.
		if uses[0].CPU*float64(runtime.NumCPU()) > 10 {
			return uses[0]
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("30 s later it uses %+v", uses[0])
		}
	}
}

func TestMeasure(t *testing.T) {
	for run, c := range map[string]struct {
		line      string
		processes int
		groups    bool // whether it takes control groups to see it
	}{
		"a-hog-in-a-grandchild":       {hog, 3, false},
		"a-hog-that-lost-its-parents": {lost, 3, true},
	} {
		t.Run(run, func(t *testing.T) {
			t.Parallel()
			h := open(t, t.TempDir())
			if c.groups && h.Groups() == cgroup.ModeNone {
				return
			}
			child, err := h.Launch(process.ID{}, run, c.line, spec("/", "sh", ""))
			if err != nil {
				t.Fatal(err)
			}
			root := procfs.Root{Identity: child.Identity(), Run: run}
			t.Cleanup(func() {
				if _, left, err := h.EndTree(context.Background(), instance.Scope{Root: root.Identity, Run: root.Run},
					0); len(left) > 0 || err != nil && h.Groups() != cgroup.ModeNone {
					t.Errorf("%v are left: %v", left, err)
				}
			})
			if err := child.Release(); err != nil {
				t.Fatal(err)
			}
			if u := measured(t, h, root); u.Mem <= 0 || u.Processes < 2 || u.Processes > c.processes ||
				u.At <= u.Since {
				t.Errorf("it uses %+v, want up to %d processes, and some memory", u, c.processes)
			}
		})
	}
}

// TestMeasureFromOutside: a process that somebody else has started is measured with its descendants.
func TestMeasureFromOutside(t *testing.T) {
	h := open(t, t.TempDir())
	cmd := exec.Command("/bin/sh", "-c", hog)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := live().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, left, _ := h.EndTree(context.Background(), instance.Scope{Root: id, Run: ""}, 0); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		_ = cmd.Wait()
	})
	if u := measured(t, h, procfs.Root{Identity: id}); u.Processes < 3 {
		t.Errorf("it uses %+v, want three processes", u)
	}
}

// TestMeasureWhatIsGone: the account of a run that is over tells nothing, and is not held.
func TestMeasureWhatIsGone(t *testing.T) {
	h := open(t, t.TempDir())
	id := run(t, h, "run-1", "true")
	for range 2 {
		uses, err := h.Measure([]procfs.Root{{Identity: id, Run: "run-1"}})
		if err != nil || uses[0] != (procfs.TreeUse{}) {
			t.Errorf("got %+v, %v", uses, err)
		}
		h.Discard("run-1")
	}
}

// BenchmarkMeasure looks at a thousand processes. Ten milliseconds are 1 % of a processor at a look a second.
func BenchmarkMeasure(b *testing.B) {
	for name, outside := range map[string]bool{"by control group": false, "by descent": true} {
		b.Run(name, func(b *testing.B) {
			h := open(b, b.TempDir())
			roots := make([]procfs.Root, 1000)
			for i := range roots {
				run := fmt.Sprintf("run-%d", i)
				child, err := h.Launch(process.ID{}, run, "exec sleep 1000", spec("/", "sh", ""))
				if err != nil {
					b.Fatal(err)
				}
				if err := child.Release(); err != nil {
					b.Fatal(err)
				}
				roots[i] = procfs.Root{Identity: child.Identity(), Run: run}
				if outside {
					roots[i].Run = ""
				}
				b.Cleanup(func() { _, _, _ = h.EndTree(context.Background(), instance.Scope{Run: run}, 0) })
			}
			for b.Loop() {
				uses, err := h.Measure(roots)
				if err != nil || uses[999].Processes != 1 {
					b.Fatalf("%+v, %v", uses[999], err)
				}
			}
		})
	}
}
