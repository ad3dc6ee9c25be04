package trust_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/agent"
	"drover/internal/test/harness"
)

// copyAgent copies the data directory of an agent, as a disk is copied with all that is on it.
func (f *fleet) copyAgent(from, to string) {
	f.T.Helper()
	if err := os.MkdirAll(filepath.Dir(f.AgentDir(to)), 0o700); err != nil {
		f.T.Fatal(err)
	}
	if err := exec.Command("cp", "-a", f.AgentDir(from)+"/.", f.AgentDir(to)).Run(); err != nil { // sockets, too
		f.T.Fatal(err)
	}
	err := filepath.WalkDir(f.AgentDir(to), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		f.T.Fatal(err)
	}
}

func (f *fleet) publicKey(name string) string {
	f.T.Helper()
	key, err := agent.OwnKey(filepath.Join(f.AgentDir(name), "agent"))
	if err != nil {
		f.T.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		f.T.Fatal(err)
	}
	return public
}

// TestACopiedDisk: the second host with the key of the first is refused and begins nothing, everybody is told, and
// there is a way out.
func TestACopiedDisk(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.JoinAndStart("one", "127.0.0.2", 0)
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	one.End(syscall.SIGTERM)
	f.copyAgent("one", "two")
	f.StartAgent("one")
	// The copy runs on the same host here, so whoever comes first has the process.
	harness.Eventually(t, "the first one to find its process again", func() bool {
		return strings.Contains(f.Logs["one"].String(), "from=unknown to=running")
	})

	two := f.StartAgent("two")
	harness.Eventually(t, "the copy to be refused", func() bool {
		return strings.Contains(f.Logs["two"].String(), "drover-agent join --new-identity")
	})
	if list := f.CLI("agents"); !strings.Contains(list, "a second host (") || strings.Count(list, "127.0.0.2") != 2 {
		t.Errorf("hosts are\n%s", list)
	}
	if log := f.CLI("audit", "--action", "hosts.copy", "-o", "json"); !strings.Contains(log,
		"two hosts use the key of one agent") {
		t.Errorf("the record has\n%s", log)
	}
	f.Want(0, f.Operate(p, restart, first))
	if n := harness.Starts(t, dir); n != 2 {
		t.Errorf("after a restart the process was started %d times, want 2: the copy has a hand in it", n)
	}
	pid := harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the first one to start it again", func() bool { return harness.Starts(t, dir) >= 3 })

	// The way out needs the agent to be stopped, and a token.
	code, _, errs := f.Run("two", f.Token(0), f.Agent, "join", "--server", f.URL, "--token", "-", "--data-dir",
		f.AgentDir("two"), "--ip", "127.0.0.3", "--new-identity")
	if code == 0 || !strings.Contains(errs, "another agent uses this data directory") {
		t.Errorf("while it runs: exit code %d: %s", code, errs)
	}
	two.End(syscall.SIGTERM)
	if code, errs := f.Join("two", "127.0.0.3", "dvt1.x.y.z", "--new-identity"); code == 0 ||
		f.publicKey("two") != f.publicKey("one") {
		t.Errorf("with no token: exit code %d: %s, and the key is another one", code, errs)
	}
	if code, errs := f.Join("two", "127.0.0.3", f.Token(0), "--new-identity"); code != 0 ||
		!strings.Contains(errs, "agent.former-") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	f.StartAgent("two")
	f.Online(second)
	f.Online(first)
	if f.publicKey("one") == f.publicKey("two") {
		t.Error("both have the same key")
	}
	harness.Eventually(t, "the note to go", func() bool { return !strings.Contains(f.CLI("agents"), "a second host") })
	if list := f.CLI("ps", "-o", "wide"); strings.Contains(list, "127.0.0.3") {
		t.Errorf("the copy has the processes of the first one:\n%s", list)
	}
	if n := harness.Starts(t, dir); n != 3 {
		t.Errorf("the process was started %d times, want 3", n)
	}
}
