package faults_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// used is what an agent holds of its host.
type used struct {
	rss, state, runtime     int64 // bytes
	open, threads           int
	outputs, groups, logged int
}

// held is how many descriptors an agent may hold of a process that it has looked at, which it does when there is time
// for it.
const held = 6

// TestI4_ManyCrashes: processes that crash again and again, each a second after its start, cost the real agent no more
// memory, open files, output files, control groups or disk than a few crashes of each, and a bounded number of log
// lines each.
func TestI4_ManyCrashes(t *testing.T) {
	t.Parallel()
	many, few, crashes := 20, 5, 25
	if judge.Long() {
		many, crashes = 100, 100
	}
	r := newRig(t)
	r.start(true, never)
	dirs := make([]string, many)
	var callers sync.WaitGroup
	for i := range dirs {
		p := r.process(fmt.Sprint("p", i))
		// It is killed as soon as it is there: a command that waits for it might wait in vain.
		p.Control["start_cmd"] = "setsid sh -c 'echo $$ >d.pid; exec sleep 100000' >/dev/null 2>&1 &"
		p.Policy = harness.Object{"start_check_secs": 1, "start_interval": 1, "start_retries": 100 * crashes}
		dirs[i] = filepath.Join(r.work, p.Name)
		callers.Go(func() {
			if got := r.operate(p, judge.Start); got.Code != 0 {
				t.Errorf("%s: start: %d %s", p.Name, got.Code, got.Msg)
			}
		})
	}
	callers.Wait()
	if t.Failed() {
		return
	}
	begin := time.Now()
	r.crashAll(dirs, few)
	before := r.used(dirs)
	r.crashAll(dirs, crashes-few)
	var after used
	t.Logf("%d crashes in %v", many*crashes, time.Since(begin).Round(time.Second))
	defer func() {
		t.Logf("after %d crashes of each of %d: %+v", few, many, before)
		t.Logf("after %d crashes: %+v", crashes, after)
	}()
	harness.Eventually(t, "the agent to give back what the crashes have cost", func() bool {
		after = r.used(dirs)
		return after.open <= held*many+50 && after.outputs <= 2*many+5 && after.groups <= 2*many+5 &&
			after.threads <= before.threads+8
	})
	const mib = 1 << 20
	if after.rss > before.rss+10*mib {
		t.Errorf("the agent takes %d MiB, it took %d", after.rss/mib, before.rss/mib)
	}
	if after.state > before.state+mib/4 || after.runtime > before.runtime+mib/4 {
		t.Errorf("state.db takes %d bytes and runtime.db %d, they took %d and %d", after.state, after.runtime,
			before.state, before.runtime)
	}
	if n := after.logged - before.logged; n > 8*many*(crashes-few) {
		t.Errorf("%d lines were logged of %d crashes", n, many*(crashes-few))
	}
}

// crashAll kills every process so many times, each time as soon as it is back.
func (r *rig) crashAll(dirs []string, times int) {
	r.t.Helper()
	var killers sync.WaitGroup
	for _, dir := range dirs {
		killers.Go(func() {
			last := 0
			for range times {
				last = r.crashed(dir, last)
			}
			harness.Eventually(r.t, "the last instance of "+dir, func() bool {
				p := pidIn(dir)
				return p > 1 &&
					p != last && judge.IsInstance(p, dir)
			})
		})
	}
	killers.Wait()
}

// crashed kills the next instance after the one with the pid, and returns its pid.
func (r *rig) crashed(dir string, last int) (pid int) {
	harness.Eventually(r.t, "an instance of "+dir, func() bool {
		pid = pidIn(dir)
		if pid <= 1 || pid == last {
			return false
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return false
		}
		defer unix.Close(fd)
		return judge.IsInstance(pid, dir) && unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0) == nil
	})
	return pid
}

// pidIn reads the pid file of a daemon; 0 for none.
func pidIn(dir string) int {
	data, _ := os.ReadFile(filepath.Join(dir, "d.pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}

// used looks at the agent.
func (r *rig) used(dirs []string) used {
	r.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", r.agent.cmd.Process.Pid)
	count := func(pattern string) int {
		found, err := filepath.Glob(pattern)
		if err != nil {
			r.t.Fatal(err)
		}
		return len(found)
	}
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(r.dir, "agent", name))
		if err != nil {
			r.t.Fatal(err)
		}
		return info.Size()
	}
	u := used{
		open: count(proc + "fd/*"), threads: count(proc + "task/*"),
		outputs: count(filepath.Join(r.dir, "agent", "output", "*")), state: size("state.db"),
		runtime: size("runtime.db"),
	}
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		r.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	u.rss = kib << 10
	log, err := os.ReadFile(filepath.Join(r.dir, "log"))
	if err != nil {
		r.t.Fatal(err)
	}
	u.logged = bytes.Count(log, []byte("\n"))
	if group := groupsOf(r.t, pidIn(dirs[0])); group != "" {
		u.groups = count(group + "/*/cgroup.procs")
	}
	return u
}

// groupsOf returns the directory of the control groups among which a process has its own; empty where it is in none of
// drover's.
func groupsOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "" // it has just been killed
	}
	for line := range strings.Lines(string(text)) {
		path, v2 := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !v2 || !strings.Contains(path, "drover-") {
			continue
		}
		for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			if dir := filepath.Dir(mount + path); dirExists(dir) {
				return dir
			}
		}
	}
	return ""
}

func dirExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
