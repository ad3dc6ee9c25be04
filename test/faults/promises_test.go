package faults_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// TestI3_DeadAgent: an operation for a host whose agent is gone ends by itself, and keeps its outcome when the agent is
// back.
func TestI3_DeadAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(true, never)
	p := r.process("p")
	r.does(p, judge.Start)
	r.agent.kill()
	task, err := r.submit(p, judge.Restart)
	if err != nil {
		t.Fatal(err)
	}
	first := r.await(p, task)
	if first.Code != 117 {
		t.Errorf("code %d %s, want 117", first.Code, first.Msg)
	}
	r.agent = r.run(roleAgent, never)
	harness.Eventually(t, "the agent to be back", func() bool { return r.operate(p, judge.Query).PID > 1 })
	if again := r.await(p, task); again.Code != first.Code || again.Msg != first.Msg {
		t.Errorf("the outcome changed from %q to %q", first.Msg, again.Msg)
	}
	if n := judge.Ran(p, "start"); n != 1 {
		t.Errorf("%swhat was given up ran later: %d starts", harness.MoreThan(1, n), n)
	}
}

// TestI5_AgentDies: by SIGKILL, by SIGTERM and with its server away, the agent leaves its processes alone and finds
// them again.
func TestI5_AgentDies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(true, never)
	p := r.process("p")
	r.does(p, judge.Start)
	pid := harness.ReadPID(t, filepath.Join(r.work, "p", "d.pid"))
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		_ = r.agent.cmd.Process.Signal(sig) // it runs
		<-r.agent.ended
		if !harness.Alive(pid) {
			t.Fatalf("the process ended with the agent (%v)", sig)
		}
		r.agent = r.run(roleAgent, never)
		if got := r.operate(p, judge.Query); got.PID != pid || !got.Hosted {
			t.Errorf("after %v: pid %d hosted %v, want pid %d, hosted", sig, got.PID, got.Hosted, pid)
		}
	}
	r.server.kill()
	r.agent.kill()
	r.agent = r.run(roleAgent, never)
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "a relaunch by an agent without a server", func() bool {
		return judge.Ran(p, "start") == 2 && judge.Instances(t, filepath.Join(r.work, "p")) == 1
	})
}

// TestI7_StoppedStaysStopped: neither a restart of drover nor an unregistration brings back what was stopped.
func TestI7_StoppedStaysStopped(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	p := r.process("p")
	for _, op := range []int{judge.Start, judge.Stop} {
		r.does(p, op)
	}
	for _, unregister := range []bool{false, true} {
		if unregister {
			body := p.Request(judge.Query)
			delete(body, "op_type")
			if _, err := r.caller().GSE("unregister_proc_info", body); err != nil {
				t.Fatal(err)
			}
		}
		r.server.kill()
		r.start(false, never)
		if got := r.operate(p, judge.Query); got.PID > 1 || got.Hosted {
			t.Errorf("unregistered %v: pid %d hosted %v after a restart", unregister, got.PID, got.Hosted)
		}
	}
	if n := judge.Ran(p, "start"); n != 1 || judge.Instances(t, filepath.Join(r.work, "p")) != 0 {
		t.Errorf("%sstarted %d times", harness.MoreThan(1, n), n)
	}
}

// TestI9_NoCredentials: nobody gets in without them, and the secret is in no file of the data directory and in no log.
func TestI9_NoCredentials(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	p := r.process("p")
	r.does(p, judge.Start)
	for _, header := range []string{
		"", `{"bk_app_code":"tests"}`, `{"bk_app_code":"tests","bk_app_secret":"wrong"}`,
		`{"bk_app_code":"nobody","bk_app_secret":"` + harness.AppSecret + `"}`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.http+
			"/api/c/compapi/v2/gse/operate_proc_v2/", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Bkapi-Authorization", header)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		reply := harness.Object{}
		if err := errors.Join(json.NewDecoder(resp.Body).Decode(&reply), resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		// The envelope of this path carries refusals too.
		if code, ok := reply["code"].(float64); !ok || code == 0 || reply["result"] != false || reply["data"] != nil {
			t.Errorf("with %q: HTTP %d, %v", header, resp.StatusCode, reply)
		}
	}
	r.server.kill()
	files := 0
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		files++
		if bytes.Contains(data, []byte(harness.AppSecret)) {
			t.Errorf("the secret is in %s", path)
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("looked at %d files: %v", files, err)
	}
}

// TestOrdinaryUser: without root everything that needs none works, survives a kill, and the rest says what it needs.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	r := newRig(t)
	r.real = true
	r.uid = nobody
	for dir := r.dir; strings.HasPrefix(filepath.Base(dir), "Test") || dir == r.dir; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(r.dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	r.start(false, never)
	if _, text := r.readiness(); !strings.Contains(text, "65534") {
		t.Errorf("/readyz does not say that it is no root: %s", text)
	}
	p := r.process("p")
	dir := filepath.Join(r.work, "p")
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if got := r.operate(p, judge.Start); got.Code != 65535 || !strings.Contains(got.Msg, "needs root") {
		t.Errorf("start as root: %d %s, want 65535 and that it needs root", got.Code, got.Msg)
	}
	name, err := exec.Command("id", "-nu", "65534").Output()
	if err != nil {
		t.Fatal(err)
	}
	p.Identity["user"] = strings.TrimSpace(string(name))
	r.does(p, judge.Start)
	if got := r.operate(p, judge.Reload); got.Code != 0 {
		t.Errorf("reload: %d %s", got.Code, got.Msg)
	}
	pid := harness.ReadPID(t, filepath.Join(dir, "d.pid"))
	r.server.kill()
	r.start(false, never)
	if got := r.operate(p, judge.Query); got.PID != pid || !got.Hosted {
		t.Errorf("after a kill of drover: pid %d hosted %v, want pid %d, hosted", got.PID, got.Hosted, pid)
	}
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "a relaunch", func() bool {
		return judge.Ran(p, "start") == 2 &&
			judge.Instances(t, dir) == 1
	})
	if got := r.operate(p, judge.Restart); got.Code != 0 {
		t.Errorf("restart: %d %s", got.Code, got.Msg)
	}
	if got := r.operate(p, judge.Stop); got.Code != 0 || judge.Instances(t, dir) != 0 {
		t.Errorf("stop: %d %s", got.Code, got.Msg)
	}
}
