package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/procfs"
	"drover/internal/agent/record"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/test/judge"
)

// How often a pid is used again: in the ordinary tests, and in the long run.
const (
	reuses     = 1000
	reusesLong = 10000
	reuseBatch = 50
)

// TestI6_ReusedPIDs ends processes and has the kernel give their pids to victims at once. Whatever is then done to the
// old process, by its recorded identity or by its stale pid file, must not reach the victim: a signal would end it.
func TestI6_ReusedPIDs(t *testing.T) {
	want := reuses
	if judge.Long() {
		want = reusesLong
	}
	fs := procfs.New("/proc")
	log := slog.New(slog.DiscardHandler)
	watcher, err := liveness.New(fs, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watcher.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	dir := harness.Workdir(t)
	h, err := host.New(host.Config{
		FS: fs, Watcher: watcher, Name: "drover-reuse-" + strconv.Itoa(os.Getpid()),
		Outputs: t.TempDir(), Proofs: filepath.Join(t.TempDir(), "proofs"), ClockOffset: host.ClockOffset(), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	r := reuser{
		t: t, fs: fs, host: h, dir: dir, owner: harness.Sleeper(t, dir, "ownerd"),
		victim: harness.Sleeper(t, dir, "victimd"),
	}
	for tries := 0; r.done < want; tries++ {
		if tries > 3*want/reuseBatch {
			t.Fatalf("the kernel gave only %d pids again", r.done)
		}
		r.batch()
		if t.Failed() {
			return
		}
	}
	t.Logf("%d pids were used again", r.done)
}

type reuser struct {
	t             *testing.T
	fs            procfs.FS
	host          *host.Host
	dir           string
	owner, victim string
	done          int
}

// batch starts some owners, ends them a while later, and tries each pid with a victim. Together, because a process must
// be some clock ticks old before its pid can be given to one that differs from it.
func (r *reuser) batch() {
	var owners []instance.Identity
	var commands []*exec.Cmd
	for range reuseBatch {
		cmd := exec.Command(r.owner, "1000")
		if err := cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		id, err := r.fs.Identify(cmd.Process.Pid)
		if err != nil {
			r.t.Fatal(err)
		}
		owners, commands = append(owners, id), append(commands, cmd)
	}
	<-time.After(20 * time.Millisecond)
	for _, cmd := range commands {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
	}
	for _, id := range owners {
		r.one(id)
	}
}

// one tries one pid.
func (r *reuser) one(owner instance.Identity) {
	victim, end := r.successor(owner)
	defer end()
	if victim.PID != owner.PID || victim == owner {
		return
	}
	r.done++
	file := filepath.Join(r.dir, "owner.pid")
	if err := os.WriteFile(file, fmt.Appendln(nil, owner.PID), 0o644); err != nil {
		r.t.Fatal(err)
	}
	long := time.Now().Add(-time.Minute)
	if err := os.Chtimes(file, long, long); err != nil {
		r.t.Fatal(err)
	}
	if err := r.host.Signal(owner, syscall.SIGTERM); !errors.Is(err, liveness.ErrGone) {
		r.t.Errorf("a signal to the owner of pid %d: %v, want that it is gone", owner.PID, err)
	}
	if _, left, err := r.host.EndTree(r.t.Context(), instance.Scope{Root: owner}, 0); len(left) > 0 ||
		!errors.Is(err, instance.ErrBestEffort) {
		r.t.Errorf("the end of the owner's tree: left %v, %v", left, err)
	}
	spec := &process.Spec{ProcessName: "ownerd", PIDFile: file, Directory: r.dir, Compat: &v1.Compat{}}
	if s := r.host.Look(spec, record.Runtime{Process: &owner, PIDFile: file}, instance.Ownership{}); s.Alive() {
		r.t.Errorf("the victim is taken for the owner of pid %d: %+v", owner.PID, s)
	}
	spec.ProcessName = "victimd"
	if s := r.host.Look(spec, record.Runtime{}, instance.Ownership{}); s.Alive() {
		r.t.Errorf("a stranger at a reused pid is adopted, only for its name: %+v", s)
	}
	if stop, err := r.host.Watch(owner, func(liveness.Exit) {}); err == nil {
		stop()
		r.t.Error("the victim is watched as the owner")
	}
	if state := harness.Stat(victim.PID); len(state) == 0 || state[0] != "S" && state[0] != "R" && state[0] != "D" {
		r.t.Errorf("the victim at pid %d was signalled: state %v", victim.PID, state)
	}
}

// successor starts a victim with the pid of a process that has ended. A thread of the test that begins in between takes
// the pid for a moment or for good, so it tries some times; the identity that it returns may have another pid.
func (r *reuser) successor(owner instance.Identity) (victim instance.Identity, end func()) {
	last := strconv.AppendInt(nil, int64(owner.PID-1), 10)
	for range 5 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", last, 0); err != nil {
			r.t.Fatal(err)
		}
		cmd := exec.Command(r.victim, "1000")
		if err := cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		end = func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it says that it was killed
		}
		var err error
		if victim, err = r.fs.Identify(cmd.Process.Pid); err != nil {
			r.t.Fatal(err)
		}
		if victim.PID == owner.PID {
			break
		}
		end()
	}
	return victim, end
}
