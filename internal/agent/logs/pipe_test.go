package logs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// piped is policy for a process that writes to pipes.
func piped(size int64, keep int) *process.Spec {
	s := policy(size, keep)
	s.Log.Pipe = true
	return s
}

// byName writes to a file as a program does that opens /dev/stdout and empties it.
func byName(t *testing.T, f *os.File, text string) {
	t.Helper()
	named, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_WRONLY|os.O_TRUNC|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	write(t, named, text)
}

// pipes counts the pipes of the log.
func (r *rig) pipes() int {
	all, err := filepath.Glob(r.path("pipe.*"))
	if err != nil {
		r.t.Fatal(err)
	}
	return len(all)
}

// TestPipe: a program that opens its output by name empties nothing. The pipes go with their last writer. The text of a
// run is complete at once, and in its order.
func TestPipe(t *testing.T) {
	for name, splice := range map[string]bool{"moved by the kernel": true, "copied": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if !splice {
				r.ForbidSplice()
			}
			r.run()
			for n := range 3 {
				out, errs, run := r.begin(piped(64<<10, 2))
				write(t, out, "first\n")
				byName(t, out, "second\n")
				write(t, out, "third\n")
				byName(t, errs, "wrong\n")
				if got, want := r.Text(run), "first\nsecond\nthird\nwrong"; got != want {
					t.Errorf("run %d has written %q, want %q", n, got, want)
				}
				if r.pipes() == 0 {
					t.Error("the run has no pipe")
				}
				_, _ = out.Close(), errs.Close()
				harness.Eventually(t, "the pipes to go", func() bool { return r.pipes() == 0 })
			}
			want := strings.Split(strings.Repeat("first second third ", 3), " ")[:9]
			got := r.ask(wire.LogQuestion{Stream: wire.StreamStdout, Since: 1})
			if !slices.Equal(got.lines, want) || got.lost != 0 {
				t.Errorf("the log has %q, and %d bytes are lost", got.lines, got.lost)
			}
		})
	}
}

// TestPipeWithoutAnAgent: a writer waits for the next agent, and loses nothing. A run that ends meanwhile loses nothing
// either, as long as somebody has its pipe.
func TestPipeWithoutAnAgent(t *testing.T) {
	r := newRig(t)
	stop := r.run()
	out, _, run := r.begin(piped(16<<20, 2))
	write(t, out, numbered(1, 1000))
	stop()
	var writer sync.WaitGroup
	writer.Go(func() { // 5 MB: more than a pipe holds
		if _, err := out.WriteString(numbered(1001, 400_000)); err != nil {
			t.Error(err)
		}
	})
	r.reopen()
	r.run()
	writer.Wait()
	if text := r.Text(run); !strings.HasSuffix(text, "line 400000") {
		t.Errorf("the run ends with %q", text[max(0, len(text)-100):])
	}
	got := r.ask(wire.LogQuestion{Stream: wire.StreamStdout})
	if len(got.lines) != 400_000 || got.lost != 0 {
		t.Fatalf("%d lines, %d bytes are lost", len(got.lines), got.lost)
	}
	for i, l := range got.lines {
		if l != fmt.Sprintf("line %d", i+1) {
			t.Fatalf("line %d is %q", i+1, l)
		}
	}
}

// TestPipeEndsWithoutAnAgent: the next agent removes the pipes of a run that is over.
func TestPipeEndsWithoutAnAgent(t *testing.T) {
	r := newRig(t)
	stop := r.run()
	out, errs, _ := r.begin(piped(64<<10, 2))
	stop()
	_, _ = out.Close(), errs.Close()
	if n := r.pipes(); n != 2 {
		t.Fatalf("%d pipes without an agent", n)
	}
	r.reopen()
	r.run()
	harness.Eventually(t, "the pipes to go", func() bool { return r.pipes() == 0 })
}

// TestFloodOfAPipe: the bound of a log holds, and every byte is there or counted.
func TestFloodOfAPipe(t *testing.T) {
	r := newRig(t)
	r.run()
	out, errs, run := r.begin(piped(256<<10, 100)) // keep removes no rotated text
	most := int64(0)
	for range 100 {
		write(t, out, strings.Repeat("y\n", 128<<10))
		most = max(most, held(r.path("stdout")))
	}
	_, _ = out.Close(), errs.Close()
	if text := r.Text(run); !strings.HasSuffix(text, "y\ny") {
		t.Errorf("the run ends with %q", text[max(0, len(text)-100):])
	}
	if most > 3*256<<10+1<<20 {
		t.Errorf("the file held %d bytes", most)
	}
	got := r.ask(wire.LogQuestion{Stream: wire.StreamStdout})
	if kept := int64(2 * len(got.lines)); kept+got.lost != 100*256<<10 || got.lost == 0 {
		t.Errorf("%d bytes are there and %d are lost, of %d", kept, got.lost, 100*256<<10)
	}
}

// TestPipeOnFullDisk: a full disk holds up no writer.
func TestPipeOnFullDisk(t *testing.T) {
	r := newRigOnSmallDisk(t)
	r.run()
	out, errs, _ := r.begin(piped(16<<20, 1))
	written := make(chan error, 1)
	go func() {
		_, err := out.WriteString(strings.Repeat("y\n", 4<<20))
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the writer waits")
	}
	_, _ = out.Close(), errs.Close()
	harness.Eventually(t, "the pipes to go", func() bool { return r.pipes() == 0 })
}

// TestPipeOfARemovedLog: a log that somebody has removed begins again.
func TestPipeOfARemovedLog(t *testing.T) {
	r := newRig(t)
	r.run()
	out, _, run := r.begin(piped(64<<10, 1))
	write(t, out, "old\n")
	_ = r.Text(run)
	for _, name := range []string{"stdout", ".stdout"} {
		if err := os.Remove(r.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, out, "new\n")
	harness.Eventually(t, "the new line", func() bool { return strings.Contains(r.Text(run), "new") })
	if since := r.Removed(api()); since != 0 {
		t.Errorf("the log counts as removed since %d", since)
	}
}

// TestSweepKeepsALogWithAPipe: a run that only waits may still write.
func TestSweepKeepsALogWithAPipe(t *testing.T) {
	r := newRig(t)
	r.run()
	out, errs, run := r.begin(piped(64<<10, 1))
	write(t, out, "first\n")
	_ = r.Text(run)
	r.age(time.Hour)
	if r.Sweep(nil); !exists(r.path("stdout")) {
		t.Fatal("the log of a run is gone")
	}
	_, _ = out.Close(), errs.Close()
	harness.Eventually(t, "the pipes to go", func() bool { return r.pipes() == 0 })
	r.age(time.Hour)
	if r.Sweep(nil); exists(r.path("stdout")) {
		t.Error("the log of nobody is there")
	}
}

// age makes a log look as if nobody had changed it for some time.
func (r *rig) age(d time.Duration) {
	r.t.Helper()
	then := time.Now().Add(-d)
	for _, name := range []string{"stdout", "stderr", "."} {
		if err := os.Chtimes(r.path(name), then, then); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestEmptied: a log that its own program has emptied says so, names the remedy, and counts what is gone.
func TestEmptied(t *testing.T) {
	r := newRig(t)
	out, _, _ := r.begin(policy(64<<10, 1))
	write(t, out, numbered(1, 100))
	r.Look(api())
	for range 2 {
		byName(t, out, "new\n")
		r.Look(api())
		got := r.ask(wire.LogQuestion{Stream: wire.StreamStdout})
		if len(got.lines) != 2 || got.lines[0] != "new" || !strings.Contains(got.lines[1], "log: {pipe: true}") {
			t.Errorf("the log has %q", got.lines)
		}
		if got.lost < int64(len(numbered(1, 100))) {
			t.Errorf("%d bytes are lost", got.lost)
		}
	}
}
