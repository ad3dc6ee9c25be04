package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/test/harness"
)

// rig is a drover of children that die; its addresses stay the same.
type rig struct {
	t            *testing.T
	dir          string // its data
	work         string // its processes'
	http, fabric string
	real         bool   // the built binary
	uid          uint32 // that runs as this user
	victim       string // the process whose operation the moments are counted from
	server       *child // or both halves
	agent        *child
}

// child is a running part.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), work: harness.Workdir(t), http: freeAddress(t), fabric: freeAddress(t)}
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

// freeAddress returns an address that stays free while nobody listens there: connections that are made meanwhile begin at 127.0.0.1.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
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
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+r.dir, httpVariable+"="+r.http, fabricVariable+"="+r.fabric, momentVariable+"="+moment, processVariable+"="+r.victim)
	if r.real {
		cmd = exec.Command(binaries.drover, "dev", "--data-dir", filepath.Join(r.dir, "data"), "--http", r.http)
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "DROVER_BOOTSTRAP_APP_CODE=" + harness.AppCode, "DROVER_BOOTSTRAP_APP_SECRET=" + harness.AppSecret,
		}
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

// call posts to a GSE endpoint; an error means that nobody knows what became of it.
func (r *rig) call(name string, body any) (harness.Object, error) {
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.http+"/api/c/compapi/v2/gse/"+name+"/", bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"tester"}`, harness.AppCode, harness.AppSecret))
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	reply := harness.Object{}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return nil, err
	}
	if reply["code"] != 0.0 {
		return nil, fmt.Errorf("%s: HTTP %d, %v", name, resp.StatusCode, reply)
	}
	result, _ := reply["data"].(harness.Object)
	return result, nil
}

// submit begins an operation and returns the task's id.
func (r *rig) submit(p *harness.Process, op int) (string, error) {
	data, err := r.call("operate_proc_v2", p.Request(op))
	if err != nil {
		return "", err
	}
	id, _ := data["task_id"].(string)
	return id, nil
}

// await polls a task to its end.
func (r *rig) await(p *harness.Process, task string) harness.Result {
	r.t.Helper()
	var entry any
	harness.Eventually(r.t, "task "+task+" to end", func() bool {
		data, err := r.call("get_proc_operate_result_v2", harness.Object{"task_id": task})
		if err != nil {
			r.t.Fatalf("task %s, which was answered: %v", task, err)
		}
		entry = data[p.Key()]
		e, ok := entry.(harness.Object)
		if !ok {
			r.t.Fatalf("task %s has no entry for %s: %v", task, p.Key(), data)
		}
		return e["error_code"] != 115.0
	})
	return harness.ParseResult(r.t, entry)
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

// process is a daemon in shell, each of whose commands notes in a log of its own that it has really run.
func (r *rig) process(name string) *harness.Process {
	dir := filepath.Join(r.work, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	start := "echo start >>run.log; setsid sh -c 'echo $$ >d.pid; exec sleep 100000' >/dev/null 2>&1 & " +
		`until [ -s d.pid ] && [ "$(cat /proc/$(cat d.pid)/comm)" = sleep ]; do sleep 0.01; done`
	stop := "kill -9 $(cat d.pid); while kill -0 $(cat d.pid) 2>/dev/null; do sleep 0.01; done; rm d.pid"
	return &harness.Process{
		Namespace: "faults", Name: name,
		Identity: harness.Object{"proc_name": "sleep", "setup_path": dir, "pid_path": dir + "/d.pid", "user": "root"},
		Control:  harness.Object{"start_cmd": start, "stop_cmd": "echo stop >>run.log; " + stop, "reload_cmd": "echo reload >>run.log"},
		Policy:   harness.Object{"start_check_secs": 1},
	}
}

// ran counts a word in what the commands of a process have noted.
func (r *rig) ran(p *harness.Process, word string) int {
	data, _ := os.ReadFile(filepath.Join(r.work, p.Name, "run.log"))
	n := 0
	for w := range strings.FieldsSeq(string(data)) {
		if w == word {
			n++
		}
	}
	return n
}
