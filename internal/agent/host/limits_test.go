package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	v1 "drover/api/v1"
	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/process"
)

// TestHardLimits: what a command takes beyond its limit ends it, which can be told from any other SIGKILL; without
// controllers the answer is that it is not limited.
func TestHardLimits(t *testing.T) {
	h := open(t, t.TempDir())
	if notes := h.LimitNotes(&process.Spec{}); len(notes) > 0 {
		t.Errorf("no limits: %q", notes)
	}
	hard := &v1.Limits{Memory: 32 << 20}
	if notes := h.LimitNotes(&process.Spec{Limits: hard}); len(notes) > 0 {
		if !strings.HasPrefix(notes[0], "limits.memory cannot be enforced on this host: no ") {
			t.Errorf("notes %q", notes)
		}
		return // an ordinary user's host
	}
	hog := spec("/", "tail", "")
	hog.Limits = hard
	for run, c := range map[string]struct {
		line string
		oom  bool
	}{
		"hog": {
			"x=aaaaaaaaaaaaaaaa; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do x=$x$x; done", true,
		},
		"end": {"kill -9 $$", false},
	} {
		_, exits := watched(t, h, run, c.line, hog)
		if e := <-exits; !e.Known || e.Signal != syscall.SIGKILL {
			t.Errorf("%s ended with %s", run, e)
		}
		if n := h.OOM(run); n > 0 != c.oom {
			t.Errorf("%s: %d were ended for want of memory", run, n)
		}
		h.Discard(run)
		if h.OOM(run) != 0 {
			t.Errorf("%s: OOM of a run that is gone", run)
		}
	}
}

// watched launches a command of a run and lets it run. Its end arrives on the channel.
func watched(t *testing.T, h *host.Host, run, line string, of *process.Spec) (instance.Identity, <-chan liveness.Exit) {
	t.Helper()
	child, err := h.Launch(process.ID{}, run, line, of)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan liveness.Exit, 1)
	stop, err := h.Watch(child.Identity(), func(e liveness.Exit) { ended <- e })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	return child.Identity(), ended
}

// limitOf returns the soft limit of a process that /proc/PID/limits shows under a name, as proc(5) says.
func limitOf(t *testing.T, id instance.Identity, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", id.PID))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if values, ok := strings.CutPrefix(line, name); ok {
			return strings.Fields(values)[0]
		}
	}
	t.Fatalf("no limit %s", name)
	return ""
}

// mayRaise reports whether this process has CAP_SYS_RESOURCE.
func mayRaise(t *testing.T) bool {
	t.Helper()
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// TestRelimit: all processes of a run get the new limits, and the answer names those that they did not get.
func TestRelimit(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir)
	was := spec("/", "sh", "")
	was.Limits = &v1.Limits{OpenFiles: 444, CoreSize: new(v1.LimitSize(0))}
	id, exits := watched(t, h, "limited", fmt.Sprintf(
		"sh -c 'echo $$ >%[1]s/worker; exec sleep 1000' & echo $$ >%[1]s/main; exec sleep 1000", dir), was)
	members := []instance.Identity{await(t, filepath.Join(dir, "main")), await(t, filepath.Join(dir, "worker"))}
	scope := instance.Scope{Root: id, Run: "limited"}
	shown := func(name, want string) {
		t.Helper()
		for _, id := range members {
			if got := limitOf(t, id, name); got != want {
				t.Errorf("%s of pid %d is %s, want %s", name, id.PID, got, want)
			}
		}
	}
	shown("Max open files", "444")

	is := spec("/", "sh", "")
	is.Limits = &v1.Limits{OpenFiles: 400, FileSize: new(v1.LimitSize(1 << 30)), StackSize: 1 << 20}
	failed := h.Relimit(scope, was, is)
	if len(failed) != 1 || failed["core_size"] != "the process keeps its limit until then" {
		t.Errorf("failed: %v", failed)
	}
	shown("Max open files", "400")
	shown("Max file size", fmt.Sprint(1<<30))
	shown("Max core file size", "0")

	more := spec("/", "sh", "")
	more.Limits = &v1.Limits{OpenFiles: 500, FileSize: new(v1.LimitSize(1 << 30)), StackSize: 2 << 20}
	want, why := "500", ""
	if !mayRaise(t) {
		want, why = "400", "operation not permitted"
	}
	if failed := h.Relimit(scope, is, more); failed["open_files"] != why || len(failed) > 1 {
		t.Errorf("failed: %v", failed)
	}
	shown("Max open files", want)

	adopted := spec("/", "sh", "")
	adopted.Limits = &v1.Limits{Memory: 64 << 20, CPU: 50, Tasks: 9}
	if failed := h.Relimit(instance.Scope{Root: id}, was, adopted); len(failed) != 5 ||
		failed["memory"] != "the process runs in no control group of drover" {
		t.Errorf("a process that drover did not start: %v", failed)
	}
	if _, _, err := h.EndTree(t.Context(), scope, 0); err != nil {
		t.Log(err) // without control groups there is no proof
	}
	<-exits
	if failed := h.Relimit(scope, was, is); failed["open_files"] != "" {
		t.Errorf("after the end: %v", failed)
	}
	h.Discard("limited")
}

// TestRelimitOfAControlGroup: the group of a running process gets the new limits, and the kernel ends what takes more.
func TestRelimitOfAControlGroup(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir)
	was, is := spec("/", "sh", ""), spec("/", "sh", "")
	was.Limits, is.Limits = &v1.Limits{Memory: 600 << 20}, &v1.Limits{Memory: 32 << 20}
	if notes := h.LimitNotes(was); len(notes) > 0 {
		t.Logf("not here: %q", notes)
		return
	}
	id, exits := watched(t, h, "grows", fmt.Sprintf("echo $$ >%[1]s/main; while [ ! -e %[1]s/go ]; do sleep 0.05; done; "+
		"head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null; kill -9 $$", dir), was)
	await(t, filepath.Join(dir, "main"))
	if failed := h.Relimit(instance.Scope{Root: id, Run: "grows"}, was, is); len(failed) > 0 {
		t.Fatalf("failed: %v", failed)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-exits:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
	if h.OOM("grows") == 0 {
		t.Error("nothing was ended for want of memory")
	}
	h.Discard("grows")
}
