package importing_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestCopies: a start fails beside a process that another program started, and names it. It takes that process over,
// or starts all the same, if the caller says so.
func TestCopies(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	harness.Sleeper(t, p.Dir, "main")
	was := p.start(filepath.Join(p.Dir, "main"), "4001")
	file := p.Write("shop.yaml", `
namespace: shop
processes:
  main: {hosts: ["*"], run: ./main 4001, directory: DIR}
`)
	refused := p.cli(1, "apply", "-f", file, "--yes")
	if name := "pid " + strconv.Itoa(was) + " [" + p.Dir + "/main 4001] since 20"; !strings.Contains(refused.Out, name) {
		t.Errorf("the refusal does not name the process: %s", refused.Out)
	}
	p.cli(2, "apply", "-f", file, "--take-over", "--beside")
	p.cli(0, "apply", "-f", file, "--yes", "--take-over")
	if pid := p.PID("main"); pid != was || !harness.Alive(was) {
		t.Errorf("drover watches pid %d, want %d", pid, was)
	}
	p.cli(0, "apply", "-f", file) // nothing to do
	p.relaunches("main", was)
	p.cli(0, "stop", "shop/main")

	was = p.start(filepath.Join(p.Dir, "main"), "4001")
	refused = p.cli(1, "start", "shop/main")
	if !strings.Contains(refused.Out, "drover start --take-over") || p.PID("main") != 0 {
		t.Errorf("the refusal does not say how to go on: %s", refused.Out)
	}
	p.cli(2, "start", "shop/main", "--take-over", "--beside")
	p.cli(0, "start", "shop/main", "--take-over")
	if pid := p.PID("main"); pid != was || !harness.Alive(was) {
		t.Errorf("after a start drover watches pid %d, want %d", pid, was)
	}
	p.relaunches("main", was)
	p.cli(0, "stop", "shop/main")

	was = p.start(filepath.Join(p.Dir, "main"), "4001")
	p.cli(0, "start", "shop/main", "--beside")
	if pid := p.PID("main"); pid == was || pid == 0 || !harness.Alive(was) {
		t.Errorf("after a start drover watches pid %d beside %d", pid, was)
	}
	p.cli(0, "stop", "shop/main")
	if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.cli(0, "unregister", "shop/main")

	was = p.start(filepath.Join(p.Dir, "main"), "4001")
	p.cli(0, "apply", "-f", file, "--yes", "--beside")
	if pid := p.PID("main"); pid == was || pid == 0 || !harness.Alive(was) {
		t.Errorf("drover watches pid %d beside %d", pid, was)
	}
}

// TestUnits: daemons that run as their units say are taken over with their pids, and relaunched by drover afterwards.
func TestUnits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	harness.Sleeper(t, p.Dir, "service")
	harness.Sleeper(t, p.Dir, "daemon")
	harness.Sleeper(t, p.Dir, "down")
	p.Write("service.service", "[Service]\nExecStart=DIR/service 4${N}\nEnvironment=N=002\nWorkingDirectory=DIR\nRestart=always\n")
	p.Write("daemon.service", `[Service]
Type=forking
ExecStart=/bin/sh -c 'DIR/daemon 4003 & echo $! >DIR/daemon.pid'
PIDFile=DIR/daemon.pid
WorkingDirectory=DIR
Restart=always
`)
	p.Write("down.service", "[Service]\nExecStart=DIR/down 4004\nWorkingDirectory=DIR\n")
	service, daemon := p.start(filepath.Join(p.Dir, "service"), "4002"), p.start(filepath.Join(p.Dir, "daemon"), "4003")
	p.Write("daemon.pid", strconv.Itoa(daemon)+"\n")
	done := p.cli(7, "import", "systemd", p.Dir+"/service.service", p.Dir+"/daemon.service", p.Dir+"/down.service",
		"--namespace", "shop", "--adopt", "--yes")
	if !strings.Contains(done.Errors, "there is nothing to take over") || p.PID("down") != 0 {
		t.Errorf("a unit that does not run: pid %d, %s", p.PID("down"), done.Errors)
	}
	for name, was := range map[string]int{"service": service, "daemon": daemon} {
		if pid := p.PID(name); pid != was || !harness.Alive(was) {
			t.Errorf("%s: drover watches pid %d, want %d", name, pid, was)
		}
		p.relaunches(name, was)
	}
}

// TestUnitsOfThisHost: all services and timers of the system where the test runs become a file that drover takes.
func TestUnitsOfThisHost(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var args []string
	for _, pattern := range []string{"*.service", "*.timer"} {
		found, err := filepath.Glob(filepath.Join(unitDirectory, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if name, kind, template := strings.Cut(filepath.Base(path), "@."); template {
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				path = p.Write(name+"@mail."+kind, string(data))
			}
			args = append(args, path)
		}
	}
	done := p.cli(0, append([]string{"import", "systemd", "--namespace", "host", "--hosts", "*"}, args...)...)
	p.Write("host.yaml", done.Out)
	p.cli(0, "apply", "-f", filepath.Join(p.Dir, "host.yaml"), "--dry-run")
	for _, path := range args {
		// A timer is part of the process of its service.
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".service") && !strings.Contains(done.Out+done.Errors, name) {
			t.Errorf("%s became neither a process nor a note", name)
		}
	}
}

// worker is a program that forks, and leaves its child behind when it ends.
const worker = `
import os, signal
if os.fork() == 0:
    os.setsid()
signal.pause()
`

// TestSupervisord: a process of supervisord is taken over as it is. While supervisord lives, drover relaunches nothing;
// afterwards it does.
func TestSupervisord(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Write("worker.py", worker)
	conf, old := p.supervisord(`
[program:worker]
command=/usr/bin/python3 worker.py --queue %(program_name)s
directory=DIR
autorestart=true
[program:down]
command=/bin/sleep 1000
autostart=false
`)
	running := func() int { return p.supervised(conf, "worker") }
	was := 0
	harness.Eventually(t, "supervisord runs its program", func() bool {
		was = running()
		return was > 0
	})
	done := p.cli(0, "import", "supervisord", conf, "--namespace", "shop", "--adopt", "--yes")
	for _, part := range []string{
		"down does not run", "shop/worker: drover watches pid " + strconv.Itoa(was) + ", which runs on as it is",
		"remove [program:worker]", "kill -KILL " + strconv.Itoa(old),
	} {
		if !strings.Contains(done.Errors, part) {
			t.Errorf("import does not say %q: %s", part, done.Errors)
		}
	}
	if pid := p.PID("worker"); pid != was || !harness.Alive(was) {
		t.Fatalf("drover watches pid %d, want %d", pid, was)
	}
	kept := func() bool {
		return strings.Contains(p.cli(3, "why", "shop/worker").Out, "supervisord (pid "+strconv.Itoa(old)+") still keeps the process")
	}
	if !kept() {
		t.Error("why does not name the old supervisor")
	}
	harness.Signal(t, was, syscall.SIGKILL)
	process := harness.Process{Server: p.S, Namespace: "shop", Name: "worker"}
	process.AwaitEvents(1, "exited")
	process.AwaitEvents(1, "found") // supervisord has started another one
	next := 0
	harness.Eventually(t, "the pid of what supervisord has started", func() bool {
		next = p.PID("worker")
		return next != 0 && next != was
	})
	if n := len(process.Events("relaunched")); n != 0 || running() != next || !kept() {
		t.Errorf("%d relaunches while supervisord lives, pid %d, that of supervisord is %d", n, next, running())
	}
	harness.Signal(t, old, syscall.SIGKILL)
	harness.Eventually(t, "the end of supervisord", func() bool { return !harness.Alive(old) })
	harness.Signal(t, next, syscall.SIGKILL)
	process.AwaitEvents(1, "relaunched")
	now := 0
	harness.Eventually(t, "the pid of the relaunched process", func() bool {
		now = p.PID("worker")
		return now != 0 && now != next
	})
	if cwd, err := os.Readlink("/proc/" + strconv.Itoa(now) + "/cwd"); err != nil || cwd != p.Dir {
		t.Errorf("the relaunched process %d works in %s, %v", now, cwd, err)
	}
	p.relaunches("worker", now)
}

// TestProgramsThatChange: a process that has executed another program, or has dropped the rights of root, is taken over
// by the pid that supervisord names. What supervisord starts in its place is found by its name there.
func TestProgramsThatChange(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	other := harness.Sleeper(t, p.Dir, "other")
	become, comment := "exec "+other+" 4040", "# run: the process executes "+other+" now"
	if os.Getuid() == 0 {
		if err := os.Chmod(p.Dir, 0o755); err != nil { //nolint:gosec // nobody executes the program
			t.Fatal(err)
		}
		become = "exec setpriv --reuid 65534 --clear-groups " + other + " 4040"
		comment = "# user: the process runs as nobody now. drover starts it as root"
	}
	if err := harness.WriteProgram(filepath.Join(p.Dir, "wrapper"), []byte("#!/bin/sh\n"+become+"\n")); err != nil {
		t.Fatal(err)
	}
	conf, _ := p.supervisord("[program:a]\ncommand=DIR/wrapper\n[program:b]\ncommand=DIR/wrapper\n")
	running := func(name string) (pid int) {
		harness.Eventually(t, "supervisord runs "+name, func() bool {
			pid = p.supervised(conf, name)
			exe, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
			return exe == other
		})
		return pid
	}
	was := map[string]int{"a": running("a"), "b": running("b")}
	done := p.cli(0, "import", "supervisord", conf, "--namespace", "shop", "--adopt", "--yes")
	if strings.Count(done.Out, comment) != 2 {
		t.Errorf("no %q in\n%s", comment, done.Out)
	}
	for name, pid := range was {
		if now := p.PID(name); now != pid {
			t.Errorf("%s: drover watches pid %d, want %d", name, now, pid)
		}
	}
	if f := p.cli(0, "drift"); !strings.Contains(f.Errors, "no differences") {
		t.Errorf("drift: %s", f.Out)
	}
	harness.Signal(t, was["a"], syscall.SIGKILL)
	process := harness.Process{Server: p.S, Namespace: "shop", Name: "a"}
	process.AwaitEvents(1, "found")
	if now, want := p.PID("a"), running("a"); now != want || len(process.Events("relaunched")) != 0 {
		t.Errorf("drover watches pid %d, want %d, which supervisord has started", now, want)
	}
}

// TestSupervisorctlUpdate: drover refuses to end a process that supervisord keeps. It relaunches the process after
// `supervisorctl update` has ended it without its program, although supervisord lives on, and then it may end it.
func TestSupervisorctlUpdate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const other = "[program:other]\ncommand=/bin/sleep 4031\ndirectory=DIR\n"
	const worker = "[program:mail]\ncommand=/bin/sleep 4030\ndirectory=DIR\n[group:workers]\nprograms=mail\n"
	conf, old := p.supervisord(other + worker)
	was := 0
	harness.Eventually(t, "supervisord runs its program", func() bool {
		was = p.supervised(conf, "workers:mail")
		return was > 0
	})
	done := p.cli(0, "import", "supervisord", conf, "--namespace", "shop", "--adopt", "--yes", "--hosts", "0:127.0.0.1")
	text := "remove [program:mail] from the configuration, and mail from programs of [group:workers]"
	if !strings.Contains(done.Errors, text) {
		t.Errorf("import does not say %q: %s", text, done.Errors)
	}
	if f := p.cli(0, "logs", "shop/mail"); !strings.Contains(f.Errors, "its log begins with its next start") {
		t.Errorf("logs says %q %q", f.Out, f.Errors)
	}
	for _, op := range []string{"stop", "restart", "kill"} {
		f := p.cli(1, op, "shop/mail", "--yes")
		if !strings.Contains(f.Out, "supervisord (pid "+strconv.Itoa(old)+") still keeps") {
			t.Errorf("%s: %s", op, f.Out)
		}
	}
	if pid := p.PID("mail"); pid != was || !harness.Alive(was) {
		t.Errorf("drover watches pid %d, want %d", pid, was)
	}
	p.supervisordConf(other)
	f := harness.Finish(t, "", harness.Environment(p.Dir), "/usr/bin/supervisorctl", "-c", conf, "update")
	process := harness.Process{Server: p.S, Namespace: "shop", Name: "mail"}
	process.AwaitEvents(1, "exited")
	if why := p.cli(3, "why", "shop/mail").Out; !strings.Contains(why, "drover relaunches it within 30 s") {
		t.Errorf("%s\n%s", why, f.Out)
	}
	process.AwaitEvents(1, "relaunched")
	p.cli(0, "restart", "shop/mail", "--yes")
	p.cli(0, "stop", "shop/mail", "--yes")
	if !harness.Alive(old) {
		t.Error("supervisord has ended")
	}
}

// TestHosts: an import without --hosts names this host as the server does, if there is one. Otherwise a comment says
// that the name may be another one.
func TestHosts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	conf := p.Write("other.conf", "[program:other]\ncommand=/bin/sleep 4032\ndirectory=DIR\n")
	if done := p.cli(0, "import", "supervisord", conf); !strings.Contains(done.Out, `hosts: ["0:127.0.0.1"]`) {
		t.Errorf("%s", done.Out)
	}
	done := harness.Finish(t, "", harness.Environment(p.Dir), binaries.drover, "import", "supervisord", conf,
		"--data-dir", p.Dir)
	if done.Code != 0 || !strings.Contains(done.Out, "# hosts: no server says") {
		t.Errorf("exit code %d: %s%s", done.Code, done.Out, done.Errors)
	}
}
