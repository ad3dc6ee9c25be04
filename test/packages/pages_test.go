package packages_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"drover/internal/test/harness"
)

// block is commands that a page tells its reader to run, on each of some machines.
type block struct {
	page     string
	line     int
	machines []string
	script   string
}

// blocks returns the runnable ones of a page: fenced, as sh, with the names of machines behind that.
func blocks(t *testing.T, page string) []block {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "ops", page))
	must(t, err)
	var found []block
	var current *block
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		fence, fenced := strings.CutPrefix(strings.TrimSpace(line), "```")
		words := strings.Fields(fence)
		switch {
		case fenced && current != nil:
			found = append(found, *current)
			current = nil
		case fenced && len(words) > 1 && words[0] == "sh":
			current = &block{page: page, line: number, machines: words[1:]}
		case current != nil:
			current.script += line
		}
	}
	return found
}

// architecture of this machine, as packages call it.
func architecture() string { return runtime.GOARCH }

// build makes what a release has with the programs of this test, and returns the directory. Tests that ask for the same
// share it.
func build(t *testing.T, version string, environment ...string) string {
	t.Helper()
	key := strings.Join(append([]string{version}, environment...), " ")
	made, _ := builds.LoadOrStore(key, sync.OnceValues(func() (string, error) {
		out, err := os.MkdirTemp(filepath.Dir(binaries.drover), "dist-") //nolint:usetesting // it outlives the test
		if err != nil {
			return "", err
		}
		cmd := exec.Command(filepath.Join(harness.Root(), "tools", "package.sh"), "--fast", "--binaries",
			filepath.Dir(binaries.drover), version, architecture(), out)
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch)
		cmd.Env = append(cmd.Env, environment...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w\n%s", err, text)
		}
		return out, nil
	}))
	out, err := made.(func() (string, error))()
	must(t, err)
	return out
}

// builds holds the directories of build, which go with those of the programs.
var builds sync.Map

// epoch is when the packages of tests are made: 2023-11-14T22:13:20Z.
const epoch = "1700000000"

// give copies files into the home of root on a machine.
func (m *machine) give(files ...string) {
	m.t.Helper()
	for _, pattern := range files {
		found, err := filepath.Glob(pattern)
		must(m.t, err)
		if len(found) == 0 {
			m.t.Fatalf("there is no %s", pattern)
		}
		for _, file := range found {
			if out, err := exec.Command("cp", "-p", file, filepath.Join(m.root, "root")).CombinedOutput(); err != nil {
				m.t.Fatalf("%v\n%s", err, out)
			}
		}
	}
}

// TestPages follows the pages of docs/ops from packages in a directory to a fleet, through what they say about the
// years after, and to its end, word for word.
func TestPages(t *testing.T) {
	t.Parallel()
	old, fresh := build(t, "1.0.0"), build(t, "1.1.0")
	l := newLab(t, "drover", "host-1", "host-2")
	server, first, second := l.machines["drover"], l.machines["host-1"], l.machines["host-2"]
	w := l.setUp(old)
	agent := first.run("systemctl show -P MainPID drover-agent")
	for _, m := range l.machines {
		m.run("rm -f *.deb")
	}
	server.give(fresh + "/*.deb")
	l.follow("upgrade.md")
	if again := first.run("systemctl show -P MainPID drover-agent"); again == agent {
		t.Errorf("the agent is pid %s as before the upgrade", strings.TrimSpace(agent))
	}
	w.unchanged("the upgrade")
	l.follow("policy.md")
	l.follow("rotation.md")
	w.unchanged("keys that were replaced")
	l.follow("backup.md")
	w.unchanged("a restore")
	l.follow("disaster.md")
	w.unchanged("disasters")
	l.follow("remove.md")
	if r := first.try("cat /proc/" + w.pids[0] + "/comm"); r.err == nil {
		t.Errorf("what was stopped before the removal is there as pid %s: %s", w.pids[0], r.out)
	}
	if pid := second.pid(); pid != w.pids[1] {
		t.Errorf("nginx was %s on a host whose server was removed, and is %s", w.pids[1], pid)
	}
	for m, paths := range map[*machine]string{
		first:  "/var/lib/drover-agent /etc/drover /usr/bin/drover-agent",
		server: "/var/lib/drover /etc/drover /usr/bin/drover",
	} {
		if left := m.run("ls -d " + paths + " 2>/dev/null || true"); left != "" {
			t.Errorf("on %s a purge leaves\n%s", m.name, left)
		}
	}
}

// work is what runs on the hosts of a lab: an nginx on each, by the page about joining.
type work struct {
	server *machine
	hosts  []*machine
	pids   []string
}

// setUp follows the pages that make a server and two hosts out of packages.
func (l *lab) setUp(packages string) *work {
	l.t.Helper()
	w := &work{server: l.machines["drover"], hosts: []*machine{l.machines["host-1"], l.machines["host-2"]}}
	w.server.give(packages + "/drover_*.deb")
	for _, m := range w.hosts {
		m.give(packages + "/drover-agent_*.deb")
	}
	l.follow("install.md")
	harness.Eventually(l.t, "the secret of the first app", func() bool {
		return strings.Contains(w.server.run("journalctl -u drover-server --no-pager"), "app secret")
	})
	l.follow("join.md")
	if hosts := w.server.run("drover hosts --no-headers"); strings.Count(hosts, "online") != 2 {
		l.t.Fatalf("the server has\n%s", hosts)
	}
	for _, m := range w.hosts {
		w.pids = append(w.pids, m.pid())
	}
	return w
}

// pid is that of nginx on the machine.
func (m *machine) pid() string {
	m.t.Helper()
	return strings.TrimSpace(m.run("cat /run/nginx.pid"))
}

// unchanged fails the test where anything runs otherwise than before, or the server does not come to see it.
func (w *work) unchanged(after string) {
	t := w.server.t
	t.Helper()
	for i, m := range w.hosts {
		if pid := m.pid(); pid != w.pids[i] {
			t.Fatalf("nginx on %s was %s and is %s after %s", m.name, w.pids[i], pid, after)
		}
	}
	harness.Eventually(t, "the server to see both after "+after,
		func() bool { return strings.Count(w.server.run("drover ps --no-headers"), "running") == 2 })
}

// TestPageOfProxies follows the page about an area that only its proxies reach.
func TestPageOfProxies(t *testing.T) {
	t.Parallel()
	packages := build(t, "1.0.0")
	l := newLab(t, "drover", "dmz-1", "dmz-2", "host-3")
	for _, name := range []string{"drover", "dmz-1", "dmz-2"} {
		l.machines[name].give(packages + "/drover_*.deb")
	}
	l.machines["host-3"].give(packages + "/drover-agent_*.deb")
	server := l.machines["drover"]
	l.follow("install.md")
	server.cut(l.machines["host-3"])
	l.follow("proxy.md")
	// The proxy that the host has joined through is removed by now.
	if list := server.run("drover proxies list --no-headers"); !strings.Contains(list, "dmz-2") ||
		strings.Contains(list, "dmz-1") {
		t.Errorf("the proxies are\n%s", list)
	}
	harness.Eventually(t, "the host to come through the other proxy", func() bool {
		words := strings.Fields(server.run("drover proxies list --no-headers"))
		return len(words) > 3 && words[3] == "1" // NAME AREA STATE AGENTS
	})
	server.run(`drover register a/sleeper --hosts '3:*' --file - <<'END'
start: sleep 1000 & echo $! >/run/sleeper.pid
pid_file: /run/sleeper.pid
process_name: sleep
user: root
END
drover start a/sleeper`)
}

// cut has two machines not reach each other.
func (m *machine) cut(other *machine) {
	m.t.Helper()
	m.run("ip route add blackhole $(getent ahostsv4 " + other.name + " | head -n 1 | cut -d ' ' -f 1)")
}

// follow runs the commands of a page, in order.
func (l *lab) follow(page string) {
	l.t.Helper()
	found := blocks(l.t, page)
	if len(found) == 0 {
		l.t.Fatalf("%s has nothing to run", page)
	}
	for _, b := range found {
		for _, name := range b.machines {
			m := l.machines[name]
			if m == nil {
				l.t.Fatalf("%s:%d: there is no machine %s", b.page, b.line, name)
			}
			l.t.Logf("%s:%d on %s\n%s%s", b.page, b.line, name, b.script, m.run(b.script))
		}
		l.settle()
	}
}

// settle waits, as a reader would who looks before going on, until the services that were started do their work.
func (l *lab) settle() {
	l.t.Helper()
	agents, proxies := 0, 0
	var servers []*machine
	for _, m := range l.machines {
		// One line each, whether they are installed or not.
		states := strings.Fields(m.try("systemctl is-active drover-agent drover-proxy drover-server").out)
		if len(states) != 3 {
			l.t.Fatalf("the services of %s are %q", m.name, states)
		}
		if states[0] == "active" {
			agents++
		}
		if states[1] == "active" {
			proxies++
		}
		if states[2] == "active" {
			servers = append(servers, m)
		}
	}
	for _, m := range servers {
		m.sees(agents, proxies)
	}
	// Of several servers each has heard some of the agents, and one that has heard all is enough.
	if agents > 0 && len(servers) > 0 {
		harness.Eventually(l.t, "the agents to go by the keys of a server",
			func() bool { return slices.ContainsFunc(servers, (*machine).reaches) })
	}
}

// reaches reports whether a server that runs on the machine knows that all agents go by its keys.
func (m *machine) reaches() bool {
	r := m.try("drover keys list --no-headers")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var some, all int
	_, err := fmt.Sscanf(lines[len(lines)-1], "%d of %d host", &some, &all)
	return r.err == nil && err == nil && some == all
}

// sees waits until a server that runs on the machine has the agents and the proxies that have joined it.
func (m *machine) sees(agents, proxies int) {
	m.t.Helper()
	var seen outcome
	settled := false
	defer func() {
		if !settled {
			m.t.Logf("%s last said\n%s--- its journal ends with\n%s", m.name, seen.out, m.journal())
		}
	}()
	harness.Eventually(m.t, "the server to see the agents that have joined it", func() bool {
		seen = m.try("drover hosts --no-headers")
		online := strings.Count(seen.out, "online")
		all := strings.Count(seen.out, "\n")
		return seen.err == nil &&
			(online >= agents || online == all || strings.Contains(seen.out, "no hosts have joined"))
	})
	harness.Eventually(m.t, "the proxies to be there", func() bool {
		seen = m.try("drover proxies list --no-headers")
		return seen.err == nil && (proxies == 0 || !strings.Contains(seen.out, "away"))
	})
	settled = true
}

// TestEveryPageIsRun: commands that are marked as runnable are run, all pages are listed where people begin, and no
// page is left over.
func TestEveryPageIsRun(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(harness.Root(), "docs", "ops", "*.md"))
	must(t, err)
	index, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "ops", "README.md"))
	must(t, err)
	for _, path := range pages {
		page := filepath.Base(path)
		if page != "README.md" && !strings.Contains(string(index), "("+page+")") {
			t.Errorf("docs/ops/README.md does not mention %s", page)
		}
		if !slices.Contains(followed(), page) && len(blocks(t, page)) > 0 {
			t.Errorf("%s has commands to run, which no test does", page)
		}
	}
}

// followed are the pages that the tests here follow.
func followed() []string {
	return []string{
		"install.md", "join.md", "upgrade.md", "policy.md", "rotation.md", "backup.md", "disaster.md",
		"remove.md", "database.md", "servers.md", "proxy.md",
	}
}
