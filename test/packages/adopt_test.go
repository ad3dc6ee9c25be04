package packages_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// units are those of the machine that the packages of Debian do not bring: a Go service, a worker that leaves children
// behind, one that talks and crashes, and a report by a timer.
const units = `
cat >/usr/local/bin/worker <<'END'
import os, sys, time
for i in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(100000)
time.sleep(100000)
END
cat >/etc/systemd/system/gosvc.service <<'END'
[Service]
ExecStart=/usr/local/bin/gosvc -a 127.0.0.1 -p 4333
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
User=daemon
LimitNOFILE=4096
RuntimeDirectory=gosvc
PrivateTmp=true
END
cat >/etc/systemd/system/client.service <<'END'
[Unit]
Requires=gosvc.service
[Service]
ExecStart=/bin/sleep 100000
END
cat >/etc/systemd/system/gosvc.path <<'END'
[Path]
PathExists=/run/wanted
END
cat >/etc/systemd/system/worker.service <<'END'
[Service]
ExecStart=/usr/bin/python3 /usr/local/bin/worker
Restart=always
User=nobody
Environment=QUEUE=mail
END
cat >/etc/systemd/system/looper.service <<'END'
[Service]
ExecStart=/bin/sh -c 'echo >>/run/begun; for i in 1 2 3 4 5; do echo "step $$i of this loop"; done; until rm /run/fall 2>/dev/null; do sleep 0.1; done; echo no such queue >&2; exit 3'
Restart=always
RestartSec=1
END
cat >/etc/systemd/system/report.service <<'END'
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo report >>/var/tmp/report'
END
cat >/etc/systemd/system/report.timer <<'END'
[Timer]
OnCalendar=*-*-* 03:30
END
# Root of a container often lacks CAP_SYS_RESOURCE. Then systemd does less than the units say, and drover refuses.
mkdir /etc/systemd/system/redis-server.service.d /etc/systemd/system/postgresql@.service.d
printf '[Service]\nLimitNOFILE=10240\n' >/etc/systemd/system/redis-server.service.d/local.conf
printf '[Service]\nOOMScoreAdjust=100\n' >/etc/systemd/system/postgresql@.service.d/local.conf
systemctl daemon-reload
`

// TestMigration moves what a systemd runs to drover, as docs/import.md says, without an end of a process.
func TestMigration(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drover")
	m := l.machines["drover"]
	m.give(build(t, "1.0.0")+"/*.deb", binaries.nats)
	m.run("dpkg -i drover_*.deb drover-agent_*.deb")
	m.run("echo 'advertise: [127.0.0.1:7351]' >>/etc/drover/server.yaml; systemctl start drover-server")
	l.settle()
	m.run(
		"drover token create --area 0 --uses 1 --ttl 1h 2>/dev/null | drover-agent join --server https://127.0.0.1:7350 --token - --data-dir /var/lib/drover-agent; systemctl start drover-agent")
	l.settle()
	m.run("mv " + filepath.Base(binaries.nats) + " /usr/local/bin/gosvc")
	clusters, err := filepath.Glob("/etc/postgresql/*/main")
	if err != nil || len(clusters) == 0 {
		t.Fatalf("there is no cluster of PostgreSQL: %v", err)
	}
	cluster := filepath.Base(filepath.Dir(clusters[0])) + "-main"
	names := []string{"nginx", "redis-server", "postgresql-" + cluster, "gosvc", "worker", "looper"}
	services := "nginx redis-server postgresql@" + cluster + " gosvc worker looper"
	m.run(units + "systemctl start report.timer gosvc.path client " + services)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m.try("drover ps; drover why 'imported/*'; ls -la /run /run/redis").out)
		}
	})
	old := strings.Fields(m.run("systemctl show -P MainPID " + services))
	said := m.run("drover import systemd " + services + " report.timer --adopt --yes 2>&1 >imported.yaml")
	for i, name := range names {
		if pid := m.watched(name); pid != old[i] {
			t.Errorf("%s: drover watches pid %q, systemd had %s\n%s", name, pid, old[i], said)
		}
	}
	if why := m.run("drover why 'imported/*' || true"); strings.Count(why, "[other-supervisor]") != len(names) {
		t.Errorf("the old supervisor keeps all, and drover says\n%s", why)
	}
	// While the old supervisor keeps a process, it relaunches the process and drover does not.
	m.run("touch /run/fall")
	harness.Eventually(t, "drover to watch the looper that systemd started", func() bool {
		pid := strings.TrimSpace(m.run("systemctl show -P MainPID looper"))
		return pid != "0" && pid != old[5] && m.watched("looper") == pid
	})
	old[5] = m.watched("looper")
	if n := m.run("wc -l </run/begun"); n != "2\n" {
		t.Errorf("the looper was started %s times, want 2: by systemd", n)
	}

	_, advice, _ := strings.Cut(said, "as root:\n")
	if !strings.Contains(advice, "# gosvc.service has PrivateTmp=true: its stop deletes the /tmp") {
		t.Errorf("nothing warns of the private /tmp:\n%s", advice)
	}
	places := "ls -d /run/gosvc /run/redis /run/redis/redis-server.pid /run/nginx.pid"
	before := m.run(places)
	m.run(advice)
	if after := m.run(places + " || true"); after != before {
		t.Errorf("systemd let go, and left of\n%s only\n%s", before, after)
	}
	m.run("touch /run/wanted; systemctl is-active client") // the unit that requires another one, and what would start that one
	harness.Eventually(t, "drover to see that systemd let go", func() bool {
		return !strings.Contains(m.run("drover why 'imported/*' || true"), "[other-supervisor]")
	})
	for i, name := range names {
		if pid := m.watched(name); pid != old[i] {
			t.Errorf("%s: drover watches pid %q, and %s before systemd let go", name, pid, old[i])
		}
	}
	if n := m.run("wc -l </run/begun"); n != "2\n" {
		t.Errorf("the looper was started %s times, want 2", n)
	}

	orphans := strings.Fields(m.run("pgrep -u nobody -P 1 -f worker | grep -vx " + old[4]))
	if len(orphans) != 3 {
		t.Errorf("the worker has left %q, want three processes", orphans)
	}
	m.run("touch /run/fall; kill -9 " + strings.Join(old[:5], " "))
	for i, name := range names {
		if i == 0 || i == 2 { // their units say Restart=no
			// A start of a process that is about to die does nothing.
			harness.Eventually(t, "drover to see the end of "+name, func() bool { return m.watched(name) == "-" })
			m.run("drover start imported/" + name)
		}
		harness.Eventually(t, name+" to run again", func() bool {
			pid := m.watched(name)
			return pid != "-" && pid != old[i]
		})
	}
	harness.Eventually(t, "all that runs to be ready", func() bool {
		return strings.Contains(m.run("drover why 'imported/*' || true"), "imported/*: nothing is wrong")
	})
	m.run("drover reload imported/nginx; drover start imported/report; test $(wc -l </var/tmp/report) = 1")

	m.run("drover stop 'imported/*' --yes")
	// What an adopted process left behind belongs to no run of drover: docs/import.md says so.
	left := strings.Fields(m.run("pgrep -f '[n]ginx:|[r]edis-server|[p]ostgres|[g]osvc|[w]orker|[s]tep'"))
	slices.Sort(left)
	if slices.Sort(orphans); !slices.Equal(left, orphans) {
		t.Errorf("after the stop of all there is %q, want %q", left, orphans)
	}
}

// watched returns the pid that drover watches as a process of the namespace imported; - if it does not run.
func (m *machine) watched(name string) string {
	m.t.Helper()
	fields := strings.Fields(m.run("drover ps --no-headers imported/" + name))
	if len(fields) < 4 {
		m.t.Fatalf("drover ps of %s: %q", name, fields)
	}
	return fields[3]
}
