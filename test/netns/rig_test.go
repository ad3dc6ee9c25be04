package netns_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// The ports of all hosts.
const (
	httpPort   = "7350"
	fabricPort = "7351"
	leafPort   = "7352"
)

// rig is a fleet on the network.
type rig struct {
	*harness.Fleet
	*network
	t testing.TB
	// relay is between the server and the agents that no proxy leads to.
	relay *relay
	work  string
	// proxies and agents are by host.
	proxies, agents map[string]*harness.Program
}

// newRig starts the server, two proxies for each area, and an agent on every other host.
func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{
		t: t, network: newNetwork(t), work: harness.Workdir(t), proxies: map[string]*harness.Program{},
		agents: map[string]*harness.Program{},
	}
	at := r.address("server", core)
	r.Fleet = &harness.Fleet{
		T: t, Drover: binaries.drover, Agent: binaries.agent, Place: enter, Dial: dialFrom("caller"),
		Flags: []string{
			"--http", at + ":" + httpPort, "--fabric", at + ":" + fabricPort, "--proxies", at + ":" + leafPort,
			"--advertise", r.address("relay", core) + ":" + fabricPort,
		},
	}
	r.relay = newRelay(t, "relay", r.address("relay", core)+":"+fabricPort, at+":"+fabricPort)
	r.Begin()
	for _, p := range places() {
		switch {
		case strings.Contains(p.name, "-p"):
			r.join(p.name)
		case p.name == "near":
			r.agents[p.name] = r.JoinAndStart(p.name, r.address(p.name, core), 0)
		}
	}
	for _, p := range places() {
		if area, ok := areas()[lanOf(p.name)]; ok && !strings.Contains(p.name, "-p") {
			proxy := "https://" + r.address(lanOf(p.name)+"-p1", lanOf(p.name)) + ":" + httpPort
			ip := r.address(p.name, lanOf(p.name))
			if code, errs := r.Join(p.name, ip, r.Token(area), "--server", proxy); code != 0 {
				t.Fatalf("%s cannot join: exit code %d: %s", p.name, code, errs)
			}
			r.agents[p.name] = r.StartAgent(p.name)
			r.Online(r.host(p.name))
		}
	}
	return r
}

// areas are the numbers of the two areas.
func areas() map[string]int { return map[string]int{north: 1, south: 2} }

// lanOf is the network that a host's name begins with; that of the hosts of the core has no area.
func lanOf(name string) string {
	lan, _, _ := strings.Cut(name, "-")
	return lan
}

func (r *rig) address(name, lan string) string { return r.places[name].addresses[lan] }

// host is what callers know a host as.
func (r *rig) host(name string) string {
	if area, ok := areas()[lanOf(name)]; ok {
		return fmt.Sprintf("%d:%s", area, r.address(name, lanOf(name)))
	}
	return "0:" + r.address(name, core)
}

// join has a proxy join and starts it.
func (r *rig) join(name string) {
	r.t.Helper()
	lan := lanOf(name)
	inside := r.address(name, lan)
	token := strings.TrimSpace(r.CLI("token", "create", "--role", "proxy", "--area", fmt.Sprint(areas()[lan]), "--uses",
		"1", "--ttl", "1h"))
	code, _, errs := r.Fleet.Run(name, token, binaries.drover, "proxy", "join", "--server", r.URL, "--token", "-",
		"--name", name,
		"--data-dir", r.AgentDir(name), "--advertise", inside+":"+fabricPort)
	if code != 0 {
		r.t.Fatalf("%s cannot join: exit code %d: %s", name, code, errs)
	}
	r.startProxy(name)
}

func (r *rig) startProxy(name string) {
	r.t.Helper()
	inside := r.address(name, lanOf(name))
	r.proxies[name] = r.Start(name, binaries.drover, "proxy", "run", "--data-dir", r.AgentDir(name), "--http",
		inside+":"+httpPort, "--fabric", inside+":"+fabricPort, "--log-level", "debug")
}

// restart starts what was killed: the server, a proxy or an agent.
func (r *rig) restart(name string) {
	r.t.Helper()
	switch {
	case name == "server":
		r.StartServer()
	case strings.Contains(name, "-p"):
		r.startProxy(name)
	default:
		r.agents[name] = r.StartAgent(name)
	}
}

// kill ends a part as kill -9 does.
func (r *rig) kill(name string) {
	r.t.Helper()
	switch {
	case name == "server":
		r.Server.End(syscall.SIGKILL)
	case strings.Contains(name, "-p"):
		r.proxies[name].End(syscall.SIGKILL)
	default:
		r.agents[name].End(syscall.SIGKILL)
	}
}

// daemon is a process of a host. The hosts share their files, so each has directories of its own.
func (r *rig) daemon(host, name string) *harness.Process {
	r.t.Helper()
	p := judge.Daemon(r.t, filepath.Join(r.work, host), name)
	p.Host = r.host(host)
	return p
}

// post calls an endpoint.
func (r *rig) post(name string, body any) (harness.Object, error) {
	return harness.Caller{URL: r.URL, Client: r.Client}.GSE(name, body)
}

// submit begins an operation and returns the task's id.
func (r *rig) submit(p *harness.Process, op int) string {
	r.t.Helper()
	data, err := r.post("operate_proc_v2", p.Request(op))
	if err != nil {
		r.t.Fatal(err)
	}
	return data["task_id"].(string)
}

// outcome polls a task to its end.
func (r *rig) outcome(p *harness.Process, task string) harness.Result {
	r.t.Helper()
	return harness.ParseResult(r.t, harness.Caller{URL: r.URL, Client: r.Client}.Await(r.t, task)[p.Key()])
}

// does carries out an operation that must succeed.
func (r *rig) does(p *harness.Process, op int) {
	r.t.Helper()
	if got := r.outcome(p, r.submit(p, op)); got.Code != 0 {
		r.t.Fatalf("%s: op %d: %d %s", p.Key(), op, got.Code, got.Msg)
	}
}

// settled waits until the host is reached again, and fails the test unless what drover says of a process is what is
// there.
func (r *rig) settled(p *harness.Process) harness.Result {
	r.t.Helper()
	var seen harness.Result
	harness.Eventually(r.t, p.Host+" to answer", func() bool {
		seen = r.outcome(p, r.submit(p, judge.Query))
		return seen.Code == 0
	})
	if n := judge.Instances(r.t, judge.Dir(p)); n > 1 || (n == 1) != (seen.PID > 1) {
		r.t.Errorf("%s: %d instances, and a query said pid %d", p.Key(), n, seen.PID)
	}
	return seen
}

// all are the hosts with an agent, in order.
func (r *rig) all() []string {
	var names []string
	for name := range r.agents {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
