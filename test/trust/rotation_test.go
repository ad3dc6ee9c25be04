package trust_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// key is that of a kind and stage.
func (f *fleet) key(kind, stage string) string {
	f.T.Helper()
	for _, k := range f.Keys().Keys {
		if k.Kind == kind && k.Stage == stage {
			return k.ID
		}
	}
	f.T.Fatalf("there is no %s %s key", stage, kind)
	return ""
}

// TestKeysAreReplacedWhileAgentsRun: nobody touches a host, no operation fails, and a host that was away meanwhile
// comes back by itself.
func TestKeysAreReplacedWhileAgentsRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	away := f.JoinAndStart("two", "127.0.0.3", 0)
	p, dir := f.daemon("p")
	q, other := f.daemon("q")
	f.Want(0, f.Operate(p, 0, first))
	f.Want(0, f.Operate(q, 0, second))
	token := f.Token(0) // of before
	before := f.enrolment("one")
	away.End(syscall.SIGTERM)
	harness.Eventually(t, "a host to be away", func() bool { return f.Keys().Online == 1 })

	for n, kind := range []string{"manifest", "sealing", "ca", "agent-signer", "proxy-signer", "server-signer"} {
		f.RotateKey(kind, 1)
		f.Want(0, f.Operate(p, restart, first))
		if got := harness.Starts(t, dir); got != n+2 {
			t.Errorf("after the %s key was replaced the process was started %d times, want %d", kind, got, n+2)
		}
	}
	after := f.enrolment("one")
	if after.CA == before.CA || after.JWT == before.JWT ||
		len(after.ManifestKeys) != 2 || len(after.SealingKeys) != 2 ||
		after.Generation <= before.Generation {
		t.Errorf("the agent goes by %+v, before by %+v", after, before)
	}
	f.Server.End(syscall.SIGTERM)
	f.StartServer()
	f.Online(first)
	f.Want(0, f.Operate(p, restart, first))

	f.StartAgent("two")
	f.Online(second)
	f.Keyed(2)
	f.Want(0, f.Operate(q, restart, second))
	if n := harness.Starts(t, other); n != 2 {
		t.Errorf("the process of the host that was away was started %d times, want 2", n)
	}
	if code, errs := f.Join("three", "127.0.0.4", token); code != 0 {
		t.Errorf("a token of before: exit code %d: %s", code, errs)
	}
	for _, kind := range []string{"manifest", "sealing", "ca", "agent-signer", "proxy-signer", "server-signer"} {
		f.CLI("keys", "drop", kind, f.key(kind, "former"))
	}
	f.Keyed(2)
	f.Want(0, f.Operate(p, restart, first))
	f.Want(0, f.Operate(q, restart, second))
	if code, errs := f.Join("four", "127.0.0.5", f.Token(0)); code != 0 {
		t.Errorf("a token of afterwards: exit code %d: %s", code, errs)
	}
	if log := f.CLI("audit", "--action", "keys.rotate"); strings.Count(log, "keys.rotate") != 12 {
		t.Errorf("the record has\n%s", log)
	}
}

// TestAHostThatKnowsDroppedKeysOnly: it obeys nobody, goes on with its processes, and is let in again by a token, as
// the host that it was.
func TestAHostThatKnowsDroppedKeysOnly(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	away := f.JoinAndStart("one", "127.0.0.2", 0)
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	pid := harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))
	away.End(syscall.SIGTERM)
	harness.Eventually(t, "the host to be away", func() bool { return f.Keys().Online == 0 })
	for _, kind := range []string{"manifest", "sealing", "ca", "agent-signer", "proxy-signer", "server-signer"} {
		f.RotateKey(kind, 0)
		f.CLI("keys", "drop", kind, f.key(kind, "former"))
	}
	lost := f.StartAgent("one")
	harness.Eventually(t, "the agent to refuse the server", func() bool {
		return strings.Contains(f.Logs["one"].String(), "cannot trust the server's certificate")
	})
	f.Want(117, f.Operate(p, 1, first))
	if !harness.Alive(pid) {
		t.Error("the process did not go on")
	}
	lost.End(syscall.SIGTERM)
	f.JoinAndStart("one", "127.0.0.2", 0)
	if r := f.Operate(p, 2, first)[first]; r.PID != pid {
		t.Errorf("it has pid %d, want %d", r.PID, pid)
	}
	f.Want(0, f.Operate(p, 1, first))
	if list := f.CLI("agents", "-o", "name"); list != first+"\n" {
		t.Errorf("hosts are %q", list)
	}
}

// TestARotationIsRefused: where hosts would be lost, or there is nothing to do.
func TestARotationIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, c := range []struct {
		args  []string
		code  int
		words string
	}{
		{[]string{"keys", "rotate", "fleet"}, 2, "expected manifest, sealing"},
		{[]string{"keys", "drop", "manifest", f.key("manifest", "present")}, 1, "is the present key"},
		{[]string{"keys", "drop", "manifest", "A"}, 4, "there is no manifest key"},
		{[]string{"keys", "rotate", "manifest", "--keep", "1s"}, 2, "expected 1m or more"},
	} {
		code, _, errs := f.Run("server", "", f.Drover, append(c.args, "--data-dir", f.ServerDir())...)
		if code != c.code || !strings.Contains(errs, c.words) {
			t.Errorf("%q: exit code %d: %s", c.args, code, errs)
		}
	}
	next := f.CLI("keys", "rotate", "manifest")
	if !strings.Contains(next, "next") {
		t.Errorf("it prints %q", next)
	}
	f.CLI("keys", "drop", "manifest", f.key("manifest", "next"))
	if k := f.Keys(); len(k.Keys) != 6 {
		t.Errorf("there are %+v", k)
	}
}
