package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// smallDisk makes the data directory of a rig a file system of its own. The tests run in a mount namespace of their own
// too.
func (r *rig) smallDisk(size string) string {
	r.t.Helper()
	data := filepath.Join(r.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size="+size); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		r.server.kill()
		if err := unix.Unmount(data, unix.MNT_DETACH); err != nil {
			r.t.Error(err)
		}
	})
	return data
}

// fill leaves no room on the disk of a directory, and returns what frees it again.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// readiness asks /readyz.
func (r *rig) readiness() (status int, text string) {
	resp, err := http.Get("http://" + r.http + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	var body any
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return resp.StatusCode, err.Error()
	}
	data, _ := json.Marshal(body)
	return resp.StatusCode, string(data)
}

// TestI1_I4_FullDisk: with no room left under server and agent, what cannot be stored is refused, /readyz says why, a
// crash is still followed by a relaunch, a kill -9 loses nothing, and with room again all goes on.
func TestI1_I4_FullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.real = true
	data := r.smallDisk("24m")
	r.start(false, never)
	p, q := r.process("p"), r.process("q")
	task, err := r.submit(p, judge.Start)
	if err != nil {
		t.Fatal(err)
	}
	before := r.await(p, task)
	free := fill(t, data)
	harness.Eventually(t, "a call to be refused", func() bool {
		_, err := r.submit(q, judge.Start)
		return err != nil
	})
	if status, text := r.readiness(); status != http.StatusServiceUnavailable || !strings.Contains(text, "database") ||
		!strings.Contains(text, "full") {
		t.Errorf("/readyz: %d %s, want 503 and that the disk of the database is full", status, text)
	}
	pid := harness.ReadPID(t, filepath.Join(r.work, "p", "d.pid"))
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "a relaunch on a full disk", func() bool {
		return judge.Ran(p, "start") == 2 &&
			judge.Instances(t, filepath.Join(r.work, "p")) == 1
	})
	// A drover that begins on the full disk supervises, too.
	r.server.kill()
	free()
	free = fill(t, data) // also the room that the killed one has left
	r.server = r.run(roleDev, never)
	harness.Signal(t, harness.ReadPID(t, filepath.Join(r.work, "p", "d.pid")), syscall.SIGKILL)
	harness.Eventually(t, "a relaunch by a drover that began on a full disk", func() bool {
		return judge.Ran(p, "start") == 3 && judge.Instances(t, filepath.Join(r.work, "p")) == 1
	})
	// The calls that were refused are known to nobody: none is carried out later.
	refused := judge.Ran(q, "start")
	free()
	harness.Eventually(t, "drover to be ready again", func() bool {
		status, _ := r.readiness()
		return status == http.StatusOK
	})
	if got := r.operate(p, judge.Query); got.PID <= 1 || got.PID == pid || !got.Hosted {
		t.Errorf("pid %d hosted %v after the relaunch of pid %d", got.PID, got.Hosted, pid)
	}
	if after := r.await(p, task); after.Code != before.Code || after.Msg != before.Msg {
		t.Errorf("the outcome changed from %q to %q", before.Msg, after.Msg)
	}
	r.server.kill()
	r.start(false, never)
	if got := r.operate(p, judge.Start); got.Code != 828 {
		t.Errorf("start after the restart: %d %s, want 828", got.Code, got.Msg)
	}
	r.operate(q, judge.Query)
	if n := judge.Ran(q, "start"); n != refused {
		t.Errorf("%san operation that was refused ran %d times later", harness.MoreThan(refused, n), n-refused)
	}
}

// TestStopsOnAFullDisk: stop, kill and unhost work, more than once and over both wires; all else is refused with the
// reason, and what is shown is said to be old. With room again all is as before.
func TestStopsOnAFullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.real = true
	data := r.smallDisk("32m")
	r.start(false, never)
	names := []string{"a", "b", "c", "d", "wire"}
	processes := map[string]*harness.Process{}
	for _, name := range append(names, "other") {
		processes[name] = r.process(name)
		if got := r.operate(processes[name], judge.Start); got.Code != 0 {
			t.Fatalf("start of %s: %d %s", name, got.Code, got.Msg)
		}
	}
	drover := func(args ...string) (int, string) {
		ctx, cancel := context.WithTimeout(context.Background(), harness.CommandPatience)
		defer cancel()
		cmd := exec.CommandContext(ctx, binaries.drover, append(args, "--data-dir", data)...)
		cmd.Env = harness.Environment(r.dir)
		out, err := cmd.CombinedOutput()
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if code, out := drover("ps"); code != 0 {
		t.Fatalf("ps: %d\n%s", code, out)
	}
	free := fill(t, data)
	const reason = "the disk of the server's database is full, since "
	harness.Eventually(t, "a start to be refused", func() bool {
		code, out := drover("restart", "faults/other")
		return code == 1 && strings.Contains(out, "cannot accept the operation: "+reason)
	})
	if _, err := r.submit(processes["other"], judge.Restart); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("a restart through GSE: %v, want the reason", err)
	}
	for _, name := range names {
		switch name {
		case "c":
			if code, out := drover("kill", "faults/c"); code != 0 {
				t.Errorf("kill: %d\n%s", code, out)
			}
		case "wire":
			if got := r.operate(processes[name], judge.Stop); got.Code != 0 {
				t.Errorf("stop through GSE: %d %s", got.Code, got.Msg)
			}
		default:
			if code, out := drover("stop", "faults/"+name); code != 0 {
				t.Errorf("stop of %s: %d\n%s", name, code, out)
			}
		}
		if n := judge.Instances(t, judge.Dir(processes[name])); n != 0 {
			t.Errorf("%s has %d instances", name, n)
		}
	}
	if code, out := drover("unhost", "faults/other"); code != 0 {
		t.Errorf("unhost: %d\n%s", code, out)
	}
	for _, args := range [][]string{{"ps"}, {"why"}, {"events"}, {"ps", "--count"}} {
		code, out := drover(args...)
		if code == 0 || !strings.Contains(out, reason) || strings.Contains(out, "nothing is wrong") {
			t.Errorf("%v: exit code %d, and it says\n%s", args, code, out)
		}
	}
	if _, out := drover("ps"); !strings.Contains(out, "running (stale)") {
		t.Errorf("ps does not say that it is old:\n%s", out)
	}
	free()
	harness.Eventually(t, "ps to be of now", func() bool {
		_, _ = r.readiness()
		code, out := drover("ps")
		return code == 0 && !strings.Contains(out, "stale")
	})
	if code, out := drover("start", "faults/a"); code != 0 {
		t.Errorf("start with room again: %d\n%s", code, out)
	}
	for _, file := range []string{"server/drover.db.reserve", "agent/reserve"} {
		if info, err := os.Stat(filepath.Join(data, file)); err != nil || info.Size() < 2<<20 {
			t.Errorf("%s: %v, %v: it was not made again", file, info, err)
		}
	}
}

// TestStartOnAFullDisk: drover says that there is no room, and starts nothing by halves.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.real = true
	data := r.smallDisk("1m")
	fill(t, data)
	r.refused("no space left on device", data)
}

// refused runs drover, which must end by itself, fail and say both: what is wrong, and where or what to do.
func (r *rig) refused(what, where string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.CommandPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binaries.drover, "dev", "--data-dir", filepath.Join(r.dir, "data"), "--http",
		r.http)
	cmd.Env = harness.Environment(r.dir)
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		r.t.Errorf("drover ran: %v\n%s", err, out)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := lines[len(lines)-1]
	r.t.Logf("it says: %s", last)
	if !strings.Contains(last, what) || !strings.Contains(last, where) {
		r.t.Errorf("it says %q, want both %q and %q", last, what, where)
	}
	if strings.Contains(string(out), "goroutine ") {
		r.t.Errorf("it fell over:\n%s", out)
	}
}

// TestReadOnlyDataDirectory: the same.
func TestReadOnlyDataDirectory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.real = true
	data := r.smallDisk("24m")
	r.start(false, never)
	p := r.process("p")
	r.operate(p, judge.Start)
	r.server.kill()
	remount := func(flags uintptr) {
		if err := unix.Mount("", data, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	r.refused("read-only", data)
	remount(0)
	r.start(false, never)
	if got := r.operate(p, judge.Start); got.Code != 828 {
		t.Errorf("start when it can be written again: %d %s, want 828", got.Code, got.Msg)
	}
}

// TestForeignLocks: a second drover in the same place is refused and the first one goes on; so is one whose files
// others hold.
func TestForeignLocks(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	r.refused("in use by another drover", "--data-dir")
	p := r.process("p")
	if got := r.operate(p, judge.Start); got.Code != 0 {
		t.Errorf("start by the first drover: %d %s", got.Code, got.Msg)
	}
	r.server.kill()
	state := filepath.Join(r.dir, "data", "agent", "state.db")
	f, err := os.OpenFile(state, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	r.refused("another agent", state)
	f.Close()
	if got := judge.Instances(t, filepath.Join(r.work, "p")); got != 1 {
		t.Errorf("%d instances of the process, want it untouched", got)
	}
}

// TestDamagedFiles cuts, fills and overwrites the files of a drover that was killed. It either takes them as they are
// or says which file it is and what to do, leaves the file as it was found, and touches no process.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	p := r.process("p")
	r.operate(p, judge.Start)
	if err := r.server.cmd.Process.Signal(syscall.SIGTERM); err != nil { // so that the log is folded into the database
		t.Fatal(err)
	}
	<-r.server.ended
	garbage := bytes.Repeat([]byte("drover? "), 1024)
	for _, c := range []struct {
		file, what string
		harmless   bool
		damage     func(data []byte) []byte
	}{
		// bbolt lets its file grow ahead: half of it may have all that is in use.
		{"agent/state.db", "damaged", false, func(data []byte) []byte { return data[:4*os.Getpagesize()] }},
		{"agent/state.db", "", false, func([]byte) []byte { return garbage }},
		{"agent/state.db", "", false, func(data []byte) []byte {
			return append(bytes.Clone(garbage), data[len(garbage):]...)
		}},
		{"agent/runtime.db", "", true, func(data []byte) []byte { return data[:len(data)/2] }},
		{"agent/runtime.db", "", true, func([]byte) []byte { return garbage }},
		{"agent/runtime.db", "", true, func([]byte) []byte { return nil }},
		{"agent/agent.nkey", "", false, func([]byte) []byte { return []byte("no key") }},
		{"agent/agent.nkey", "", false, func(data []byte) []byte { return data[:len(data)/2] }},
		{"server/manifest.nkey", "", false, func([]byte) []byte { return []byte("no key") }},
		{"server/drover.db", "", false, func(data []byte) []byte { return data[:len(data)/2/4096*4096] }},
		{"server/drover.db", "", false, func([]byte) []byte { return garbage }},
		{"server/drover.db", "", false, func(data []byte) []byte {
			return append(data[:4096:4096], bytes.Repeat([]byte{0xa5}, len(data)-4096)...)
		}},
	} {
		path := filepath.Join(r.dir, "data", c.file)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := c.damage(bytes.Clone(good))
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.harmless {
			r.start(false, never)
			if got := r.operate(p, judge.Start); got.Code != 828 {
				t.Errorf("%s damaged: start: %d %s, want 828", c.file, got.Code, got.Msg)
			}
			_ = r.server.cmd.Process.Signal(syscall.SIGTERM)
			<-r.server.ended
			continue
		}
		r.refused(c.what, path)
		// SQLite marks its own files
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, bad) &&
			!strings.HasSuffix(path, "drover.db") {
			t.Errorf("%s was changed by a drover that did not start: %v", c.file, err)
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := judge.Instances(t, filepath.Join(r.work, "p")); n != 1 || judge.Ran(p, "start") != 1 {
		t.Errorf("%s%d instances, started %d times", harness.MoreThan(1, max(n, judge.Ran(p, "start"))), n, judge.Ran(p, "start"))
	}
	r.start(false, never)
	if got := r.operate(p, judge.Start); got.Code != 828 {
		t.Errorf("start with the right files again: %d %s, want 828", got.Code, got.Msg)
	}
}
