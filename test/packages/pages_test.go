package packages_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"drover/test/harness"
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

// build makes packages with the programs of this test, in a directory.
func build(t *testing.T, version string, environment ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dist")
	cmd := exec.Command(filepath.Join(harness.Root(), "tools", "package.sh"), "--binaries", filepath.Dir(binaries.drover), version, architecture(), out)
	// What is made only to be installed once is not worth the time.
	cmd.Env = append(os.Environ(), "DPKG_DEB_COMPRESSOR_TYPE=none", "GZIP=-1", "SOURCE_DATE_EPOCH=1700000000")
	cmd.Env = append(cmd.Env, environment...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

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

// TestPages follows the pages of docs/ops from packages in a directory to a fleet, and through what they say about the years after, word
// for word.
func TestPages(t *testing.T) {
	t.Parallel()
	old, fresh := build(t, "1.0.0"), build(t, "1.1.0")
	l := newLab(t, "drover", "drover-2", "host-1", "host-2", "db")
	server := l.machines["drover"]
	server.give(old + "/drover_*.deb")
	for _, name := range []string{"host-1", "host-2"} {
		l.machines[name].give(old + "/drover-agent_*.deb")
	}
	l.follow("install.md")
	harness.Eventually(t, "the secret of the first app", func() bool {
		return strings.Contains(server.run("journalctl -u drover-server --no-pager"), "app secret")
	})
	l.follow("join.md")
	if hosts := server.run("drover agents --no-headers"); strings.Count(hosts, "online") != 2 {
		t.Fatalf("the server has\n%s", hosts)
	}
	pid := func(m *machine) string { return strings.TrimSpace(m.run("cat /run/nginx.pid")) }
	one, two := pid(l.machines["host-1"]), pid(l.machines["host-2"])
	agent := l.machines["host-1"].run("systemctl show -P MainPID drover-agent")

	unchanged := func(after string) {
		t.Helper()
		if first, second := pid(l.machines["host-1"]), pid(l.machines["host-2"]); first != one || second != two {
			t.Fatalf("nginx was %s and %s and is %s and %s after %s", one, two, first, second, after)
		}
		harness.Eventually(t, "the server to see both after "+after, func() bool { return strings.Count(server.run("drover ps --no-headers"), "running") == 2 })
	}
	for _, m := range l.machines {
		m.run("rm -f *.deb")
	}
	server.give(fresh + "/*.deb")
	l.machines["drover-2"].give(fresh + "/drover_*.deb")
	l.follow("upgrade.md")
	if again := l.machines["host-1"].run("systemctl show -P MainPID drover-agent"); again == agent {
		t.Errorf("the agent is pid %s as before the upgrade", strings.TrimSpace(agent))
	}
	unchanged("the upgrade")
	l.follow("policy.md")
	l.follow("rotation.md")
	unchanged("keys that were replaced")
	l.follow("backup.md")
	unchanged("a restore")
	l.follow("disaster.md")
	unchanged("disasters")
	l.follow("database.md")
	unchanged("the move to PostgreSQL")
	l.follow("servers.md")
	unchanged("a second server")
	server.run("systemctl stop drover-server")
	l.settle()
	l.machines["drover-2"].run("drover restart web/nginx --yes")
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
	if list := server.run("drover proxies list --no-headers"); !strings.Contains(list, "dmz-2") || strings.Contains(list, "dmz-1") {
		t.Errorf("the proxies are\n%s", list)
	}
	harness.Eventually(t, "the host to come through the other proxy", func() bool {
		words := strings.Fields(server.run("drover proxies list --no-headers"))
		return len(words) > 3 && words[3] == "1" // NAME AREA STATE AGENTS
	})
	server.run(`drover register a/sleeper --hosts '3:*' --file - <<'END'
identity: {proc_name: sleep, setup_path: /, pid_path: /run/sleeper.pid, user: root}
commands: {start: "sleep 1000 & echo $! >/run/sleeper.pid"}
policy: {kind: resident}
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
			l.settle()
		}
	}
}

// settle waits, as a reader would who looks before going on, until the services that were started do their work.
func (l *lab) settle() {
	l.t.Helper()
	active := func(m *machine, unit string) bool { return m.try("systemctl is-active --quiet "+unit).err == nil }
	agents, proxies := 0, 0
	for _, m := range l.machines {
		if active(m, "drover-agent") {
			agents++
		}
		if active(m, "drover-proxy") {
			proxies++
		}
	}
	for _, m := range l.machines {
		if active(m, "drover-server") {
			m.sees(agents, proxies)
		}
	}
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
		seen = m.try("drover agents --no-headers")
		online := strings.Count(seen.out, "online")
		all := strings.Count(seen.out, "\n")
		return seen.err == nil && (online >= agents || online == all || strings.Contains(seen.out, "no hosts have joined"))
	})
	harness.Eventually(m.t, "the agents to go by the server's keys", func() bool {
		seen = m.try("drover keys list --no-headers")
		lines := strings.Split(strings.TrimSpace(seen.out), "\n")
		var some, all int
		_, err := fmt.Sscanf(lines[len(lines)-1], "%d of %d host", &some, &all)
		return seen.err == nil && (agents == 0 || err == nil && some == all)
	})
	harness.Eventually(m.t, "the proxies to be there", func() bool {
		seen = m.try("drover proxies list --no-headers")
		return seen.err == nil && (proxies == 0 || !strings.Contains(seen.out, "away"))
	})
	settled = true
}

// TestEveryPageIsRun: commands that are marked as runnable are run, all pages are listed where people begin, and no page is left over.
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
	return []string{"install.md", "join.md", "upgrade.md", "policy.md", "rotation.md", "backup.md", "disaster.md", "database.md", "servers.md", "proxy.md"}
}
