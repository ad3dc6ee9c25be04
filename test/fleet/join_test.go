package fleet_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestWhoMayNotJoin: each refusal says why, in the words of the person at the host, and is on record.
func TestWhoMayNotJoin(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	other := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)

	open, revoked, short := f.Token(0, "--uses", "9"), f.Token(0), f.Token(0, "--ttl", "1s")
	parts := strings.Split(open, ".")
	f.CLI("token", "revoke", strings.Split(revoked, ".")[1])
	harness.Eventually(t, "the token to expire",
		func() bool { return strings.Contains(f.CLI("token", "list"), "expired") })
	altered := func(part int, text string) string {
		p := append([]string{}, parts...)
		p[part] = text
		return strings.Join(p, ".")
	}
	for _, c := range []struct {
		name, token string
		flags       []string
		code        int
		words       string
	}{
		{"no token", "hunter2", nil, 1, "cannot use the token"},
		{"half a token", open[:60], nil, 1, "did you copy all of it?"},
		{"another secret", altered(2, strings.Repeat("A", 26)), nil, 5, "does not know the token"},
		{"the token of another server", other.Token(0), nil, 5, "is this the server that made the token?"},
		{
			"another fingerprint", altered(3, strings.Repeat("ab", 32)), nil, 5,
			"is this the server that made the token?",
		},
		{"a revoked token", revoked, nil, 5, "was revoked on"},
		{"an expired token", short, nil, 5, "has expired on"},
		{
			"a taken address", open,
			[]string{"--ip", "127.0.0.2"},
			1,
			"0:127.0.0.2 belongs to another agent, which is online",
		},
		{"no address", open, []string{"--ip", "host"}, 1, "not an IP address"},
		{"no TLS", open, []string{"--server", "http://192.0.2.1:7350"}, 1, "has no TLS"},
		{"nobody there", open, []string{"--server", "https://127.0.0.1:1"}, 6, "cannot reach the server"},
	} {
		code, errs := f.Join("refused", "127.0.0.9", c.token, c.flags...)
		if code != c.code || !strings.Contains(errs, c.words) || strings.Contains(errs, "hunter2") ||
			strings.Contains(errs, parts[2]) {
			t.Errorf("%s: exit code %d, want %d; it says %q, want %q", c.name, code, c.code, errs, c.words)
		}
	}
	if code, _, errs := f.Run("server", "", binaries.agent, "run", "--data-dir", f.AgentDir("refused")); code == 0 ||
		!strings.Contains(errs, "has not joined") {
		t.Errorf("one that was refused runs: %d %s", code, errs)
	}

	var rows []struct {
		Action, Message string
		Allowed         bool
	}
	if err := json.Unmarshal([]byte(f.CLI("audit", "--action", "join", "-o", "json")), &rows); err != nil {
		t.Fatal(err)
	}
	denied := map[string]bool{}
	for _, row := range rows {
		if !row.Allowed {
			denied[row.Message] = true
		}
	}
	for _, words := range []string{
		"does not know the token", "was revoked", "has expired",
		"belongs to another agent",
	} {
		found := false
		for message := range denied {
			found = found || strings.Contains(message, words)
		}
		if !found {
			t.Errorf("no denial on record about %q: %v", words, denied)
		}
	}
	if len(f.CLI("agents", "-o", "name")) != len(first+"\n") {
		t.Error("somebody else has joined")
	}
}

// TestRemoval: an agent that was removed is cut off and stays out, its processes live, and with a new token it has them
// again.
func TestRemoval(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.JoinAndStart("one", "127.0.0.2", 0)
	f.JoinAndStart("two", "127.0.0.3", 3)
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	pid := harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))

	if code, _, errs := f.Run("server", "", binaries.drover, "agents", "remove", "127.0.0.3", "--data-dir",
		f.ServerDir()); code != 4 || !strings.Contains(errs, "no host matches 127.0.0.3; did you mean "+second+"?") {
		t.Errorf("a host without its area: exit code %d, %s", code, errs)
	}
	if code, _, errs := f.Run("server", "", binaries.drover, "agents", "remove", "nobody", first, "--yes", "--data-dir",
		f.ServerDir()); code != 4 || !strings.Contains(errs, "no host matches nobody") ||
		strings.Contains(errs, "was removed") {
		t.Errorf("one that exists and one that does not: exit code %d, %s", code, errs)
	}
	f.CLI("agents", "remove", first, first, "--limit", "1")
	if code, _, errs := f.Run("server", "", binaries.drover, "agents", "remove", first, "--data-dir",
		f.ServerDir()); code != 4 {
		t.Errorf("removed twice: exit code %d, %s", code, errs)
	}
	harness.Eventually(t, "the agent to be refused", func() bool {
		return strings.Contains(f.Logs["one"].String(), "fabric rejected the credentials")
	})
	f.Want(117, f.Operate(p, 1, first))
	one.End(syscall.SIGTERM)
	f.Server.End(syscall.SIGTERM)
	f.StartServer() // it is remembered
	said := len(f.Logs["one"].String())
	one = f.StartAgent("one")
	harness.Eventually(t, "the agent to be refused again", func() bool {
		return strings.Contains(f.Logs["one"].String()[said:], "fabric rejected the credentials")
	})
	f.Online(second)
	if list := f.CLI("agents", "-o", "name"); list != second+"\n" {
		t.Errorf("hosts are %q", list)
	}
	if list := f.CLI("ps", "-o", "name"); list != "" {
		t.Errorf("processes are %q", list)
	}
	if !harness.Alive(pid) || harness.Starts(t, dir) != 1 {
		t.Error("the process did not go on")
	}

	one.End(syscall.SIGTERM)
	f.JoinAndStart("one", "127.0.0.2", 0)
	if r := f.Operate(p, 2, first)[first]; r.PID != pid {
		t.Errorf("it has pid %d, want %d", r.PID, pid)
	}
	f.Want(0, f.Operate(p, 1, first))
}
