package trust_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestAnEmptiedHost: a host that has lost its disk and joins again under its address has its hosted processes started
// and its history; its old key is refused from then on.
func TestAnEmptiedHost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.JoinAndStart("one", "127.0.0.2", 0)
	p, dir := f.daemon("p")
	q, other := f.daemon("q")
	f.Want(0, f.Operate(p, 0, first))
	f.Want(0, f.Operate(q, 0, first))
	f.Want(0, f.Operate(q, 1, first))
	one.End(syscall.SIGTERM)
	pid := harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))
	harness.Signal(t, pid, syscall.SIGKILL)
	old := f.publicKey("one")
	if err := os.Rename(f.AgentDir("one"), f.AgentDir("former")); err != nil {
		t.Fatal(err)
	}
	f.refused("one", "127.0.0.2", "drover token create --replaces "+first+" --area 0 --uses 1 --ttl 1h")
	if code, errs := f.Join("one", "127.0.0.2", f.Token(0, "--replaces", first)); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	f.StartAgent("one")
	harness.Eventually(t, "the hosted process to be started", func() bool { return harness.Starts(t, dir) == 2 })
	if r := f.Operate(p, 2, first)[first]; r.Code != 0 || r.PID == pid {
		t.Errorf("it answered %+v", r)
	}
	if n := harness.Starts(t, other); n != 1 {
		t.Errorf("the process that was stopped was started %d times", n)
	}
	if list := f.CLI("agents", "-o", "wide"); strings.Contains(list, old) || strings.Count(list, "0:127.0.0.2") != 2 {
		t.Errorf("hosts are\n%s", list)
	}
	if events := f.CLI("events", "-o", "json"); strings.Count(events, `"kind": "started"`)+
		strings.Count(events, `"kind":"started"`) < 2 {
		t.Errorf("its history is gone:\n%s", events)
	}
	if log := f.CLI("audit", "--action", "join", "-o", "json"); !strings.Contains(log, old) {
		t.Errorf("the record does not name the old key:\n%s", log)
	}
	f.StartAgent("former")
	harness.Eventually(t, "the old disk to be refused", func() bool {
		return strings.Contains(f.Logs["former"].String(), "fabric rejected the credentials")
	})
}

// refused waits until the server no longer takes the agent of that name for online, and refuses a new host for a reason.
func (f *fleet) refused(name, ip, why string, flags ...string) {
	f.T.Helper()
	token := f.Token(0)
	harness.Eventually(f.T, "the refusal of "+name+" at "+ip, func() bool {
		code, errs := f.Join(name, ip, token, flags...)
		if code != 1 || !strings.Contains(errs, "belongs to another agent") {
			f.T.Fatalf("exit code %d: %s", code, errs)
		}
		return strings.Contains(errs, why)
	})
}

// TestAHostThatJoinedAfterTheBackup: a host that a restored database does not know is named with its key, until it has
// joined again.
func TestAHostThatJoinedAfterTheBackup(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	f.Server.End(syscall.SIGTERM)
	database := filepath.Join(f.ServerDir(), "server", "drover.db")
	copied, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	f.StartServer()
	f.JoinAndStart("two", "127.0.0.3", 0)
	f.Server.End(syscall.SIGTERM)
	for _, file := range []string{"-wal", "-shm"} {
		if err := os.Remove(database + file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(database, copied, 0o600); err != nil {
		t.Fatal(err)
	}
	f.StartServer()
	f.Online(first)
	doctor := func() string {
		_, out, errs := f.Run("server", "", f.Drover, "doctor", "--data-dir", f.ServerDir())
		return out + errs
	}
	harness.Eventually(t, "doctor to name the host that the database does not know", func() bool {
		return strings.Contains(doctor(), "the database does not know hosts that report: 127.0.0.1 (area 0, key "+
			f.publicKey("two")+", since ")
	})
	if out := doctor(); strings.Contains(out, f.publicKey("one")) {
		t.Errorf("doctor names a host that is known:\n%s", out)
	}
	if code, errs := f.Join("two", "127.0.0.3", f.Token(0)); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	f.Online(second)
	if out := doctor(); strings.Contains(out, "does not know hosts") {
		t.Errorf("after it has joined again:\n%s", out)
	}
}

// TestAnAddressThatWasGivenOutAgain: another host does not get the address of one that is away, which goes on. After the
// removal of the first one it gets the address alone.
func TestAnAddressThatWasGivenOutAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	if code, errs := f.Join("one", "127.0.0.2", f.Token(0), "--id", "web-1"); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	one := f.StartAgent("one")
	f.Online("web-1")
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, "web-1"))
	one.End(syscall.SIGTERM)
	f.refused("two", "127.0.0.2", "drover token create --replaces 0:127.0.0.2 ", "--id", "web-2")
	f.refused("two", "127.0.0.3", "drover token create --replaces web-1 ", "--id", "web-1")
	one = f.StartAgent("one")
	f.Online("web-1")
	if r := f.Operate(p, 2, "web-1")["web-1"]; r.Code != 0 || r.PID <= 0 {
		t.Errorf("the first one has %+v", r)
	}
	one.End(syscall.SIGTERM)
	f.CLI("agents", "remove", "web-1")
	if code, errs := f.Join("two", "127.0.0.2", f.Token(0), "--id", "web-2"); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	f.StartAgent("two")
	f.Online("web-2")
	if list := f.CLI("ps", "-o", "json"); strings.Contains(list, "web-2") {
		t.Errorf("the other host has\n%s", list)
	}
	if n := harness.Starts(t, dir); n != 1 {
		t.Errorf("it was started %d times", n)
	}
}
