package harness

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Process is a process as a caller knows it: the spec that every operation sends.
type Process struct {
	Server *Server
	// Host is the one it runs on, as callers name it; empty is that of drover dev.
	Host      string
	Namespace string
	Name      string
	Identity  Object
	Control   Object
	Policy    Object
	// Resource is what it may use; nil sends none.
	Resource Object
}

// Result is the answer to an operation on it.
type Result struct {
	Code    int
	Msg     string
	Content string
	Hosted  bool // isAuto of the content
	PID     int  // of a query
	Item    Object
}

// Request is the body of operate_proc_v2 for this process.
func (p *Process) Request(op int) Object {
	policy := Object{"auto_type": 1, "start_check_secs": 2, "stop_check_secs": 5, "start_interval": 1, "op_timeout": 30}
	maps.Copy(policy, p.Policy)
	spec := Object{"identity": p.Identity, "control": p.Control, "alive_monitor_policy": policy}
	if p.Resource != nil {
		spec["resource"] = p.Resource
	}
	return Object{
		"meta":          Object{"namespace": p.Namespace, "name": p.Name},
		"op_type":       op,
		"agent_id_list": []string{p.host()},
		"spec":          spec,
	}
}

// Submit begins an operation and returns the task id.
func (p *Process) Submit(op int) string {
	p.Server.t.Helper()
	return p.Server.Call("operate_proc_v2", p.Request(op))["task_id"].(string)
}

// Operate carries out an operation and returns its result.
func (p *Process) Operate(op int) Result {
	p.Server.t.Helper()
	return p.Await(p.Submit(op))
}

// Key is the key of results.
func (p *Process) Key() string { return p.host() + ":" + p.Namespace + ":" + p.Name }

func (p *Process) host() string { return cmp.Or(p.Host, Agent) }

// Await polls a task until it has ended.
func (p *Process) Await(task string) Result {
	p.Server.t.Helper()
	return ParseResult(p.Server.t, p.Server.AwaitTask(task)[p.Key()])
}

// Query asks for the present state.
func (p *Process) Query() Result {
	p.Server.t.Helper()
	return p.Operate(2)
}

// Row is its row of get_proc_status_v2.
func (p *Process) Row() Object {
	p.Server.t.Helper()
	data := p.Server.Call("get_proc_status_v2", Object{
		"meta": Object{"namespace": p.Namespace, "name": p.Name}, "agent_id_list": []string{p.host()},
	})
	rows := data["proc_infos"].([]any)
	if len(rows) != 1 {
		p.Server.t.Fatalf("%d rows: %v", len(rows), rows)
	}
	return rows[0].(Object)
}

// ParseResult reads one entry of a result map.
func ParseResult(t testing.TB, entry any) Result {
	t.Helper()
	e, ok := entry.(Object)
	if !ok {
		t.Fatalf("no entry for the process: %v", entry)
	}
	r := Result{Code: int(e["error_code"].(float64)), Msg: e["error_msg"].(string), Content: e["content"].(string)}
	var content struct {
		Value   []Object `json:"value"`
		Process []struct {
			Instance []Object `json:"instance"`
		} `json:"process"`
	}
	if err := json.Unmarshal([]byte(r.Content), &content); err != nil {
		t.Fatalf("content %q: %v", r.Content, err)
	}
	switch {
	case len(content.Value) == 1:
		r.Item = content.Value[0]
	case len(content.Process) == 1 && len(content.Process[0].Instance) == 1:
		r.Item = content.Process[0].Instance[0]
		r.PID = int(r.Item["pid"].(float64))
	default:
		t.Fatalf("content %q: want one value or one process with one instance", r.Content)
	}
	r.Hosted, _ = r.Item["isAuto"].(bool)
	return r
}

// Want fails the test unless the result has the code, and returns it.
func (r Result) Want(t testing.TB, what string, code int) Result {
	t.Helper()
	if r.Code != code {
		t.Fatalf("%s: code %d (%s), want %d", what, r.Code, r.Msg, code)
	}
	return r
}

// Never is what a test prints if its fall cannot be luck. The check of a change (test/suite) then gives it no second try.
const Never = "NEVER A FLAKE"

// MoreThan begins the message of a test that counts how often something happened, such as the run of a command: less
// often may be luck, on a slow machine, but more often than it may never is.
func MoreThan(most, n int) string {
	if n > most {
		return Never + ": "
	}
	return ""
}

// Eventually asks again and again until the answer is yes.
func Eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		asked := time.Now()
		if yes() {
			return
		}
		select {
		case <-time.After(Pause(time.Since(asked))):
		case <-deadline.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Pause is how long a test that waits rests after a question that took so long: from 20 ms to 250 ms. Tests that run
// beside it need the processor more: a question may be a whole command, or go to a browser.
func Pause(question time.Duration) time.Duration {
	return min(max(4*question, 20*time.Millisecond), 250*time.Millisecond)
}

// ReadPID reads a pid file; it fails the test for anything that is no pid of a process.
func ReadPID(t testing.TB, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(data))[0])
	if err != nil || pid <= 1 {
		t.Fatalf("%s holds %q", path, data)
	}
	return pid
}
