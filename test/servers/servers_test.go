package servers_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// operate has one server carry out an operation on hosts, and has another one tell how it ended.
func (s *site) operate(at, poll *node, p *harness.Process, op int) harness.Result {
	s.t.Helper()
	data, err := at.caller().GSE("operate_proc_v2", p.Request(op))
	if err != nil {
		s.t.Fatal(err)
	}
	return harness.ParseResult(s.t, poll.caller().Await(s.t, data["task_id"].(string))[p.Key()])
}

// daemon is a process of a host, which the caller must have joined.
func (s *site) daemon(ip, name string) *harness.Process {
	p := judge.Daemon(s.t, s.dir, name)
	p.Host = "0:" + ip
	return p
}

// TestAnyServer: whichever server is asked, it knows what the others do.
func TestAnyServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, 3)
	a, b, c := s.servers[0], s.servers[1], s.servers[2]
	one := s.agent("one", "127.0.0.2", a)
	two := s.agent("two", "127.0.0.3", b)
	p := s.daemon("127.0.0.2", "p")
	for i, op := range []int{judge.Start, judge.Stop, judge.Start, judge.Restart} {
		at, poll := s.servers[i%3], s.servers[(i+1)%3]
		s.operate(at, poll, p, op).Want(t, fmt.Sprintf("operation %d", op), 0)
	}
	if got := judge.Ran(p, "start"); got != 3 {
		t.Errorf("%s%d starts were run, want 3", harness.MoreThan(3, got), got)
	}

	// A call that is waited for ends when another server has the result.
	data, err := c.caller().GSE("register_proc_info", p.Request(0))
	if err != nil || len(data) == 0 {
		t.Errorf("registered: %v, %v", data, err)
	}

	// An app that one has made is let in by the others, with its own rights.
	s.must("app", "create", "other", "--data-dir", a.dir)
	if !strings.Contains(s.must("app", "list", "--data-dir", c.dir), "other") {
		t.Error("an app is not known to another server")
	}

	begun := time.Now()
	one.program().Kill()
	for _, n := range s.servers {
		n.shows("0:127.0.0.2", "away")
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("%s shows the loss after %v", n.name, took)
		}
	}
	one.restart()
	for _, n := range s.servers {
		n.shows("0:127.0.0.2", "online")
	}

	// Who is removed by one is refused by all brokers, and unknown to all servers.
	s.must("agents", "remove", "0:127.0.0.3", "--data-dir", c.dir)
	for _, n := range s.servers {
		n.shows("0:127.0.0.3", "")
	}
	harness.Eventually(t, "the removed agent to be refused", func() bool {
		return strings.Contains(two.log.String(), "fabric rejected the credentials")
	})
	for _, n := range s.servers {
		if status, text := n.get("/readyz"); status != 200 {
			t.Errorf("%s: %s", n.name, text)
		}
		if _, text := n.get("/metrics"); !strings.Contains(text, "drover_servers 3\n") {
			t.Errorf("%s does not count 3 servers", n.name)
		}
	}
}

// TestAServerDies: what one server has accepted and not sent another one sends, and a task that was answered with an id
// ends.
func TestAServerDies(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 2)
	a, b := s.servers[0], s.servers[1]
	agent := s.agent("one", "127.0.0.2", a)
	p := s.daemon("127.0.0.2", "p")
	s.operate(a, b, p, judge.Start).Want(t, "start", 0)
	// The agent takes nothing, so that the items are leased by the server that took the call when that dies.
	harness.Signal(t, agent.program().PID(), syscall.SIGSTOP)
	var tasks []string
	for range 5 {
		data, err := a.caller().GSE("operate_proc_v2", p.Request(judge.Reload))
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, data["task_id"].(string))
	}
	a.program().Kill()
	harness.Signal(t, agent.program().PID(), syscall.SIGCONT)
	for _, task := range tasks {
		harness.ParseResult(t, b.caller().Await(t, task)[p.Key()]).Want(t, "reload", 0)
	}
	if got := judge.Ran(p, "reload"); got != len(tasks) {
		t.Errorf("%s%d reloads were run, want %d", harness.MoreThan(len(tasks), got), got, len(tasks))
	}
	a.restart()
	a.shows("0:127.0.0.2", "online")
	s.operate(a, b, p, judge.Stop).Want(t, "stop", 0)
}

// TestBrokersOfServers: two servers that embed their brokers, and nothing else but a database. The agents of one that
// dies go to the other.
func TestBrokersOfServers(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 2)
	a, b := s.servers[0], s.servers[1]
	one := s.agent("one", "127.0.0.2", a)
	two := s.agent("two", "127.0.0.3", b)
	p, q := s.daemon("127.0.0.2", "p"), s.daemon("127.0.0.3", "q")
	for i, process := range []*harness.Process{p, q, p, q} { // each by each
		s.operate(s.servers[i/2], s.servers[1-i/2], process, []int{judge.Start, judge.Restart}[i/2]).Want(t,
			"operation", 0)
	}
	for _, dead := range s.servers {
		dead.program().Kill()
		other := s.servers[0]
		if dead == a {
			other = b
		}
		for _, process := range []*harness.Process{p, q} {
			s.operate(other, other, process, judge.Restart).Want(t, "with one server", 0)
		}
		dead.restart()
		for _, host := range []string{"0:127.0.0.2", "0:127.0.0.3"} {
			dead.shows(host, "online")
		}
	}
	for _, process := range []*harness.Process{p, q} {
		if got := judge.Ran(process, "start"); got != 4 {
			t.Errorf("%s%s was started %d times, want 4", harness.MoreThan(4, got), process.Name, got)
		}
	}
	s.must("agents", "remove", "0:127.0.0.2", "--data-dir", b.dir)
	s.must("agents", "remove", "0:127.0.0.3", "--data-dir", b.dir)
	for _, agent := range []*node{one, two} {
		harness.Eventually(t, agent.name+" to be refused",
			func() bool { return strings.Contains(agent.log.String(), "fabric rejected the credentials") })
	}
}

// TestAProxy: a proxy goes by whichever broker is there, and whichever server is asked knows its hosts.
func TestAProxy(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, 2)
	a, b := s.servers[0], s.servers[1]
	proxy, at := s.proxy("gate", 3, a)
	one := s.agentOf(3, "one", "127.0.0.2", b, at)
	p := s.daemon("127.0.0.2", "p")
	p.Host = "3:127.0.0.2"
	s.operate(a, b, p, judge.Start).Want(t, "start", 0)
	for _, dead := range s.brokers {
		dead.program().Kill()
		for _, n := range s.servers {
			harness.Eventually(t, n.name+" to be ready with one broker", func() bool {
				status, _ := n.get("/readyz")
				return status == 200
			})
		}
		s.operate(b, a, p, judge.Restart).Want(t, "with one broker", 0)
		dead.restart()
		harness.Eventually(t, dead.name+" to listen", dead.listens)
	}
	before := len(one.log.String())
	s.must("proxies", "remove", "gate", "--data-dir", b.dir)
	for _, n := range s.servers {
		// It goes back to the brokers if it hears of that before the proxy is cut off.
		harness.Eventually(t, n.name+" to know that the host has no proxy", func() bool {
			return n.presence("3:127.0.0.2") == "away" ||
				strings.Contains(one.log.String()[before:], "reconnecting there")
		})
	}
	if log := proxy.log.String(); strings.Contains(log, "panic") {
		t.Error("the proxy has crashed")
	}
}

// TestAProxyOfServers: servers that embed their brokers give a proxy the addresses of all of them, although each has only
// its own. The hosts of the proxy stay when the server dies at which the proxy has joined.
func TestAProxyOfServers(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 2)
	a, b := s.servers[0], s.servers[1]
	proxy, at := s.proxy("gate", 3, a)
	s.agentOf(3, "one", "127.0.0.2", b, at)
	p := s.daemon("127.0.0.2", "p")
	p.Host = "3:127.0.0.2"
	s.operate(a, b, p, judge.Start).Want(t, "start", 0)
	for _, n := range s.servers {
		leaves := n.args[slices.Index(n.args, "--proxies")+1]
		harness.Eventually(t, "the proxy to know "+n.name, func() bool { return holds(t, proxy.dir, leaves) })
	}
	for _, dead := range s.servers {
		other := b
		if dead == b {
			other = a
		}
		dead.program().Kill()
		s.operate(other, other, p, judge.Restart).Want(t, "with one server", 0)
		dead.restart()
		dead.shows("3:127.0.0.2", "online")
	}
}

// holds reports whether a file below a directory holds a text.
func holds(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // the proxy replaces its files meanwhile
		}
		data, err := os.ReadFile(path)
		found = found || err == nil && strings.Contains(string(data), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// refused starts a server, which must end by itself and say why.
func (s *site) refused(why string, flags ...string) {
	s.t.Helper()
	n := s.node("refused", binaries.drover)
	args := append([]string{"server", "--http", "127.0.0.1:0", "--log-level", "debug"}, flags...)
	for _, b := range s.brokers {
		args = append(args, "--nats", "tls://"+b.clients)
	}
	r := harness.Finish(s.t, "", harness.Environment(n.dir, harness.FirstApp()...), binaries.drover, args...)
	if r.Code != 1 || !strings.Contains(r.Errors, why) {
		s.t.Errorf("exit code %d, %s; want an error about %q", r.Code, r.Errors, why)
	}
}

// TestMixedUp: a server with the keys of another fleet, or with another database, is refused and told why.
func TestMixedUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 1)
	keys := filepath.Join(s.dir, "keys.tar")
	s.refused("the database belongs to fleet A", "--data-dir", filepath.Join(s.dir, "stranger"), "--database",
		s.database)

	second := filepath.Join(s.dir, "second")
	s.must("server", "keys", "import", keys, "--data-dir", second)
	s.refused("uses the same fabric with another database", "--data-dir", second) // its own file
	if r := s.run("server", "keys", "import", keys, "--data-dir", filepath.Join(s.dir, "stranger")); r.Code != 1 ||
		!strings.Contains(r.Errors, "keys of another fleet") {
		t.Errorf("keys of another fleet: exit code %d, %s", r.Code, r.Errors)
	}
	if r := s.run("server", "keys", "export", keys, "--data-dir", second); r.Code != 1 ||
		!strings.Contains(r.Errors, "exists") {
		t.Errorf("export over a file: exit code %d, %s", r.Code, r.Errors)
	}
	if r := s.run("server", "keys", "import", keys, "--data-dir", s.servers[0].dir); r.Code != 1 ||
		!strings.Contains(r.Errors, "in use") {
		t.Errorf("import below a server that runs: exit code %d, %s", r.Code, r.Errors)
	}

	// The keys are lost on all servers: the database goes to those of the stranger.
	old := s.servers[0].dir
	s.servers[0].program().Kill()
	s.must("server", "keys", "adopt", "--data-dir", filepath.Join(s.dir, "stranger"), "--database", s.database)
	s.refused("the database belongs to fleet A", "--data-dir", old, "--database", s.database)
	s.brokers = nil
	s.startServer(filepath.Join(s.dir, "stranger"), "--fabric", "127.0.0.1:0")
}

// TestServersThatAreApart: a second server on the database that was given no routes is not ready and says why; what it
// is asked for is carried out by the first one, for hosts that only that one hears, and nobody is told that they are
// gone.
func TestServersThatAreApart(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 1)
	a := s.servers[0]
	s.agent("one", "127.0.0.2", a)
	p := s.daemon("127.0.0.2", "p")
	s.operate(a, a, p, judge.Start).Want(t, "start", 0)
	keys, dir := filepath.Join(s.dir, "keys.tar"), filepath.Join(s.dir, "server2")
	s.must("server", "keys", "import", keys, "--data-dir", dir)
	b := s.startServer(dir, "--fabric", harness.FreeAddress(t), "--advertise", harness.FreeAddress(t))
	harness.Eventually(t, "the second server not to be ready", func() bool {
		status, text := b.get("/readyz")
		return status == 503 && strings.Contains(text, "uses the same database, but is not heard over the fabric")
	})
	harness.Eventually(t, "its log to say so", func() bool {
		return strings.Contains(b.log.String(), "servers share a database, but not a fabric")
	})
	harness.Eventually(t, "the first server to say so, and to go on", func() bool {
		status, text := a.get("/readyz")
		if status != 200 {
			t.Fatalf("the first server: %d %s", status, text)
		}
		return strings.Contains(text, "is not heard over the fabric")
	})
	s.operate(b, b, p, judge.Restart).Want(t, "restart at the one that hears nobody", 0)
	b.program().End(syscall.SIGTERM)
	harness.Eventually(t, "the first server to forget the second", func() bool {
		_, text := a.get("/readyz")
		return !strings.Contains(text, "is not heard over the fabric")
	})
}
