package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/probe"
	"drover/internal/process"
)

// asked is what came of one question.
type asked struct {
	exit   liveness.Exit
	full   bool
	output string
}

// question lets a command ask until it ends, or has written too much, and ends it.
func question(t *testing.T, h *host.Host, id, line string) asked {
	t.Helper()
	q, err := h.Question(process.ID{}, id, line, spec("/", "sh", ""))
	if err != nil {
		t.Fatal(err)
	}
	exits := make(chan liveness.Exit, 1)
	stop, err := h.Watch(q.Identity(), func(e liveness.Exit) { exits <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := q.Release(); err != nil {
		t.Fatal(err)
	}
	var a asked
	select {
	case a.exit = <-exits:
	case <-q.Full():
		a.full = true
	}
	end(t, q)
	a.output = q.Output()
	return a
}

func end(t *testing.T, q probe.Question) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if left, err := q.End(ctx); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestQuestion(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir)
	if a := question(t, h, "one", "echo fine; echo really >&2"); a.exit.Code != 0 || a.output != "fine\nreally\n" {
		t.Errorf("%+v", a)
	}
	if a := question(t, h, "two", "exit 3"); a.exit.Code != 3 || a.output != "" {
		t.Errorf("%+v", a)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the outputs are %v, %v", left, err)
	}
	if _, err := h.Question(process.ID{}, "three", "true", spec("/no/such/place", "sh", "")); err == nil ||
		!strings.Contains(err.Error(), "setup_path") {
		t.Error(err)
	}
	bad := spec("/", "sh", "")
	bad.User = "no-such-user"
	if _, err := h.Question(process.ID{}, "four", "true", bad); err == nil || !strings.Contains(err.Error(), "spec.identity.user") {
		t.Error(err)
	}
}

// TestAQuestionIsEndedWhole: with all that it has started, whether that holds its output or not.
func TestAQuestionIsEndedWhole(t *testing.T) {
	h := open(t, t.TempDir())
	endedWhole(t, h,
		"sleep 1000 & echo $! >%s; wait",
		"setsid sleep 1000 & echo $! >%s; exit 0",
		"trap '' TERM; sleep 1000 & echo $! >%s; exit 0",
	)
}

// endedWhole asks by commands that start another process and write its pid to a file, and ends the questions: then
// nothing is left.
func endedWhole(t *testing.T, h *host.Host, lines ...string) {
	t.Helper()
	for i, line := range lines {
		file := filepath.Join(t.TempDir(), "pid")
		q, err := h.Question(process.ID{}, "tree-"+strconv.Itoa(i), fmt.Sprintf(line, file), spec("/", "sh", ""))
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Release(); err != nil {
			t.Fatal(err)
		}
		child := await(t, file)
		end(t, q)
		if live().Same(child) || live().Same(q.Identity()) {
			t.Errorf("of %q something is left", line)
		}
	}
}

// await waits until a file names a process.
func await(t *testing.T, file string) instance.Identity {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		id, err := live().Identify(pid)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	t.Fatalf("nothing was written to %s", file)
	return instance.Identity{}
}

// TestAGigabyte fills neither memory nor disk, and its writer does not go on.
func TestAGigabyte(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := question(t, h, "flood", "echo begin; head -c 1073741824 /dev/zero; echo end")
	runtime.ReadMemStats(&after)
	if !a.full || !strings.HasPrefix(a.output, "begin\n") || len(a.output) > 4<<10 {
		t.Errorf("full is %v, %d bytes are kept", a.full, len(a.output))
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes of memory were used", used)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the outputs are %v, %v", left, err)
	}
}

// TestAnUnreleasedQuestion never runs.
func TestAnUnreleasedQuestion(t *testing.T) {
	h := open(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "ran")
	q, err := h.Question(process.ID{}, "unrun", "touch "+file, spec("/", "sh", ""))
	if err != nil {
		t.Fatal(err)
	}
	end(t, q)
	if _, err := os.Stat(file); !os.IsNotExist(err) || live().Same(q.Identity()) {
		t.Errorf("it ran: %v", err)
	}
}

// TestAQuestionOfAnEarlierAgent that hangs is ended by the next sweep.
func TestAQuestionOfAnEarlierAgent(t *testing.T) {
	name := treeName()
	tree := func(c *host.Config) { c.Name = name }
	earlier := open(t, t.TempDir(), tree)
	if earlier.Groups() == "none" {
		return // there is nothing to know it by
	}
	file := filepath.Join(t.TempDir(), "pid")
	q, err := earlier.Question(process.ID{}, "late", "sleep 1000 & echo $! >"+file+"; wait", spec("/", "sh", ""))
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Release(); err != nil {
		t.Fatal(err)
	}
	child := await(t, file)
	open(t, t.TempDir(), tree).Sweep(nothing)
	if live().Same(child) || live().Same(q.Identity()) {
		t.Error("it is still there")
	}
	end(t, q)
}

// TestAQuestionWithoutGroups: what holds its output, or outlasts its time, is searched for and ended where nothing else
// holds it.
func TestAQuestionWithoutGroups(t *testing.T) {
	h := open(t, t.TempDir())
	ungroup(t, h)
	if a := question(t, h, "fine", "echo fine"); a.exit.Code != 0 || a.output != "fine\n" {
		t.Errorf("%+v", a)
	}
	endedWhole(t, h, "sleep 1000 & echo $! >%s; wait", "sleep 1000 & echo $! >%s; exit 0")
}
