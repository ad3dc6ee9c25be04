package proxy_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// TestTheSameAddressInTwoAreas: agents join and work through the proxies of their areas, and each is a host of its own.
func TestTheSameAddressInTwoAreas(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, two := f.proxy("one", 1), f.proxy("two", 2)
	f.agent("first", "10.0.0.5", 1, one)
	f.agent("second", "10.0.0.5", 2, two)
	f.JoinAndStart("direct", "10.0.0.5", 0)
	f.carries("one", 1)
	f.carries("two", 1)

	p, dir := harness.Odd(t, nil, binaries.oddd, "here", "plain")
	f.Want(0, f.Operate(p, 0, "1:10.0.0.5"))
	if n := harness.Starts(t, dir); n != 1 {
		t.Errorf("started %d times", n)
	}
	f.Want(0, f.Operate(p, 1, "1:10.0.0.5"))
	f.works("0:10.0.0.5", "1:10.0.0.5", "2:10.0.0.5")
	f.Want(117, f.Operate(p, 0, "1:10.0.0.6")) // nobody

	// What the agents were told: the proxies, and not the server.
	if list := f.CLI("agents", "-o", "wide"); strings.Count(list, ":10.0.0.5 ") != 3*2 {
		t.Errorf("hosts are\n%s", list)
	}
}

// TestJoiningThroughAProxy: a proxy lets in what the server lets in, for its own area, and takes nothing else.
func TestJoiningThroughAProxy(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.proxy("one", 1)
	through := "https://" + p.http
	for name, c := range map[string]struct {
		token, words string
		code         int
	}{
		"another area's token": {f.Token(2), "the token is for area 2, and this proxy serves area 1", 1},
		"a proxy's token":      {f.Token(1, "--role", "proxy"), "the token is for a proxy", 1},
		"a token of nobody":    {strings.Replace(f.Token(1), "dvt1.", "dvt1.0", 1), "does not know the token", 5},
	} {
		code, errs := f.Join("x", "10.0.0.1", c.token, "--server", through)
		if code != c.code || !strings.Contains(errs, c.words) {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
	}
	again := &relay{name: "two", http: p.http, nats: p.nats}
	if code, errs := f.joinProxy(again, f.Token(1), "--server", f.URL); code != 1 ||
		!strings.Contains(errs, "the token is for agents") {
		t.Errorf("an agent's token: exit code %d: %s", code, errs)
	}
	if code, errs := f.joinProxy(again, f.Token(1, "--role", "proxy"), "--server", through); code != 1 ||
		!strings.Contains(errs, "joins the server itself") {
		t.Errorf("a proxy through a proxy: exit code %d: %s", code, errs)
	}
	again.name = "one"
	code, _, errs := f.Run("y", f.Token(1, "--role", "proxy"), f.Drover, "proxy", "join", "--server", f.URL, "--token",
		"-", "--name", "one",
		"--advertise", p.nats, "--data-dir", f.AgentDir("y"))
	if code != 1 || !strings.Contains(errs, `another proxy has the name "one"`) {
		t.Errorf("a name that is taken: exit code %d: %s", code, errs)
	}

	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/api/v1/hosts": 404, "/api/v1/join/": 404,
		"/metrics": 404, "/": 404,
	} {
		if status := p.status(path); status != want {
			t.Errorf("%s answers %d, want %d", path, status, want)
		}
	}
	audit := f.CLI("audit", "--action", "join", "-o", "json")
	if !strings.Contains(audit, `"via"`) || !strings.Contains(audit, "10.0.0.1") {
		t.Errorf("the record says\n%s", audit)
	}
}

// TestEitherProxyMayDie: agents are back through the other one, with what was under way.
func TestEitherProxyMayDie(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, two := f.proxy("one", 1), f.proxy("two", 1)
	f.agent("first", "10.0.0.5", 1, one)
	for range 2 {
		carrying, idle := f.carrier(one, two)
		carrying.Kill()
		f.carries(idle.name, 1)
		f.works("1:10.0.0.5")
		f.run(carrying)
		f.reached(carrying.name)
	}
}

// TestTheServerDies: proxies and agents go on without it, even from a start of their own, and come back to it.
func TestTheServerDies(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.proxy("one", 1)
	agent := f.agent("first", "10.0.0.5", 1, one)
	f.Server.Kill()
	one.Kill()
	f.run(one)
	agent.Kill()
	f.StartAgent("first")
	harness.Eventually(t, "an agent to be let in without a server", func() bool {
		log := f.Logs["first"].String()
		return strings.Count(log, "connected to fabric") >= 2
	})
	if code, errs := f.Join("late", "10.0.0.6", "dvt1.x."+strings.Repeat("y", 26)+"."+strings.Repeat("0", 64),
		"--server", "https://"+one.http); code == 0 {
		t.Errorf("joined without a server: %s", errs)
	}
	f.StartServer()
	f.reached("one")
	f.Online("1:10.0.0.5")
	f.works("1:10.0.0.5")
}

// TestARemovedProxyIsCutOff: at once, for good, and its agents go to the other one.
func TestARemovedProxyIsCutOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, two := f.proxy("one", 1), f.proxy("two", 1)
	f.agent("first", "10.0.0.5", 1, one)
	carrying, idle := f.carrier(one, two)
	f.CLI("proxies", "remove", carrying.name)
	f.carries(idle.name, 1)
	f.works("1:10.0.0.5")
	carrying.Kill()
	f.run(carrying)
	harness.Eventually(t, "the removed proxy to be refused", func() bool {
		return strings.Contains(f.Logs[carrying.name].String(), "Revoked") ||
			strings.Contains(f.Logs[carrying.name].String(), "Authorization Violation")
	})
	if line := f.line(carrying.name); line != nil {
		t.Errorf("it is still listed: %q", line)
	}
	// It may join again, with what it has.
	if code, errs := f.joinProxy(carrying, f.Token(1, "--role", "proxy")); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	f.reached(carrying.name)
}

// TestARemovedAgentIsCutOffFromItsProxy: within seconds, although the proxy lets agents in by itself.
func TestARemovedAgentIsCutOffFromItsProxy(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.proxy("one", 1)
	f.agent("first", "10.0.0.5", 1, one)
	f.agent("second", "10.0.0.6", 1, one)
	f.CLI("agents", "remove", "1:10.0.0.5")
	harness.Eventually(t, "the removed agent to be refused", func() bool {
		return strings.Contains(f.Logs["first"].String(), "fabric rejected the credentials")
	})
	f.works("1:10.0.0.6")
	if strings.Contains(f.Logs["second"].String(), "lost connection to fabric") {
		t.Error("the other agent was cut off too")
	}
	// It is refused by a proxy that was not there when it was removed, too.
	one.Kill()
	f.run(one)
	// The server may still count what the killed proxy had carried.
	harness.Eventually(t, "the proxy to reach its server again", func() bool {
		return one.status("/readyz") == http.StatusOK
	})
	if code, errs := f.Join("first", "10.0.0.5", f.Token(1), "--server", "https://"+one.http); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	f.Online("1:10.0.0.5")
	f.works("1:10.0.0.5")
}

// TestAnAreaGetsItsFirstProxy: agents that are there are told of it.
func TestAnAreaGetsItsFirstProxy(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("first", "10.0.0.5", 1)
	f.proxy("one", 1)
	f.carries("one", 1)
	f.works("1:10.0.0.5")
	f.CLI("proxies", "remove", "one")
	harness.Eventually(t, "the agent to be told of the server again", func() bool {
		return strings.Contains(f.CLI("agents"), fmt.Sprintf("%d:%s", 1, "10.0.0.5"))
	})
}

// offer signs the program of the agents as a version, adds it, and returns the public release key and the size of the
// program.
func (f *fleet) offer(version string) (public string, size int) {
	f.T.Helper()
	key, program := filepath.Join(f.Dir, "release.key"), filepath.Join(f.Dir, "program")
	must := func(args ...string) string {
		f.T.Helper()
		code, out, errs := f.Run("owner", "", f.Drover, args...)
		if code != 0 {
			f.T.Fatalf("drover %q: exit code %d: %s", args, code, errs)
		}
		return strings.TrimSpace(out)
	}
	public = must("packages", "keygen", key)
	text, err := os.ReadFile(f.Agent)
	if err == nil {
		err = os.WriteFile(program, text, 0o600)
	}
	if err != nil {
		f.T.Fatal(err)
	}
	must("packages", "sign", program, "--key", key, "--version", version)
	f.CLI("packages", "add", program)
	return public, len(text)
}

// upgradable has an agent join through a proxy and start with a release key.
func (f *fleet) upgradable(name, ip string, through *relay, public string) {
	f.T.Helper()
	if code, errs := f.Join(name, ip, f.Token(1), "--server", "https://"+through.http); code != 0 {
		f.T.Fatalf("cannot join: exit code %d: %s", code, errs)
	}
	f.StartAgent(name, "--release-keys", public, "--trial-time", "1m")
	f.Online("1:" + ip)
}

// upgraded waits until a rollout has upgraded its hosts.
func (f *fleet) upgraded(rollout, version string, hosts int) {
	f.T.Helper()
	harness.Eventually(f.T, "the end of the upgrade", func() bool {
		status := f.CLI("rollout", "status", rollout)
		if strings.Contains(status, " failed ") {
			f.T.Fatalf("the upgrade has failed:\n%s", status)
		}
		return strings.Count(status, " ok ") == hosts
	})
	if out := f.CLI("agents"); strings.Count(out, version) != hosts {
		f.T.Errorf("the hosts are\n%s", out)
	}
}

// TestAnAgentBehindAProxyIsUpgraded: it fetches the program through the proxy, which dies in between.
func TestAnAgentBehindAProxyIsUpgraded(t *testing.T) {
	f := newFleet(t)
	one := f.proxy("one", 1)
	public, _ := f.offer("9.9.9")
	f.upgradable("first", "10.0.0.5", one, public)
	id := strings.TrimSpace(f.CLI("agents", "upgrade", "1:10.0.0.5", "--to", "9.9.9", "--no-wait"))
	harness.Eventually(t, "a part of the program", func() bool {
		parts, _ := filepath.Glob(filepath.Join(f.AgentDir("first"), "agent", "versions", "drover-agent-*"))
		return len(parts) > 0
	})
	one.Kill()
	f.run(one)
	f.upgraded(id, "9.9.9", 1)
	f.works("1:10.0.0.5")
}

// TestTheEndOfAnAgentShowsAtOnce: an agent that was killed is away before its silence would show it, also behind a
// proxy. The agents of a proxy that was killed are away with it, and back with it.
func TestTheEndOfAnAgentShowsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.proxy("one", 1)
	near, far := f.JoinAndStart("near", "10.0.0.5", 0), f.agent("far", "10.0.0.5", 1, one)
	f.agent("stays", "10.0.0.6", 1, one)
	for _, c := range []struct {
		host string
		end  func()
	}{{"0:10.0.0.5", near.Kill}, {"1:10.0.0.5", far.Kill}, {"1:10.0.0.6", one.Kill}} {
		ended := time.Now()
		c.end()
		f.Away(c.host)
		if took := time.Since(ended); took >= soonestSilence {
			t.Errorf("%s was away after %v: so soon its silence shows it", c.host, took)
		}
	}
	f.run(one)
	f.reached("one")
	f.Online("1:10.0.0.6")
}

// soonestSilence is the least time after which silence alone shows that an agent is away: it may have reported last 5 s
// before.
const soonestSilence = 8 * time.Second

// TestOneCopyForAllHostsOfAProxy: the program crosses the line from the server to the proxy once.
func TestOneCopyForAllHostsOfAProxy(t *testing.T) {
	hub := address(hubPort)
	line := newPipe(t, hub)
	f := newFleet(t, "--proxies", hub, "--advertise-proxies", line.address())
	one := f.proxy("one", 1)
	public, size := f.offer("9.9.9")
	hosts := []string{"1:10.0.0.5", "1:10.0.0.6", "1:10.0.0.7", "1:10.0.0.8"}
	for _, host := range hosts {
		f.upgradable("host"+host[len(host)-1:], strings.TrimPrefix(host, "1:"), one, public)
	}
	before := line.back.Load()
	code, _, errs := f.Run("server", "", f.Drover, append(append([]string{"agents", "upgrade"}, hosts...),
		"--to", "9.9.9", "--data-dir", f.ServerDir())...)
	if code != 2 || !strings.Contains(errs, "upgrade the agents of 4 hosts to 9.9.9: no terminal") {
		t.Errorf("without a confirmation: exit code %d, %s", code, errs)
	}
	id := strings.TrimSpace(f.CLI(append(append([]string{"agents", "upgrade"}, hosts...), "--to", "9.9.9", "--yes", "--no-wait")...))
	f.upgraded(id, "9.9.9", len(hosts))
	if crossed := line.back.Load() - before; crossed > int64(size)*3/2 {
		t.Errorf("%d bytes came from the server for %d hosts, and the program has %d", crossed, len(hosts), size)
	}
	f.works(hosts...)
}
