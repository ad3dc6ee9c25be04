package host_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/record"
	"drover/internal/process"
	"drover/internal/test/harness"
)

// TestOldPIDFile: a pid file that is older than the process in it was not written for that process, whatever was known
// of the process before.
func TestOldPIDFile(t *testing.T) {
	dir := t.TempDir()
	path := harness.Sleeper(t, dir, "daemon")
	for _, c := range []struct {
		name string
		// age is how much older than the process the pid file is, stepped how far the wall clock has been set since the
		// agent first ran.
		age, stepped time.Duration
		alive        bool
	}{
		{name: "written after the start", age: -time.Minute, alive: true},
		{name: "written at the start", age: 0, alive: true},
		{name: "clocks are coarse", age: 900 * time.Millisecond, alive: true},
		{name: "written before the start", age: 2 * time.Second},
		{name: "written long before the start", age: 24 * time.Hour},
		{name: "the clocks have drifted a little", age: 24 * time.Hour, stepped: time.Second},
		{name: "the clock was set forward: nobody can tell", age: 24 * time.Hour, stepped: time.Hour, alive: true},
		{name: "the clock was set back: nobody can tell", age: 24 * time.Hour, stepped: -time.Hour, alive: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t, t.TempDir(), func(cfg *host.Config) { cfg.ClockOffset -= c.stepped })
			who := start(t, path)
			file := pidFile(t, who.PID)
			began, err := live().StartTime(who.StartTicks)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(file, time.Time{}, began.Add(-c.age)); err != nil {
				t.Fatal(err)
			}
			s := spec(dir, "daemon", file)
			seen := h.Look(s, record.Runtime{}, instance.Ownership{})
			was := who.Identity // the daemon, which has ended
			was.StartTicks--
			if diff := cmp.Diff(seen, h.Look(s, record.Runtime{Process: &was}, instance.Ownership{})); diff != "" {
				t.Errorf("with another process of that pid on record (-without +with): %s", diff)
			}
			if !c.alive {
				note := fmt.Sprintf("pid %d in %s started after the file was written: another process reuses the pid",
					who.PID, file)
				want := instance.Sighting{Note: note, Cause: process.CauseOddPIDFile}
				if diff := cmp.Diff(want, seen); diff != "" {
					t.Errorf("(-want +got): %s", diff)
				}
				return
			}
			if diff := cmp.Diff(instance.Sighting{ID: &who.Identity, PIDFile: file, Matches: 1}, seen); diff != "" {
				t.Errorf("(-want +got): %s", diff)
			}
		})
	}
}

// TestRecordedIdentityDecides: a process that was proven stays the one, whatever became of its pid file, for as long as
// it lives.
func TestRecordedIdentityDecides(t *testing.T) {
	dir := t.TempDir()
	path := harness.Sleeper(t, dir, "daemon")
	h := open(t, t.TempDir())
	who, other := start(t, path), start(t, path)
	file := pidFile(t, other.PID)
	s := spec(dir, "daemon", file)
	rt := record.Runtime{Process: &who.Identity, PIDFile: "/as/recorded"}
	mine := instance.Sighting{ID: &who.Identity, PIDFile: "/as/recorded", Matches: 1}

	if diff := cmp.Diff(mine, h.Look(s, rt, instance.Ownership{})); diff != "" {
		t.Errorf("the pid file names another one (-want +got): %s", diff)
	}
	reused := who.Identity
	reused.StartTicks++
	theirs := instance.Sighting{ID: &other.Identity, PIDFile: file, Matches: 1}
	if diff := cmp.Diff(theirs, h.Look(s, record.Runtime{Process: &reused}, instance.Ownership{})); diff != "" {
		t.Errorf("the recorded pid is another process now (-want +got): %s", diff)
	}
	reused = who.Identity
	reused.BootID = "another"
	if diff := cmp.Diff(theirs, h.Look(s, record.Runtime{Process: &reused}, instance.Ownership{})); diff != "" {
		t.Errorf("it was recorded in another boot (-want +got): %s", diff)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mine, h.Look(s, rt, instance.Ownership{})); diff != "" {
		t.Errorf("there is no pid file (-want +got): %s", diff)
	}
	who.end()
	if seen := h.Look(s, rt, instance.Ownership{}); seen.Alive() || !strings.Contains(seen.Note, file) {
		t.Errorf("it has ended: %+v", seen)
	}
}

// TestOldPIDFileOfOwnRun: a daemon that was born in a run of its process is that process, whatever the time of its pid
// file. If several instances are expected, an old pid file does not hide the others.
func TestOldPIDFileOfOwnRun(t *testing.T) {
	dir := t.TempDir()
	h := open(t, t.TempDir())
	mine := daemon(t, h, "0123456789ab-1", "daemon", ">/dev/null 2>&1")
	other := start(t, harness.Sleeper(t, dir, "daemon"))
	file := pidFile(t, mine.PID)
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	s := spec(dir, "daemon", file)
	own := instance.Ownership{Own: func(run string) bool { return run == "0123456789ab-1" }}
	harness.Eventually(t, "that of the run", func() bool { // a shell executes it
		seen := h.Look(s, record.Runtime{}, own)
		return seen.ID != nil && *seen.ID == mine
	})
	if seen := h.Look(s, record.Runtime{}, instance.Ownership{}); seen.Alive() {
		t.Errorf("that of no run: %+v", seen)
	}
	s.ExpectedInstances = new(2)
	if seen := h.Look(s, record.Runtime{}, instance.Ownership{}); seen.ID == nil || *seen.ID != other.Identity {
		t.Errorf("another instance: %+v", seen)
	}
}

// TestLookByName: without a pid file no file can be too old.
func TestLookByName(t *testing.T) {
	dir := t.TempDir()
	h := open(t, t.TempDir())
	who := start(t, harness.Sleeper(t, dir, "daemon"))
	seen := h.Look(spec(dir, "daemon", ""), record.Runtime{}, instance.Ownership{})
	if diff := cmp.Diff(instance.Sighting{ID: &who.Identity, Matches: 1, Doubt: seen.Doubt}, seen); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
}

// TestPIDFileIsResolved: two names of one pid file are known to be one.
func TestPIDFileIsResolved(t *testing.T) {
	dir := t.TempDir()
	h := open(t, t.TempDir())
	who := start(t, harness.Sleeper(t, dir, "daemon"))
	file := pidFile(t, who.PID)
	link := filepath.Join(t.TempDir(), "link.pid")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if seen := h.Look(spec(dir, "daemon", link), record.Runtime{}, instance.Ownership{}); !seen.Alive() ||
		seen.PIDFile != file {
		t.Errorf("seen through %q, want %q: %+v", seen.PIDFile, file, seen)
	}
}

// TestInstances: where several are expected they are counted, and one of them is enough.
func TestInstances(t *testing.T) {
	dir := t.TempDir()
	path := harness.Sleeper(t, dir, "daemon")
	h := open(t, t.TempDir())
	first, second := start(t, path), start(t, path)
	file := pidFile(t, first.PID)
	s := spec(dir, "daemon", file)
	s.ExpectedInstances = new(3)
	if seen := h.Look(s, record.Runtime{}, instance.Ownership{}); seen.ID == nil || *seen.ID != first.Identity ||
		seen.Matches != 2 {
		t.Errorf("at first: %+v", seen)
	}
	if seen := h.Look(s, record.Runtime{Process: &second.Identity}, instance.Ownership{}); seen.ID == nil ||
		*seen.ID != second.Identity || seen.Matches != 2 {
		t.Errorf("with the second one recorded: %+v", seen)
	}
	first.end()
	if seen := h.Look(s, record.Runtime{}, instance.Ownership{}); seen.ID == nil || *seen.ID != second.Identity ||
		seen.Matches != 1 {
		t.Errorf("the pid file names one that has ended: %+v", seen)
	}
	s.ExpectedInstances = new(1)
	if seen := h.Look(s, record.Runtime{}, instance.Ownership{}); seen.Alive() {
		t.Errorf("only one is expected, and that has ended: %+v", seen)
	}
}

func TestSignalAndInstance(t *testing.T) {
	h := open(t, t.TempDir())
	who := start(t, harness.Sleeper(t, t.TempDir(), "daemon"))
	i, _, err := h.Instance(who.Identity)
	if err != nil || i.PID != who.PID || !strings.Contains(i.Cmdline, "daemon 1000") || i.Threads != 1 ||
		time.Since(time.Unix(i.StartedAt, 0)).Abs() > time.Minute {
		t.Errorf("instance %+v, %v", i, err)
	}
	stranger := who.Identity
	stranger.StartTicks++
	if err := h.Signal(stranger, syscall.SIGKILL); !errors.Is(err, liveness.ErrGone) {
		t.Errorf("a signal to another process at the pid: %v", err)
	}
	if i, _, err := h.Instance(stranger); err == nil {
		t.Errorf("another process at the pid is described: %+v", i)
	}
	if err := h.Signal(who.Identity, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := who.cmd.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("it ended with %v", err)
	}
	if err := h.Signal(who.Identity, syscall.SIGTERM); !errors.Is(err, liveness.ErrGone) {
		t.Errorf("a signal to one that has ended: %v", err)
	}
}

func TestNewFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	_, err := host.New(host.Config{FS: live(), Name: "drover-test", Outputs: file, Proofs: filepath.Join(t.TempDir(), "proofs")})
	if err == nil || !strings.Contains(err.Error(), "cannot create directory for the files of commands") {
		t.Errorf("a file for a directory: %v", err)
	}
	_, err = host.New(host.Config{FS: live(), Name: "../escape", Outputs: t.TempDir(), Proofs: filepath.Join(t.TempDir(), "proofs")})
	if err == nil || !strings.Contains(err.Error(), "cannot open control groups") {
		t.Errorf("an odd name: %v", err)
	}
}

// TestEndedInItsPIDFile: a look tells how the process has ended that its pid file names, and when the file was written.
func TestEndedInItsPIDFile(t *testing.T) {
	h := open(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "daemon.pid")
	child, err := h.Launch(process.ID{}, "0123456789ab-1", "echo $$ >"+file+"; exit 7", spec("/", "sh", ""))
	if err != nil {
		t.Fatal(err)
	}
	who := child.Identity()
	exits := make(chan liveness.Exit, 1)
	stop, err := h.Watch(who, func(e liveness.Exit) { exits <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	<-exits
	seen := h.Look(spec("/", "sh", file), record.Runtime{}, instance.Ownership{})
	e := seen.Ended
	if seen.Alive() || e == nil || e.PID != who.PID || e.How == nil || e.How.Code != 7 {
		t.Fatalf("%+v, %+v", seen, e)
	}
	if age := e.PIDFileTime - who.StartedAfterBoot(); age < -20*time.Millisecond || age > time.Minute {
		t.Errorf("written %s after its start", age)
	}
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if e := h.Look(spec("/", "sh", file), record.Runtime{}, instance.Ownership{}).Ended; e == nil || e.How != nil {
		t.Errorf("an earlier process of that pid: %+v", e)
	}
}
