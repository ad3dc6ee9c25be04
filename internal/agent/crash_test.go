package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	v1 "drover/api/v1"
	"drover/internal/agent/eventlog"
	"drover/internal/agent/host"
	"drover/internal/agent/launch"
	"drover/internal/agent/limit"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation"
	"drover/internal/agent/pidns"
	"drover/internal/agent/probe"
	"drover/internal/agent/procfs"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/agent/supervisor"
	"drover/internal/agent/timetable"
	"drover/internal/group"
	"drover/internal/process"
	"drover/internal/test/harness"
)

// The test binary is also the agent that dies: TestMain turns into it when these are set.
const (
	childDir   = "DROVER_TEST_AGENT_DIR"
	childCrash = "DROVER_TEST_AGENT_CRASH_AT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		at, _ := strconv.Atoi(os.Getenv(childCrash))
		if err := runChild(dir, int64(at)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pidns.Run(m))
}

// dying is a store that kills its own process, as kill -9 would, at the n-th write: before it for odd n, after it for
// even ones. So every moment between two writes is tried.
type dying struct {
	*specstore.Store
	at    int64
	count atomic.Int64
}

func (d *dying) write(do func() error) error {
	if d.count.Add(1) == d.at {
		die()
	}
	err := do()
	if d.count.Add(1) == d.at {
		die()
	}
	return err
}

func die() {
	_ = unix.Kill(unix.Getpid(), syscall.SIGKILL)
	select {}
}

func (d *dying) PutProgress(item string, p record.Progress) error {
	return d.write(func() error { return d.Store.PutProgress(item, p) })
}

func (d *dying) PutRuntime(id process.ID, r record.Runtime) error {
	return d.write(func() error { return d.Store.PutRuntime(id, r) })
}

func (d *dying) PutRecord(r record.Record) error {
	return d.write(func() error { return d.Store.PutRecord(r) })
}

func (d *dying) Finish(item string, id process.ID, o process.Outcome, c specstore.Change) error {
	return d.write(func() error { return d.Store.Finish(item, id, o, c) })
}

func (d *dying) Accept(entries []record.Entry) (fresh, known []record.Entry, err error) {
	err = d.write(func() error {
		fresh, known, err = d.Store.Accept(entries)
		return err
	})
	return fresh, known, err
}

// finished tells the child that its operation is over, and writes the events.
type finished struct {
	done   chan struct{}
	events *eventlog.Log
}

func (f finished) Began(string, time.Duration)                 {}
func (f finished) Changed(process.ID)                          {}
func (f finished) StateShown(process.ID, int64, process.Shown) {}
func (f finished) Happened(e process.Event)                    { f.events.Append(e) }
func (f finished) Removed(process.ID, uint64)                  {}
func (f finished) Finished(string, process.Outcome) {
	close(f.done)
}

// runChild is the agent without a link: it accepts the one order that lies in dir, carries it out, and ends.
func runChild(dir string, crashAt int64) error {
	if err := launch.Prepare(); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	fs := procfs.New("/proc")
	boot, err := fs.BootID()
	if err != nil {
		return err
	}
	store, err := specstore.Open(filepath.Join(dir, "state"), boot)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := hostBeforehand(dir, store); err != nil {
		return err
	}
	journal := &dying{Store: store, at: crashAt}
	watcher, err := liveness.New(fs, log)
	if err != nil {
		return err
	}
	machine, err := host.New(host.Config{
		FS: fs, Watcher: watcher, Name: "drover-crash-" + filepath.Base(dir), Outputs: filepath.Join(dir, "output"),
		Proofs: filepath.Join(dir, "proofs"), ClockOffset: host.ClockOffset(), Log: log,
	})
	if err != nil {
		return err
	}
	events, err := eventlog.Open(eventlog.Config{Dir: filepath.Join(dir, "events"), Log: log})
	if err != nil {
		return err
	}
	over := finished{done: make(chan struct{}), events: events}
	runs := atomic.Int64{}
	newRun := func(id process.ID) string {
		return operation.NewRunID(id, fmt.Sprintf("%d-%d", os.Getpid(), runs.Add(1)))
	}
	prober := probe.New(probe.Config{Host: machine, Clock: host.SinceBoot, NewRun: newRun, Log: log})
	table := timetable.New(timetable.Config{Now: time.Now})
	super := supervisor.New(supervisor.Config{
		Store: journal, Histories: store, Revisions: store, Sink: over, HealthyAfter: time.Minute, Relist: time.Minute,
		BootStarts: 8, Burst: 100, Rate: 100, Log: log,
		Timetables: table, Probes: prober,
		Usages: limit.NewMonitor(limit.Config{Clock: host.SinceBoot, Log: log}),
		Operation: operation.Config{
			Processes: machine, Commands: machine, Trees: machine, Journal: journal, Prober: prober,
			Clock: host.SinceBoot, Log: log, NewRun: newRun, OOM: machine.OOM,
		},
	})
	return accept(journal, super, watcher, over, dir)
}

func accept(journal *dying, super *supervisor.Supervisor, watcher *liveness.Watcher, over finished, dir string) error {
	order, err := readOrder(dir)
	if err != nil {
		return err
	}
	records, err := journal.Records()
	if err != nil {
		return err
	}
	open, unacked, err := journal.Journal()
	if err != nil {
		return err
	}
	super.Adopt(records, open)
	told, since := over.events.Operations()
	super.TellOf(unacked, told, since)
	if order.Op == relaunchOnly {
		return supervise(super, watcher, func(ctx context.Context) error { return untilUp(ctx, super, order.Process) })
	}
	fresh, known, err := journal.Accept([]record.Entry{order})
	if err != nil {
		return err
	}
	if len(known) > 0 && known[0].Outcome != nil {
		return supervise(super, watcher, func(ctx context.Context) error { return untilTold(ctx, dir) })
	}
	super.Submit(fresh)
	return supervise(super, watcher, func(ctx context.Context) error {
		select {
		case <-over.done:
			return nil
		case <-ctx.Done():
			return errors.New("the operation did not end")
		}
	})
}

// supervise runs the agent until the last part has seen what it waits for.
func supervise(super *supervisor.Supervisor, watcher *liveness.Watcher, until func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return group.Run(ctx,
		group.Part{Name: "watcher", Run: watcher.Run},
		group.Part{Name: "supervisor", Run: super.Run},
		group.Part{Name: "until", Run: until},
	)
}

// relaunchOnly is no operation: a hosted process is dead when the agent starts, and has to be launched again.
const relaunchOnly process.Op = "relaunch"

func hostBeforehand(dir string, store *specstore.Store) error {
	order, err := readOrder(dir)
	if err != nil || order.Op != relaunchOnly {
		return err
	}
	if known, err := store.Records(); err != nil || len(known) > 0 {
		return err
	}
	spec := *order.Spec
	spec.Restart = &v1.Restart{
		Delay: new(v1.Duration(10 * time.Millisecond)), MaxDelay: new(v1.Duration(10 * time.Millisecond)),
		Factor: new(1.0), Jitter: new(v1.Percent(0)), GiveUpAfter: new(v1.Count(3)),
	}
	return store.PutRecord(record.Record{
		ID: order.Process, Spec: spec, Hosted: true, Want: process.WantRunning,
	})
}

// untilUp waits until the process is seen running, or given up, and everything about that has been written.
func untilUp(ctx context.Context, super *supervisor.Supervisor, id process.ID) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if status, _, _ := super.Snapshot(id); status.State == "running" || status.State == "given-up" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("the process did not come up")
		}
	}
}

// untilTold waits until an event was written.
func untilTold(ctx context.Context, dir string) error {
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if told, err := toldIn(dir); err != nil || len(told) > 0 {
			tick.Stop()
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("nobody told of the operation")
		}
	}
}

// toldIn returns the kinds of all events, of all lives of the agent, and the numbers of failed relaunches.
func toldIn(dir string) (told []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "events", "*.jsonl"))
	for _, file := range files {
		data, failure := os.ReadFile(file)
		err = errors.Join(err, failure)
		for text := range strings.Lines(string(data)) {
			if !strings.HasSuffix(text, "\n") {
				continue // it is just being written
			}
			var e process.Event
			err = errors.Join(err, json.Unmarshal([]byte(text), &e))
			line := string(e.Kind)
			if e.Kind == process.EventRelaunchFailed {
				line += " " + strconv.Itoa(e.Attempt)
			}
			told = append(told, line)
		}
	}
	return told, err
}

// readOrder reads the operation to carry out: the file holds its name.
func readOrder(dir string) (record.Entry, error) {
	op, err := os.ReadFile(filepath.Join(dir, "op"))
	if err != nil {
		return record.Entry{}, err
	}
	return record.Entry{
		Item: "item-1", Process: process.ID{Namespace: "crash", Name: "test"}, Op: process.Op(op), Spec: crashSpec(dir),
		BeginBy: host.SinceBoot() + time.Hour,
	}, nil
}

// crashSpec is a daemon in shell: each command writes a line into commands.log when it really runs.
func crashSpec(dir string) *process.Spec {
	note := func(name, line string) string { return "echo " + name + " >>commands.log; " + line }
	start := "[ -e broken ] && exit 3; setsid sh -c 'echo $$ >d.pid; exec sleep 1000' >/dev/null 2>&1 & " +
		"until [ -s d.pid ] && [ \"$(cat /proc/$(cat d.pid)/comm)\" = sleep ]; do :; done"
	stop := `kill $(cat d.pid); while kill -0 $(cat d.pid) 2>/dev/null; do :; done; rm d.pid`
	return &process.Spec{
		ProcessName: "sleep",
		Directory:   dir,
		PIDFile:     filepath.Join(dir, "d.pid"),
		User:        "root",
		Start:       note("start", start),
		Stop:        note("stop", stop),
		Reload:      &v1.Reload{Command: note("reload", "true")},
		Ready:       &v1.Ready{Alive: new(v1.Duration(20 * time.Millisecond)), Within: new(v1.Duration(10_000 * time.Millisecond))},
		Compat:      &v1.Compat{KillCommand: note("kill", strings.Replace(stop, "kill ", "kill -9 ", 1)), StartCheckEnd: 1, StopCheck: 2, StartRetries: 3, StartInterval: 1, OpTimeout: 20},
	}
}

// TestKillAtEveryWrite kills the agent before and after every write to its journal, for every operation that runs a
// command, and lets a second agent go on: no command runs twice, and what ran once is reported and told once.
func TestKillAtEveryWrite(t *testing.T) {
	for _, c := range []struct {
		op       process.Op
		running  bool
		commands []string
		told     process.EventKind
	}{
		{process.Start, false, []string{"start"}, process.EventStarted},
		{process.Stop, true, []string{"stop"}, process.EventStopped},
		{process.Kill, true, []string{"kill"}, process.EventKilled},
		{process.Reload, true, []string{"reload"}, process.EventReloaded},
		{process.Restart, true, []string{"stop", "start"}, process.EventRestarted},
	} {
		t.Run(string(c.op), func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at++ {
				if died := crashOnce(t, c.op, c.running, c.commands, c.told, at); !died {
					if at < 5 {
						t.Fatalf("the operation ended after %d moments: nothing was tried", at)
					}
					t.Logf("%d moments tried", at-1)
					return
				}
			}
		})
	}
}

// TestKillAtEveryWriteOfARelaunch does the same while the agent launches a hosted process again: in the end one
// instance runs, and the start command has run once.
func TestKillAtEveryWriteOfARelaunch(t *testing.T) {
	killRelaunches(t, 5, func(string) {}, func(dir string, at int) {
		tells(t, dir, at, "^relaunched$")
		log, _ := os.ReadFile(filepath.Join(dir, "commands.log"))
		if got := strings.Fields(string(log)); len(got) != 1 {
			t.Errorf("NEVER A FLAKE: killed at %d: commands %v ran, want one start", at, got)
		}
	})
}

// TestKillAtEveryWriteAfterAnEnd does the same while the agent finds that a process has ended: it tells of the end
// once.
func TestKillAtEveryWriteAfterAnEnd(t *testing.T) {
	killRelaunches(t, 5, func(dir string) { upAndEnded(t, dir) }, func(dir string, at int) {
		tells(t, dir, at, "^relaunched,exited,relaunched$")
	})
}

// TestKillAtEveryWriteUntilGivenUp does the same while the relaunches of a process fail: it tells of each failure once,
// and once that it has given up. A relaunch that was counted and could not begin is not told, and one that began before
// it was counted is told with the number before.
func TestKillAtEveryWriteUntilGivenUp(t *testing.T) {
	killRelaunches(t, 15, func(dir string) {
		upAndEnded(t, dir)
		if err := os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}, func(dir string, at int) {
		tells(t, dir, at,
			"^relaunched,exited(,relaunch-failed 1)?(,relaunch-failed 2)?(,relaunch-failed 3)?,given-up$")
	})
}

// killRelaunches kills an agent that relaunches a hosted process, at each write of a life of its own, and lets another
// agent go on. At least so many writes are tried.
func killRelaunches(t *testing.T, least int, prepare func(dir string), check func(dir string, at int)) {
	t.Helper()
	for at := 1; ; at++ {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "op"), []byte(relaunchOnly), 0o600); err != nil {
			t.Fatal(err)
		}
		prepare(dir)
		died := child(t, dir, at)
		if child(t, dir, 0) {
			t.Fatal("the agent that goes on died too")
		}
		check(dir, at)
		if !died {
			if at < least {
				t.Fatalf("it was over after %d moments: not enough was tried", at)
			}
			t.Logf("%d moments tried", at-1)
			return
		}
	}
}

// upAndEnded has an agent launch the process of crashSpec, and ends the process when that agent has gone.
func upAndEnded(t *testing.T, dir string) {
	t.Helper()
	if child(t, dir, 0) {
		t.Fatal("the first agent died")
	}
	pid := harness.ReadPID(t, filepath.Join(dir, "d.pid"))
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the process to end", func() bool { return !harness.Alive(pid) })
}

func crashOnce(
	t *testing.T, op process.Op, running bool, commands []string, kind process.EventKind, at int,
) (died bool) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // commands run there as another user in other tests
		t.Fatal(err)
	}
	if running {
		out, err := exec.Command("/bin/sh", "-c", "cd "+dir+"; "+strings.TrimPrefix(crashSpec(dir).Start,
			"echo start >>commands.log; ")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "op"), []byte(op), 0o600); err != nil {
		t.Fatal(err)
	}
	died = child(t, dir, at)
	if child(t, dir, 0) {
		t.Fatal("the second agent died too")
	}
	tells(t, dir, at, "^"+string(kind)+"$")
	store, err := specstore.Open(filepath.Join(dir, "state"), "another boot")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, ended, err := store.Journal()
	if err != nil || len(ended) != 1 {
		t.Fatalf("killed at %d: %d outcomes in the journal, %v", at, len(ended), err)
	}
	outcome := ended[0].Outcome
	log, _ := os.ReadFile(filepath.Join(dir, "commands.log"))
	got := strings.Fields(string(log))
	if outcome.Fault != process.None {
		t.Errorf("killed at %d: outcome %+v after %v", at, outcome, got)
	}
	if strings.Join(got, " ") != strings.Join(commands, " ") {
		t.Errorf("NEVER A FLAKE: killed at %d: commands %v ran, want %v", at, got, commands)
	}
	return died
}

// tells checks which events were written in all lives of the agent, by a regular expression of toldIn.
func tells(t *testing.T, dir string, at int, want string) {
	t.Helper()
	got, err := toldIn(dir)
	if told := strings.Join(got, ","); err != nil || !regexp.MustCompile(want).MatchString(told) {
		t.Errorf("NEVER A FLAKE: killed at %d: events %s, %v, want %s", at, told, err, want)
	}
}

// child runs the agent once and reports whether it was killed.
func child(t *testing.T, dir string, at int) bool {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childCrash+"="+strconv.Itoa(at))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() &&
			status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	t.Fatalf("agent killed at %d: %v\n%s", at, err, out)
	return false
}
