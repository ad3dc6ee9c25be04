// Package importing_test holds the black-box tests of processes that another program started: drover takes them over
// with the same pid, or refuses to start beside them.
package importing_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover string }

// unitDirectory is where packages of Debian install units.
const unitDirectory = "/lib/systemd/system"

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{"./cmd/drover": &binaries.drover},
		harness.Need{Test: "TestUnitsOfThisHost", Program: unitDirectory + "/*.service"},
		harness.Need{Test: "TestSupervisord", Program: "/usr/bin/supervisord"},
		harness.Need{Test: "TestProgramsThatChange", Program: "/usr/bin/supervisord"},
		harness.Need{Test: "TestSupervisorctlUpdate", Program: "/usr/bin/supervisord"},
		harness.Need{Test: "TestNumprocs", Program: "/usr/bin/supervisord"}))
}

// place is a drover, and a directory for the processes of one namespace.
type place struct{ *harness.Place }

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{harness.NewPlace(t, binaries.drover)}
}

// cli runs a command of drover, and fails if its exit code is another one.
func (p *place) cli(code int, args ...string) harness.Finished {
	p.T.Helper()
	f := p.CLI(args...)
	if f.Code != code {
		p.T.Fatalf("%q: exit code %d, want %d\n%s%s", args, f.Code, code, f.Out, f.Errors)
	}
	return f
}

// start runs a program as somebody else would. It is reaped when it ends.
func (p *place) start(program string, args ...string) (pid int) {
	p.T.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = p.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		p.T.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	p.T.Cleanup(func() {
		_ = cmd.Process.Kill()
		if err := <-ended; err == nil {
			p.T.Errorf("%s ended by itself", program)
		}
	})
	return cmd.Process.Pid
}

// supervisord starts a supervisord with these programs. It returns its configuration and its pid.
func (p *place) supervisord(programs string) (conf string, pid int) {
	p.T.Helper()
	conf = p.supervisordConf(programs)
	return conf, p.start("/usr/bin/supervisord", "-c", conf)
}

// supervisordConf writes the configuration of supervisord.
func (p *place) supervisordConf(programs string) (conf string) {
	p.T.Helper()
	return p.Write("supervisord.conf", `
[unix_http_server]
file=DIR/supervisor.sock
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://DIR/supervisor.sock
[supervisord]
logfile=DIR/supervisord.log
pidfile=DIR/supervisord.pid
childlogdir=DIR
nodaemon=true
`+programs)
}

// supervised is the pid of a program as supervisord knows it; 0 if it does not run.
func (p *place) supervised(conf, program string) int {
	p.T.Helper()
	f := harness.Finish(p.T, "", harness.Environment(p.Dir), "/usr/bin/supervisorctl", "-c", conf, "pid", program)
	pid, _ := strconv.Atoi(strings.TrimSpace(f.Out))
	return pid
}

// relaunches kills a process, and waits until drover has started another one.
func (p *place) relaunches(name string, pid int) {
	p.T.Helper()
	harness.Signal(p.T, pid, syscall.SIGKILL)
	harness.Eventually(p.T, "a relaunch of "+name, func() bool {
		now := p.PID(name)
		return now != 0 && now != pid && harness.Alive(now)
	})
}
