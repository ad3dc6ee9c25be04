package faults_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// rig is a drover of children that die; its addresses stay the same.
type rig struct {
	t            *testing.T
	dir          string // its data
	work         string // its processes'
	http, fabric string
	real         bool            // the built binary
	uid          uint32          // that runs as this user
	outlet       *harness.Outlet // of the machine that it runs on; nil is that of the test
	victim       string          // the process whose operation the moments are counted from
	full         string          // the write that finds the disk of the agent full: see moments
	server       *child          // or both halves
	agent        *child
}

// child is a running part.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t: t, dir: t.TempDir(), work: harness.Workdir(t), http: harness.FreeAddress(t),
		fabric: harness.FreeAddress(t),
	}
	t.Cleanup(func() {
		r.server.kill()
		r.agent.kill()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(r.dir, "log"))
			t.Logf("log of drover:\n%s", log[max(0, len(log)-8000):])
		}
	})
	return r
}

// startReal starts the built drover dev.
func startReal(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.real = true
	r.start(false, never)
	return r
}

// run starts a part; it dies at the moment.
func (r *rig) run(role, moment string) *child {
	r.t.Helper()
	log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe")
	if r.outlet != nil {
		self, err := os.Executable()
		if err != nil {
			r.t.Fatal(err)
		}
		line := append(r.outlet.Place(), self)
		cmd = exec.Command(line[0], line[1:]...)
	}
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+r.dir, httpVariable+"="+r.http,
		fabricVariable+"="+r.fabric, momentVariable+"="+moment, processVariable+"="+r.victim, fullVariable+"="+r.full)
	if r.real {
		cmd = exec.Command(binaries.drover, "dev", "--data-dir", filepath.Join(r.dir, "data"), "--http", r.http)
		cmd.Env = harness.Environment(r.dir, harness.FirstApp()...)
	}
	if r.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: r.uid, Gid: r.uid}}
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	c := &child{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // it says that it was killed
		close(c.ended)
	}()
	return c
}

// start runs drover as one process or as two, and waits until it takes calls.
func (r *rig) start(split bool, moment string) {
	r.t.Helper()
	if !split {
		r.server = r.run(roleDev, moment)
		r.ready()
		return
	}
	r.server = r.run(roleServer, moment)
	r.ready()
	if r.agent == nil {
		r.agent = r.run(roleAgent, never)
	}
}

// ready waits until the server takes calls.
func (r *rig) ready() {
	r.t.Helper()
	harness.Eventually(r.t, "drover to be ready", func() bool {
		select {
		case <-r.server.ended:
			r.t.Fatal("drover ended before it was ready")
		default:
		}
		resp, err := http.Get("http://" + r.http + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (c *child) kill() {
	if c != nil {
		_ = c.cmd.Process.Kill() // or it has ended
		<-c.ended
	}
}

// died reports whether the part ends, within a time that an operation takes.
func (c *child) died(within time.Duration) bool {
	select {
	case <-c.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// caller makes a connection for each call, as those of before lead to a drover that died.
func (r *rig) caller() harness.Caller {
	return harness.Caller{
		URL:    "http://" + r.http,
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// submit begins an operation and returns the task's id.
func (r *rig) submit(p *harness.Process, op int) (string, error) {
	data, err := r.caller().GSE("operate_proc_v2", p.Request(op))
	if err != nil {
		return "", err
	}
	id, _ := data["task_id"].(string)
	return id, nil
}

// await polls a task to its end.
func (r *rig) await(p *harness.Process, task string) harness.Result {
	r.t.Helper()
	return harness.ParseResult(r.t, r.caller().Await(r.t, task)[p.Key()])
}

// operate carries out an operation.
func (r *rig) operate(p *harness.Process, op int) harness.Result {
	r.t.Helper()
	task, err := r.submit(p, op)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.await(p, task)
}

// does carries out an operation, which must end well.
func (r *rig) does(p *harness.Process, op int) {
	r.t.Helper()
	if got := r.operate(p, op); got.Code != 0 {
		r.t.Fatalf("operation %d of %s: %d %s", op, p.Name, got.Code, got.Msg)
	}
}

// process is a daemon whose commands note that they have run.
func (r *rig) process(name string) *harness.Process {
	r.t.Helper()
	return judge.Daemon(r.t, r.work, name)
}
