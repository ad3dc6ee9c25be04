package packages_test

import (
	"strings"
	"testing"
)

// TestUpgradesByTheServer follows docs/ops/agent-upgrades.md on machines that boot: two hosts, installed from packages,
// take a version that their owner has signed. The unit's main process stays, and dpkg finds its files as it left them. A
// program that ends at once, that hangs, or that is damaged is not taken, and a package that is installed by hand has
// the last word.
func TestUpgradesByTheServer(t *testing.T) {
	t.Parallel()
	packages := build(t, "1.0.0")
	l := newLab(t, "drover", "host-1", "host-2")
	server, first, second := l.machines["drover"], l.machines["host-1"], l.machines["host-2"]
	w := l.setUp(packages)
	server.give(binaries.agent)
	server.give(binaries.mute)
	key := strings.TrimSpace(server.run("drover packages keygen release.key"))
	for _, m := range []*machine{first, second} {
		m.run("printf 'release-keys: " + key + "\\ntrial-time: 20s\\n' >>/etc/drover/agent.conf; systemctl restart drover-agent")
	}
	l.settle()
	mainPID := func(m *machine) string { return strings.TrimSpace(m.run("systemctl show -P MainPID drover-agent")) }
	before := []string{mainPID(first), mainPID(second)}
	server.run(`drover packages sign drover-agent --key release.key --version 1.1.0
drover packages add drover-agent
drover packages list
drover hosts upgrade '*' --to 1.1.0 --batch 1 --yes --timeout 5m`)
	l.settle()
	w.unchanged("an upgrade by the server")
	if list := server.run("drover hosts"); strings.Count(list, " 1.1.0 ") != 2 {
		t.Errorf("the hosts are\n%s", list)
	}
	for i, m := range []*machine{first, second} {
		if now := mainPID(m); now != before[i] {
			t.Errorf("the unit of %s had the main process %s, and has %s", m.name, before[i], now)
		}
		if exe := m.run("readlink /proc/" + before[i] + "/exe"); !strings.HasPrefix(exe,
			"/var/lib/drover-agent/agent/versions/drover-agent-") {
			t.Errorf("%s runs %s", m.name, exe)
		}
		if r := m.try("dpkg -V drover-agent | grep -v /usr/share/ | grep -v agent.conf"); r.out != "" {
			t.Errorf("dpkg finds changed files on %s: %s", m.name, r.out)
		}
	}
	for _, step := range []string{
		"systemctl restart drover-agent", "systemctl kill --kill-whom=main --signal KILL drover-agent",
		"until systemctl is-active --quiet drover-agent; do sleep 0.1; done",
	} {
		first.run(step)
		l.settle()
	}
	if exe := first.run("readlink /proc/" + mainPID(first) + "/exe"); !strings.Contains(exe, "/versions/") {
		t.Errorf("after a restart %s runs", exe)
	}
	for _, bad := range []struct{ version, file, want string }{
		{"1.2.0", "cp drover-agent-mute bad; printf end >>bad", "it ended (exit status 0)"},
		{"1.2.1", "cp drover-agent-mute bad", "not within 20s"},
		// The damage begins with the Go runtime, so the program ends at once.
		{"1.2.2", "cp drover-agent bad; dd if=/dev/zero of=bad bs=64k seek=1 count=64 conv=notrunc", "it ended"},
	} {
		r := server.try(bad.file + `
drover packages sign bad --key release.key --version ` + bad.version + `
drover packages add bad
drover hosts upgrade '*' --to ` + bad.version + ` --batch 1 --yes --timeout 5m`)
		if r.err == nil || !strings.Contains(r.out, "the host went back: "+bad.want) {
			t.Errorf("the bad version %s: %v\n%s", bad.version, r.err, r.out)
		}
		server.run("drover rollout abort $(drover rollout list -o name | head -n 1)")
		l.settle()
		w.unchanged("the bad version " + bad.version)
		if list := server.run("drover hosts"); strings.Count(list, " 1.1.0 ") != 2 {
			t.Errorf("after the bad version %s the hosts are\n%s", bad.version, list)
		}
	}
	first.give(build(t, "1.3.0") + "/drover-agent_*.deb")
	first.run("dpkg -i drover-agent_1.3.0_*.deb")
	l.settle()
	if exe := first.run("readlink /proc/" + mainPID(first) + "/exe"); exe != "/usr/bin/drover-agent\n" {
		t.Errorf("after dpkg %s runs", exe)
	}
	w.unchanged("a package that was installed by hand")
}
