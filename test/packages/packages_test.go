package packages_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestPackages is the life of both packages on one machine: nothing runs before it is set up, what cannot be read by
// others is not, a wrong setting is not tried again and again, a removal keeps what a purge takes, and a process lives
// through all of it.
func TestPackages(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drover")
	m := l.machines["drover"]
	m.give(build(t, "1.0.0") + "/*.deb")
	m.run("dpkg -i drover_*.deb drover-agent_*.deb")
	for _, unit := range []string{"drover-server", "drover-proxy", "drover-agent", "drover-shutdown"} {
		if r := m.try("systemctl is-active " + unit); r.out != "inactive\n" {
			t.Errorf("%s is %q after the installation", unit, r.out)
		}
	}
	for path, want := range map[string]string{
		"/etc/drover/server.yaml": "640 root drover", "/var/lib/drover": "700 drover drover",
		"/var/lib/drover-agent": "700 root root", "/usr/bin/drover": "755 root root",
	} {
		if got := strings.TrimSpace(m.run("stat -c '%a %U %G' " + path)); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}

	// As it is installed, one setting is missing.
	if r := m.try("drover config check /etc/drover/server.yaml"); r.err == nil ||
		!strings.Contains(r.out, "advertise") {
		t.Errorf("the check of what is not set up says %q", r.out)
	}
	m.run("systemctl start drover-server")
	harness.Eventually(t, "systemd to give up what cannot work",
		func() bool { return m.try("systemctl is-failed drover-server").out == "failed\n" })
	if n := strings.TrimSpace(m.run("systemctl show -P NRestarts drover-server")); n != "0" {
		t.Errorf("a server with wrong settings was started again %s times", n)
	}

	m.run("echo 'advertise: [127.0.0.1:7351]' >>/etc/drover/server.yaml; systemctl start drover-server")
	l.settle()
	// Root brings keys, or a copy. What is linked there is not given away.
	m.run(
		"systemctl stop drover-server; chown root /var/lib/drover/server/*; install -m 600 /dev/null /var/lib/mine; ln /var/lib/mine /var/lib/drover/server/mine; systemctl start drover-server")
	l.settle()
	if owner := m.run(
		"stat -c %U /var/lib/mine; stat -c %U /var/lib/drover/server/broker; rm /var/lib/drover/server/mine"); owner != "root\ndrover\n" {
		t.Errorf("owners are %q", owner)
	}
	pid, lives := l.sleeper(m, "start")
	if got := m.run("cat /proc/" + pid + "/oom_score_adj"); got != "0\n" {
		t.Errorf("oom_score_adj of the process is %q, want 0", got)
	}
	for _, step := range []string{
		"systemctl restart drover-agent", "systemctl stop drover-agent", "systemctl start drover-agent",
		"systemctl kill --kill-whom=main --signal KILL drover-agent",
		"until systemctl is-active --quiet drover-agent; do sleep 0.1; done",
		crashed("drover-agent", "ABRT"), crashed("drover-server", "SEGV"), frozen("drover-agent"),
	} {
		m.run(step)
		l.settle()
		lives(step)
	}

	m.run("systemctl enable --now drover-shutdown; systemctl restart drover-agent")
	lives("the choice of an ordered shutdown")
	m.run("dpkg --remove drover-agent drover")
	lives("the removal")
	m.run(
		"test -e /var/lib/drover/server/pki/ca.key; test -e /var/lib/drover-agent/agent/enrolment.json; test -e /etc/drover/server.yaml; ! test -e /usr/bin/drover")
	m.run("dpkg -i drover_*.deb drover-agent_*.deb; systemctl start drover-server drover-agent")
	l.settle()
	if ps := m.run("drover ps --no-headers"); !strings.Contains(ps, "running") || !strings.Contains(ps, " "+pid+" ") {
		t.Errorf("after the packages came back there is\n%swant pid %s", ps, pid)
	}
	m.run("systemctl enable --now drover-shutdown; systemctl stop drover-shutdown") // as a shutdown of the machine does
	harness.Eventually(t, "the journal to have the words of the stopped unit", func() bool {
		return strings.Contains(m.run("journalctl -u drover-shutdown -o cat"), "1 ended, none left")
	})
	if m.try("test -e /proc/"+pid).err == nil {
		t.Error("the process runs after the stop of the unit")
	}
	m.run("systemctl restart drover-agent")
	harness.Eventually(t, "the process to run again", func() bool {
		now := strings.TrimSpace(m.try("cat /run/sleeper.pid").out) // ps may still tell of the run before
		return now != pid && strings.Contains(m.try("drover ps --no-headers").out, " "+now+" ")
	})
	_, lives = l.pidOfSleeper(m)
	m.run("dpkg --purge drover-agent drover")
	lives("the purge")
	if left := m.run(
		"ls -d /etc/drover /var/lib/drover* /usr/lib/systemd/system/drover* /etc/systemd/system/*/drover* 2>/dev/null || true"); left != "" {
		t.Errorf("the purge leaves\n%s", left)
	}
}

// crashed is a step in which a unit crashes as a Go program does, with exit status 2, and systemd starts it again.
func crashed(unit, signal string) string {
	return fmt.Sprintf(`n=$(systemctl show -P NRestarts %[1]s)
systemctl kill --kill-whom=main --signal %[2]s %[1]s
until [ "$(systemctl show -P NRestarts %[1]s)" -gt "$n" ] && systemctl is-active --quiet %[1]s; do sleep 0.1; done`,
		unit, signal)
}

// frozen is a step in which a unit gives no signs of life for as long as its watchdog waits, and systemd starts it
// again.
func frozen(unit string) string {
	return fmt.Sprintf(`mkdir -p /run/systemd/system/%[1]s.service.d
printf '[Service]\nWatchdogSec=11s\nTimeoutAbortSec=1s\n' >/run/systemd/system/%[1]s.service.d/watchdog.conf
systemctl daemon-reload; systemctl restart %[1]s
n=$(systemctl show -P NRestarts %[1]s)
systemctl kill --kill-whom=main --signal STOP %[1]s
until [ "$(systemctl show -P NRestarts %[1]s)" -gt "$n" ] && systemctl is-active --quiet %[1]s; do sleep 0.1; done
rm -r /run/systemd/system/%[1]s.service.d; systemctl daemon-reload; systemctl restart %[1]s`, unit)
}

// TestHardening: the server and the proxy can do nothing on their machine but their work.
func TestHardening(t *testing.T) {
	for _, role := range []string{"server", "proxy"} {
		unit := filepath.Join(harness.Root(), "deploy", "systemd", "drover-"+role+".service")
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager",
			unit).CombinedOutput()
		if err != nil {
			t.Errorf("%s is more exposed than 1.5 of 10: %v\n%s", role, err, out)
		}
	}
}

// TestSameBytes: the same commit gives the same packages, whoever builds them and when.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	one, two := build(t, "1.1.0"), build(t, "1.1.0", "TZ=Asia/Shanghai", "LC_ALL=C")
	first, err := os.ReadFile(filepath.Join(one, "SHA256SUMS"))
	must(t, err)
	second, err := os.ReadFile(filepath.Join(two, "SHA256SUMS"))
	must(t, err)
	if string(first) != string(second) || strings.Count(string(first), "\n") != 10 {
		t.Errorf("the first time\n%sthe second time\n%s", first, second)
	}
	if out, err := exec.Command("sh", "-c", "cd "+one+" && sha256sum --check SHA256SUMS").CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
	fields, err := exec.Command("dpkg-deb", "-f", one+"/drover-agent_1.1.0_"+architecture()+".deb", "Package",
		"Version", "Architecture").Output()
	must(t, err)
	if want := "Package: drover-agent\nVersion: 1.1.0\nArchitecture: " + architecture() +
		"\n"; string(fields) != want {
		t.Errorf("the package says\n%swant\n%s", fields, want)
	}
	contents, err := exec.Command("dpkg-deb", "-c", one+"/drover_1.1.0_"+architecture()+".deb").Output()
	must(t, err)
	for line := range strings.Lines(string(contents)) {
		if !strings.Contains(line, " root/root ") || !strings.Contains(line, " 2023-11-14 ") {
			t.Errorf("not of root, or not of the time of the commit: %s", line)
		}
	}
}
