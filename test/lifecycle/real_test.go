package lifecycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// daemon is a real program under test.
type daemon struct {
	name     string
	identity harness.Object
	control  harness.Object
	// reloads says that reload_cmd must keep the master's pid.
	reloads bool
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func nginx(t *testing.T) daemon {
	dir := harness.Workdir(t)
	conf := filepath.Join(dir, "nginx.conf")
	write(t, conf, fmt.Sprintf(`user root;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events {}
http {
    access_log off;
    client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
    server { listen %[2]s; }
}
`, dir, harness.FreeAddress(t)))
	command := "/usr/sbin/nginx -c " + conf
	return daemon{
		name: "nginx",
		identity: harness.Object{
			"proc_name": "nginx", "setup_path": dir, "pid_path": dir + "/nginx.pid",
			"user": "root",
		},
		control: harness.Object{"start_cmd": command, "stop_cmd": command + " -s quit", "reload_cmd": command +
			" -s reload", "restart_cmd": ""},
		reloads: true,
	}
}

// haproxy has a master that is root, and a worker that is not.
func haproxy(t *testing.T) daemon {
	dir := harness.Workdir(t)
	conf := filepath.Join(dir, "haproxy.cfg")
	address := harness.FreeAddress(t)
	write(t, conf, fmt.Sprintf(`global
    user haproxy
    group haproxy
defaults
    mode http
    timeout connect 1s
    timeout client 1s
    timeout server 1s
frontend f
    bind %s
`, address))
	return daemon{
		name: "haproxy",
		identity: harness.Object{
			"proc_name": "haproxy", "setup_path": dir, "pid_path": dir + "/haproxy.pid",
			"user": "root",
		},
		control: harness.Object{
			"start_cmd":   fmt.Sprintf("/usr/sbin/haproxy -W -D -f %s -p %s/haproxy.pid", conf, dir),
			"stop_cmd":    "kill $(cat haproxy.pid)",
			"reload_cmd":  "kill -USR2 $(cat haproxy.pid)",
			"restart_cmd": "",
		},
		reloads: true,
	}
}

// redis keeps its pid file where Debian has it: in a directory of its account and group.
func redis(t *testing.T) daemon {
	dir := filepath.Join(harness.Workdir(t), "redis")
	run(t, "install", "-d", "-m", "2775", "-o", "redis", "-g", "redis", dir)
	host, port := harness.SplitAddress(t, harness.FreeAddress(t))
	command := fmt.Sprintf(
		"redis-server --port %s --bind %s --daemonize yes --dir %s --pidfile %s/redis.pid --logfile %s/redis.log --save ''", port, host, dir, dir, dir)
	return daemon{
		name: "redis-server",
		identity: harness.Object{
			"proc_name": "redis-server", "setup_path": dir, "pid_path": dir + "/redis.pid",
			"user": "redis",
		},
		control: harness.Object{"start_cmd": command, "stop_cmd": fmt.Sprintf("redis-cli -h %s -p %s shutdown nosave",
			host, port)},
	}
}

func memcached(t *testing.T) daemon {
	dir := harness.Workdir(t)
	host, port := harness.SplitAddress(t, harness.FreeAddress(t))
	return daemon{
		name: "memcached",
		identity: harness.Object{
			"proc_name": "memcached", "setup_path": dir, "pid_path": dir + "/memcached.pid",
			"user": "root",
		},
		control: harness.Object{
			"start_cmd":   fmt.Sprintf("memcached -d -u root -l %s -p %s -P %s/memcached.pid", host, port, dir),
			"stop_cmd":    "kill $(cat memcached.pid)",
			"restart_cmd": "",
		},
	}
}

func postgres(t *testing.T) daemon {
	dir := harness.Workdir(t)
	bin, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(bin) == 0 {
		t.Fatal("PostgreSQL is not installed: run make test-deps")
	}
	run(t, "chown", "postgres:postgres", dir)
	run(t, "chmod", "2775", dir)
	run(t, "su", "postgres", "-s", "/bin/sh", "-c", fmt.Sprintf("%s/initdb -D %s/data -A trust --no-sync >/dev/null",
		bin[0], dir))
	host, port := harness.SplitAddress(t, harness.FreeAddress(t))
	ctl := fmt.Sprintf("%s/pg_ctl -D %s/data -s -w -o '-p %s -c listen_addresses=%s -k %s'", bin[0], dir, port, host,
		dir)
	return daemon{
		name: "postgres",
		identity: harness.Object{
			"proc_name": "postgres", "setup_path": dir, "pid_path": dir + "/data/postmaster.pid",
			"user": "postgres",
		},
		control: harness.Object{
			"start_cmd": ctl + " start", "stop_cmd": ctl + " -m fast stop", "restart_cmd": ctl + " -m fast restart",
			"reload_cmd": ctl + " reload",
		},
		reloads: true,
	}
}

// TestRealDaemons takes real programs through their whole life.
func TestRealDaemons(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	for name, install := range map[string]func(*testing.T) daemon{
		"nginx": nginx, "redis-server": redis, "memcached": memcached, "postgres": postgres, "haproxy": haproxy,
		"prefork": prefork, "jobs": jobs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			life(t, s, install(t))
		})
	}
}

func life(t *testing.T, s *harness.Server, d daemon) {
	p := &harness.Process{Server: s, Namespace: "real", Name: d.name + "_1", Identity: d.identity, Control: d.control}
	if r := p.Query(); r.PID != -1 || r.Hosted {
		t.Fatalf("query before the first start: pid %d, hosted %v", r.PID, r.Hosted)
	}
	if r := p.Operate(0).Want(t, "start", 0); !r.Hosted {
		t.Error("not hosted after a start")
	}
	pid := harness.ReadPID(t, d.identity["pid_path"].(string))
	if r := p.Query(); r.PID != pid || !r.Hosted || r.Item["procName"] == "" {
		t.Errorf("query: %v, want pid %d, hosted", r.Item, pid)
	}
	if r := p.Operate(0).Want(t, "second start", 828); !strings.Contains(r.Msg, d.identity["proc_name"].(string)) {
		t.Errorf("828 says %q, want the binary's name in it", r.Msg)
	}
	pid = killed(t, p, pid)
	if d.reloads {
		p.Operate(8).Want(t, "reload", 0)
		if r := p.Query(); r.PID != pid {
			t.Errorf("pid %d after a reload, want the same as before, %d", r.PID, pid)
		}
	}
	p.Operate(7).Want(t, "restart", 0)
	restarted := p.Query()
	if restarted.PID == pid || restarted.PID <= 1 {
		t.Errorf("pid %d after a restart, %d before", restarted.PID, pid)
	}
	// Somebody kills the main process, and nobody starts it again: what it leaves behind is in nobody's way.
	p.Operate(4).Want(t, "unhost", 0)
	left := children(t, restarted.PID)
	harness.Signal(t, restarted.PID, syscall.SIGKILL)
	harness.Eventually(t, "the death of the main process", func() bool { return !harness.Alive(restarted.PID) })
	p.Operate(0).Want(t, "start after the death of the main process", 0)
	last := p.Query().PID
	left = append(left, children(t, last)...)
	if r := p.Operate(1).Want(t, "stop", 0); r.Hosted {
		t.Error("hosted after a stop")
	}
	for _, pid := range append(left, last) {
		if harness.Alive(pid) {
			t.Errorf("pid %d is alive after a stop", pid)
		}
	}
	p.Operate(1).Want(t, "second stop", 829)
	if r := p.Query(); r.PID != -1 || r.Hosted {
		t.Errorf("query after a stop: pid %d, hosted %v", r.PID, r.Hosted)
	}
}

// children are those that a process has now.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if stat := harness.Stat(pid); len(stat) > 1 && stat[1] == strconv.Itoa(parent) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// prefork is a server in Python whose workers answer for a master that they inherit the socket from, and are deaf to
// SIGTERM.
func prefork(t *testing.T) daemon {
	dir := harness.Workdir(t)
	host, port := harness.SplitAddress(t, harness.FreeAddress(t))
	write(t, dir+"/prefork.py", fmt.Sprintf(`import os, signal, socket, time
listener = socket.socket()
listener.bind(("%s", %s))
listener.listen()
if os.fork():
    os._exit(0)
os.setsid()
with open("%s/prefork.pid", "w") as f:
    f.write(str(os.getpid()))
for _ in range(3):
    if not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(60)
while True:
    time.sleep(60)
`, host, port, dir))
	return daemon{
		name: "prefork",
		identity: harness.Object{
			"proc_name": "prefork.py", "setup_path": dir, "pid_path": dir + "/prefork.pid",
			"user": "root",
		},
		control: harness.Object{"start_cmd": "python3 " + dir + "/prefork.py", "stop_cmd": "kill $(cat prefork.pid)"},
	}
}

// jobs is a shell script with background jobs.
func jobs(t *testing.T) daemon {
	dir := harness.Workdir(t)
	write(t, dir+"/jobs.sh", "echo $$ > "+dir+
		"/jobs.pid\nsleep 1001 &\nsetsid sleep 1002 &\nnohup sleep 1003 >/dev/null &\nwait\n")
	return daemon{
		name: "jobs",
		identity: harness.Object{
			"proc_name": "jobs.sh", "setup_path": dir, "pid_path": dir + "/jobs.pid",
			"user": "root",
		},
		control: harness.Object{"start_cmd": "setsid sh " + dir + "/jobs.sh >/dev/null 2>&1 &"},
	}
}

// killed kills the process and waits until it has been launched again; it returns the new pid.
func killed(t *testing.T, p *harness.Process, pid int) int {
	t.Helper()
	harness.Signal(t, pid, syscall.SIGKILL)
	var now int
	harness.Eventually(t, p.Name+" to be relaunched", func() bool {
		now = p.Query().PID
		return now > 1 && now != pid
	})
	return now
}

// TestUpgradeOfNginx: a new binary takes over as nginx does that at SIGUSR2. The process goes on under another pid:
// that is told with both pids, and is neither an end nor a relaunch.
func TestUpgradeOfNginx(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	d := nginx(t)
	p := &harness.Process{Server: s, Namespace: "real", Name: "upgraded", Identity: d.identity, Control: d.control}
	p.Operate(0).Want(t, "start", 0)
	file := d.identity["pid_path"].(string)
	before := harness.ReadPID(t, file)
	harness.Signal(t, before, syscall.SIGUSR2)
	harness.Eventually(t, "the new binary to write its pid file", func() bool {
		text, err := readFile(file)
		return err == nil && strings.TrimSpace(text) != "" && strings.TrimSpace(text) != fmt.Sprint(before)
	})
	now := harness.ReadPID(t, file)
	harness.Signal(t, before, syscall.SIGQUIT)
	e := p.AwaitEvents(1, "main-pid-changed")[0]
	text, _ := e["cause"].(harness.Object)["text"].(string)
	if e["pid"] != float64(now) || !strings.Contains(text, fmt.Sprintf("pid %d ", before)) ||
		!strings.Contains(text, fmt.Sprintf("pid %d ", now)) {
		t.Errorf("of pid %d in the place of %d the event says %v", now, before, e)
	}
	if actor, _ := e["actor"].(harness.Object); actor["kind"] != "self" {
		t.Errorf("the actor of %v is not the process itself", e)
	}
	if r := p.Query(); r.PID != now || !r.Hosted {
		t.Errorf("pid %d, hosted %v; want pid %d, hosted", r.PID, r.Hosted, now)
	}
	p.Operate(7).Want(t, "restart", 0)
	e = p.AwaitEvents(1, "restarted")[0]
	text, _ = e["cause"].(harness.Object)["text"].(string)
	if last := p.Query().PID; !strings.Contains(text, fmt.Sprintf("pid %d ", now)) ||
		!strings.Contains(text, fmt.Sprintf("pid %d ", last)) {
		t.Errorf("of pid %d after %d the event of the restart says %q", last, now, text)
	}
	p.Operate(1).Want(t, "stop", 0)
	for _, pid := range []int{before, now} {
		if harness.Alive(pid) {
			t.Errorf("pid %d is alive after a stop", pid)
		}
	}
	if told := p.Events("exited", "relaunched"); len(told) > 0 {
		t.Errorf("it is told: %v", told)
	}
}
