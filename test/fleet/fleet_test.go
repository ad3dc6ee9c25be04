package fleet_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

const (
	first  = "0:127.0.0.2"
	second = "3:127.0.0.3"
)

// TestAFleet lets two agents of two areas join, and has their processes outlive the death of everything else.
func TestAFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	agents := map[string]*harness.Program{
		first:  f.JoinAndStart("one", "127.0.0.2", 0),
		second: f.JoinAndStart("two", "127.0.0.3", 3),
	}
	type daemon struct {
		*harness.Process
		dir string
		pid int
	}
	daemons := map[string]*daemon{}
	for host, name := range map[string]string{first: "p1", second: "p2"} {
		p, dir := f.daemon(name)
		f.Want(0, f.Operate(p, 0, host))
		daemons[host] = &daemon{p, dir, harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))}
	}
	// untouched fails the test unless every process is still the one that was started first, and known as such.
	untouched := func(after string) {
		t.Helper()
		for host, d := range daemons {
			if r := f.Operate(d.Process, 2, host)[host]; r.Code != 0 || r.PID != d.pid || !harness.Alive(d.pid) ||
				harness.Starts(t, d.dir) != 1 {
				t.Errorf("after %s: %s has pid %d (%d %s), want %d; started %d times", after, host, r.PID, r.Code,
					r.Msg, d.pid, harness.Starts(t, d.dir))
			}
		}
	}
	untouched("the start")

	for host, name := range map[string]string{first: "one", second: "two"} {
		agents[host].End(syscall.SIGKILL)
		agents[host] = f.StartAgent(name)
	}
	f.Online(first)
	f.Online(second)
	untouched("kill -9 of the agents")

	f.Server.End(syscall.SIGKILL)
	f.StartServer()
	f.Online(first)
	f.Online(second)
	untouched("kill -9 of the server")

	f.Server.End(syscall.SIGTERM)
	f.StartServer()
	f.Online(first)
	f.Online(second)
	untouched("a restart of the server")

	// A hosted process that dies is started again, without the server's help.
	f.Server.End(syscall.SIGTERM)
	harness.Signal(t, daemons[first].pid, syscall.SIGKILL)
	harness.Eventually(t, "the relaunch", func() bool { return harness.Starts(t, daemons[first].dir) == 2 })
	f.StartServer()
	for host, d := range daemons {
		f.Online(host)
		f.Want(0, f.Operate(d.Process, 1, host))
		if host == second && harness.Alive(d.pid) {
			t.Errorf("%s: the process was not stopped", host)
		}
	}
}

// TestNoSecretIsKept: what a token or a key is worth is in no log, record, listing or file of others.
func TestNoSecretIsKept(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	used, open := f.Token(0, "--labels", "role=web"), f.Token(0)
	if code, errs := f.Join("one", "127.0.0.2", used); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if code, _ := f.Join("two", "127.0.0.3", used); code != 5 {
		t.Errorf("a spent token: exit code %d", code)
	}
	one := f.StartAgent("one")
	f.Online(first)
	key, err := os.ReadFile(filepath.Join(f.AgentDir("one"), "agent", "agent.nkey"))
	if err != nil {
		t.Fatal(err)
	}
	listings := f.CLI("token", "list", "-o", "json") + f.CLI("audit", "--limit", "0", "-o", "json") +
		f.CLI("agents", "-o", "json")
	one.End(syscall.SIGTERM)
	f.Server.End(syscall.SIGTERM)

	secrets := map[string]string{
		"a used token": strings.Split(used, ".")[2], "an open token": strings.Split(open, ".")[2],
		"the agent's key": strings.TrimSpace(string(key)),
	}
	search := func(where, text string) {
		t.Helper()
		for what, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", what, where)
			}
		}
	}
	search("a listing", listings)
	for name, log := range f.Logs {
		search("the log of "+name, log.String())
	}
	search("the server's output", f.Server.Out.String())
	var seen []string
	err = filepath.WalkDir(f.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "agent.nkey" {
			return err
		}
		data, err := os.ReadFile(path)
		seen = append(seen, d.Name())
		search(path, string(data))
		return err
	})
	if err != nil || !slices.Contains(seen, "drover.db") || !slices.Contains(seen, "enrolment.json") {
		t.Errorf("searched were %q, %v", seen, err)
	}
}
