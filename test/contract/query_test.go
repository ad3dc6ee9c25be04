package contract_test

import (
	"os"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// almostEmpty are the specs that real callers send with a query.
func almostEmpty(procName string) map[string]any {
	return map[string]any{
		"empty strings and zeros": harness.Object{
			"identity": harness.Object{"proc_name": procName, "setup_path": "", "pid_path": "", "user": ""},
			"control":  harness.Object{"start_cmd": "", "stop_cmd": ""},
			"resource": harness.Object{"cpu": 0, "mem": 0},
			"monitor_policy": harness.Object{
				"auto_type": 0, "start_check_secs": 0, "stop_check_secs": 0, "start_retries": 0, "start_interval": 0,
				"op_timeout": 0,
			},
		},
		"nulls": harness.Object{
			"identity": harness.Object{
				"index_key": nil, "proc_name": procName, "setup_path": nil,
				"pid_path": nil, "user": nil,
			},
			"control":              nil,
			"alive_monitor_policy": harness.Object{"auto_type": nil, "start_check_secs": nil, "op_timeout": nil},
		},
		"null spec":  nil,
		"empty spec": harness.Object{},
	}
}

func TestQueryWithAlmostEmptySpec(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, dir := odd(t, s, "known")
	p.Operate(0).Want(t, "start", 0)
	pid := harness.ReadPID(t, dir+"/oddd.pid")
	harness.Eventually(t, "the process to be listed", func() bool {
		n, _ := rows(s, p.Namespace)
		return n == 1
	})
	for what, spec := range almostEmpty("oddd") {
		request := p.Request(2)
		request["spec"] = spec
		q := p.Await(s.Call("operate_proc_v2", request)["task_id"].(string))
		if q.Code != 0 || q.PID != pid || !q.Hosted {
			t.Errorf("%s, known: code %d, pid %d, hosted %v, want pid %d, hosted", what, q.Code, q.PID, q.Hosted, pid)
		}
		unknown := *p
		unknown.Name = "never seen"
		request["meta"] = harness.Object{"namespace": p.Namespace, "name": unknown.Name}
		if q := unknown.Await(s.Call("operate_proc_v2", request)["task_id"].(string)); q.Code != 0 || q.PID != -1 ||
			q.Hosted {
			t.Errorf("%s, unknown: %+v, want code 0, pid -1", what, q)
		}
	}
	// A query with a full spec finds a process that nobody has told of; it registers nothing either.
	stranger := *p
	stranger.Name = "stranger"
	if q := stranger.Query(); q.PID == pid && q.Hosted {
		t.Errorf("stranger: %+v is hosted", q)
	}
	if n, list := rows(s, p.Namespace); n != 1 {
		t.Errorf("%d processes are registered after the queries, want 1: %v", n, list)
	}
}

func TestUnhostOfUnknownStoresNothing(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, _ := odd(t, s, "unheard of")
	if r := p.Operate(4).Want(t, "unhost", 0); r.Hosted {
		t.Error("hosted after an unhost")
	}
	request := p.Request(4)
	request["spec"] = harness.Object{}
	p.Await(s.Call("operate_proc_v2", request)["task_id"].(string)).Want(t, "unhost without a spec", 0)
	if n, _ := rows(s, p.Namespace); n != 0 {
		t.Errorf("%d processes are registered", n)
	}
	if r := p.Row(); r["flag"] != 0.0 || r["status"] != 0.0 {
		t.Errorf("row %v, want flag and status 0", r)
	}
}

// TestHostOnManagedTakesTheNewSpec: a second op 3 answers 0 and what is relaunched from then on is the new spec.
func TestHostOnManagedTakesTheNewSpec(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, dir := odd(t, s, "updated")
	p.Operate(0).Want(t, "start", 0)
	pid := harness.ReadPID(t, dir+"/oddd.pid")
	p.Control["start_cmd"] = p.Control["start_cmd"].(string) + "; echo new >>new.log"
	if r := p.Operate(3).Want(t, "host", 0); !r.Hosted || !harness.Alive(pid) {
		t.Errorf("hosted %v, pid %d alive %v", r.Hosted, pid, harness.Alive(pid))
	}
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the new command to be run", func() bool {
		text, err := os.ReadFile(dir + "/new.log")
		return err == nil && string(text) == "new\n"
	})
	harness.Eventually(t, "the process to be seen again", func() bool { return p.Query().PID > 1 })
	if n := harness.Starts(t, dir); n != 2 {
		t.Errorf("started %d times", n)
	}
}
