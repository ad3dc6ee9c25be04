package security_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// app calls as an app of its own.
type app struct{ code, secret string }

// Do implements the client of a harness.Caller.
func (a app) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"tester"}`,
		a.code, a.secret))
	return http.DefaultClient.Do(r)
}

// newApp makes an app with the one grant.
func newApp(t *testing.T, s *harness.Server, code, operations, namespaces string) harness.Caller {
	t.Helper()
	status, made := s.Do(http.MethodPost, "/api/v1/apps", harness.Object{
		"code": code, "may_name_users": true,
		"grants": []harness.Object{{"operations": strings.Split(operations, ","), "namespaces": []string{namespaces}}},
	})
	secret, _ := made["secret"].(string)
	if status != http.StatusCreated || secret == "" {
		t.Fatalf("HTTP %d, %v", status, made)
	}
	return harness.Caller{URL: s.URL, Client: app{code, secret}}
}

// operate carries out an operation as an app.
func operate(t *testing.T, c harness.Caller, p *harness.Process, op int) (harness.Result, error) {
	t.Helper()
	data, err := c.GSE("operate_proc_v2", p.Request(op))
	if err != nil {
		return harness.Result{}, err
	}
	return harness.ParseResult(t, c.Await(t, data["task_id"].(string))[p.Key()]), nil
}

// TestASpecOfOnesOwnNeedsStart: who may register, query or stop cannot have a command of his own run thereby, and sees
// no process but the registered one.
func TestASpecOfOnesOwnNeedsStart(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, drover)
	dir, mark := harness.Workdir(t), filepath.Join(t.TempDir(), "mark")
	harness.Sleeper(t, dir, "tickd")
	spec := func(namespace, name string) *harness.Process {
		return &harness.Process{
			Server: s, Namespace: namespace, Name: name,
			Identity: harness.Object{
				"proc_name": "tickd", "setup_path": dir, "pid_path": dir + "/" + name + ".pid",
				"user": "root",
			},
			Control: harness.Object{"start_cmd": fmt.Sprintf("setsid ./tickd 100000 >/dev/null 2>&1 & echo $! >%s.pid",
				name), "stop_cmd": ""},
			Policy: harness.Object{"start_check_secs": 1, "stop_check_secs": 2},
		}
	}
	hidden, mine := spec("secret-ns", "payroll"), spec("mine", "own")
	hidden.Operate(0).Want(t, "start of the hidden one", 0)
	mine.Operate(0).Want(t, "start of the own one", 0)
	pid := mine.Query().PID

	setup, read, stop := newApp(t, s, "setup", "register,update,query", "mine"), newApp(t, s, "reader", "read", "mine"),
		newApp(t, s, "stopper", "stop,query", "mine")
	evil := spec("mine", "evil")
	evil.Identity["pid_path"] = dir + "/payroll.pid"
	evil.Control["health_cmd"] = "id >" + mark
	for _, call := range []string{"register_proc_info", "update_proc_info"} {
		if _, err := setup.GSE(call, evil.Request(0)); err == nil ||
			!strings.Contains(err.Error(), "has no right to start mine/evil") {
			t.Errorf("%s: %v", call, err)
		}
	}
	for who, c := range map[string]harness.Caller{"setup": setup, "read": read, "stop": stop} {
		r, err := operate(t, c, evil, 2)
		if err != nil || r.Code != 0 || r.PID != -1 || r.Hosted || strings.Contains(r.Content, "100000") {
			t.Errorf("%s queries a name that is not registered: %v, %+v", who, err, r)
		}
		theirs := spec("mine", "own")
		theirs.Identity["pid_path"] = dir + "/payroll.pid"
		if r, err := operate(t, c, theirs, 2); err != nil || r.PID != pid {
			t.Errorf("%s queries with another spec: %v, %+v, want the registered pid %d", who, err, r, pid)
		}
	}
	changed := spec("mine", "own")
	changed.Control["stop_cmd"] = "id >" + mark
	if _, err := operate(t, stop, changed, 1); err == nil ||
		!strings.Contains(err.Error(), "has no right to start mine/own") {
		t.Errorf("stop with another spec: %v", err)
	}
	if r, err := operate(t, stop, spec("mine", "own"), 1); err != nil || r.Code != 0 {
		t.Errorf("stop with the registered spec: %v, %+v", err, r)
	}
	if text, err := os.ReadFile(mark); err == nil {
		t.Errorf("a command was run: %s", text)
	}
}
