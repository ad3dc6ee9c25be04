package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/examples"
	"drover/internal/test/harness"
)

// The five documents' own examples are api/examples/*/documented*.request.json. There they meet no agent; here the
// agent is the one that they name, and only credentials and paths are ours.

// document returns the body of a document's example; replace are pairs of a path of the document and ours.
func document(t *testing.T, name string, replace ...string) harness.Object {
	t.Helper()
	cases, err := examples.Load("../../api/examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Name != name {
			continue
		}
		text := strings.NewReplacer(append(replace, "${app_code}", harness.AppCode, "${app_secret}",
			harness.AppSecret)...).Replace(string(c.Request.Body))
		var body harness.Object
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatal(err)
		}
		return body
	}
	t.Fatalf("there is no example %s", name)
	return nil
}

// install makes a directory with a daemon of that name and the scripts that the documents call, and returns it with a
// slash.
func install(t *testing.T, daemon string) string {
	t.Helper()
	dir := harness.Workdir(t)
	program, err := os.ReadFile(binaries.oddd)
	if err != nil {
		t.Fatal(err)
	}
	pidfile := dir + "/" + daemon + ".pid"
	files := map[string]string{
		daemon: string(program),
		"start.sh": fmt.Sprintf(
			"#!/bin/sh\n%[1]s/%[2]s plain -pidfile %[3]s -log %[1]s/reload.log -runlog %[1]s/run.log\n", dir, daemon,
			pidfile),
		"stop.sh":    fmt.Sprintf("#!/bin/sh\nkill $(cat %s)\n", pidfile),
		"restart.sh": fmt.Sprintf("#!/bin/sh\n./stop.sh\nwhile [ -e %s ]; do sleep 0.05; done\n./start.sh\n", pidfile),
		"reload.sh":  fmt.Sprintf("#!/bin/sh\nkill -HUP $(cat %s)\n", pidfile),
		"kill.sh":    fmt.Sprintf("#!/bin/sh\nkill -9 $(cat %s)\n", pidfile),
		"version.sh": "#!/bin/sh\necho 1.2.3\n",
		"health.sh":  "#!/bin/sh\necho ok\n",
	}
	for name, text := range files {
		if err := harness.WriteProgram(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return dir + "/"
}

// post sends a document's example as it stands, with its credentials in the body, and wants the documented reply.
func post(t *testing.T, s *harness.Server, path string, body harness.Object, reply string) harness.Object {
	t.Helper()
	status, got := send(t, s, http.MethodPost, path, nil, body)
	if status != http.StatusOK {
		t.Fatalf("%s: HTTP %d", path, status)
	}
	wantJSON(t, path, got, reply)
	if t.Failed() {
		t.FailNow()
	}
	data, _ := got["data"].(harness.Object)
	return data
}

const registered = `{"result": true, "code": 0, "message": "success", "request_id": "<any>",
	"data": {"1:2:10.0.0.1:gse:proc-test": {"error_code": %d, "error_msg": "%s", "content": ""}}}`

func TestDocumentedGSE(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--agent-cloud", "1", "--agent-ip", "10.0.0.1")
	dir := install(t, "proc-test")
	register := document(t, "register_proc_info/documented", "/data/gsetest/", dir)
	post(t, s, gsePath+"register_proc_info/", register, fmt.Sprintf(registered, 0, "success"))
	post(t, s, gsePath+"register_proc_info/", register,
		fmt.Sprintf(registered, 850, "Fail to register, for the process info already exists."))

	const key = "1:10.0.0.1:gse:proc-test"
	operate := func(op, code int) harness.Result {
		t.Helper()
		body := document(t, "operate_proc_v2/documented", "/data/gsetest/", dir)
		body["op_type"] = op
		data := post(t, s, gsePath+"operate_proc_v2/", body,
			`{"result": true, "code": 0, "message": "success", "data": {"task_id": "<any>"}, "request_id": "<any>"}`)
		task := data["task_id"].(string)
		if !strings.HasPrefix(task, "GSETASK:") {
			t.Errorf("task id %q", task)
		}
		return harness.ParseResult(t, s.AwaitTask(task)[key]).Want(t, fmt.Sprintf("op %d", op), code)
	}
	started := operate(0, 0)
	wantJSON(t, "content of a start", any(started.Content), fmt.Sprintf(`{"<json>": {"value": [{
		"bk_agent_id": "1:10.0.0.1", "procName": "proc-test", "setupPath": %q, "funcID": "", "instanceID": "", "result": "success", "isAuto": true}]}}`, dir))
	first := harness.ReadPID(t, dir+"proc-test.pid")
	if q := operate(2, 0); q.PID != first || !q.Hosted || q.Item["processName"] != "proc-test" {
		t.Errorf("query: %v, want pid %d, hosted", q.Item, first)
	}
	if r := operate(0, 828); !strings.Contains(r.Msg, "proc-test") || !r.Hosted {
		t.Errorf("second start: %q, hosted %v", r.Msg, r.Hosted)
	}
	operate(8, 0)
	harness.Eventually(t, "the daemon to note the reload", func() bool {
		noted, err := os.ReadFile(dir + "reload.log")
		return err == nil && string(noted) == "reloaded\n"
	})
	operate(7, 0)
	if second := harness.ReadPID(t, dir+"proc-test.pid"); second == first {
		t.Errorf("pid %d before and after a restart", first)
	}
	if r := operate(1, 0); r.Hosted {
		t.Error("hosted after a stop")
	}
	if r := operate(1, 829); r.Msg != "no need to stop the process(proc-test) that is not running" {
		t.Errorf("second stop says %q", r.Msg)
	}
	operate(0, 0)
	if r := operate(9, 0); r.Hosted {
		t.Error("hosted after a kill")
	}
	if r := operate(9, 829); r.Hosted {
		t.Error("hosted after a second kill")
	}
}

const jobSubmitted = `{"result": true, "code": 0, "message": "", "data": {"bk_gse_taskid": "<any>"}, "request_id": "<any>", "permission": null}`

// jobResult awaits a JOB task and returns the entry of the one key that it may have.
func jobResult(t *testing.T, s *harness.Server, path string, scope harness.Object, task, key string) harness.Object {
	t.Helper()
	body := harness.Object{
		"bk_app_code": harness.AppCode, "bk_app_secret": harness.AppSecret, "bk_username": "admin",
		"bk_gse_taskid": task,
	}
	maps.Copy(body, scope)
	var entry harness.Object
	harness.Eventually(t, "JOB task "+task+" to end", func() bool {
		data := post(t, s, path+"get_proc_result/", body,
			`{"result": true, "code": 0, "message": "", "data": {"status": "<any>", "result": "<any>"}, "request_id": "<any>", "permission": null}`)
		result := data["result"].(harness.Object)
		var ok bool
		if entry, ok = result[key].(harness.Object); !ok || len(result) != 1 {
			t.Fatalf("keys %v, want %s alone", result, key)
		}
		if entry["error_code"] != 115.0 {
			return true
		}
		wantJSON(t, "unfinished", entry, `{"error_code": 115, "error_msg": "handling", "content": ""}`)
		return false
	})
	return entry
}

func TestDocumentedJobOperate(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--agent-ip", "10.0.0.1")
	dir := strings.TrimSuffix(install(t, "gseagent"), "/")
	// operate sends the example, changed by the given fields of its one process.
	operate := func(op int, fields harness.Object) harness.Object {
		t.Helper()
		body := document(t, "operate_process/documented", "/usr/local/xxx", dir)
		body["op_type"] = op
		maps.Copy(body["process_infos"].([]any)[0].(harness.Object), fields)
		data := post(t, s, jobPath+"operate_process/", body, jobSubmitted)
		return jobResult(t, s, jobPath, harness.Object{"bk_biz_id": 1}, data["bk_gse_taskid"].(string),
			dir+"/gseagent:0:10.0.0.1")
	}
	value := func(code int, text string, hosted bool) string {
		return fmt.Sprintf(
			`{"error_code": %d, "error_msg": %[2]q, "content": {"value": [{"bk_agent_id": "0:10.0.0.1", "procName": "gseagent",
			"setupPath": %[3]q, "funcID": "", "instanceID": "", "result": %[2]q, "isAuto": %[4]v}]}}`, code, text, dir, hosted)
	}
	// The example itself is a stop, without any command, and its pid_path is a directory.
	wantJSON(t, "stop of nothing", operate(1, nil),
		value(829, "no need to stop the process(gseagent) that is not running", false))
	wantJSON(t, "start", operate(0, harness.Object{"start_cmd": "./start.sh"}), value(0, "success", true))
	pid := harness.ReadPID(t, dir+"/gseagent.pid")
	q := operate(2, nil)
	document, _ := q["content"].(harness.Object)
	if document == nil {
		t.Fatalf("content of a query is %T, want an object", q["content"])
	}
	wantJSON(t, "query", document["process"],
		fmt.Sprintf(`[{"procname": "gseagent", "instance": [{"processName": "gseagent", "pid": %d, "isAuto": true,
		"cpuUsage": "<any>", "cpuUsageAve": "<any>", "phyMemUsage": "<any>", "usePhyMem": "<any>", "diskSize": -1, "utime": "<any>", "stime": "<any>",
		"freeVMem": "0", "threadCount": "<any>", "version": "", "health": "", "cmdline": "<any>", "stat": "<any>", "startTime": "<any>",
		"elapsedTime": "<any>", "register_time": "<any>", "last_start_time": "<any>", "report_time": "<any>"}]}]`, pid))
	wantJSON(t, "stop", operate(1, nil), value(0, "success", false))
	if harness.Alive(pid) {
		t.Errorf("pid %d is alive after the documented stop", pid)
	}
	wantJSON(t, "illegal operation", operate(6, nil), value(832, "op_type 6 is not an operation", false))
}

func TestDocumentedJobManage(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--agent-ip", "10.0.0.1")
	for _, version := range []struct {
		name, path string
		scope      harness.Object
	}{
		{"documented_v2", jobPath, harness.Object{"bk_biz_id": 1}},
		{"documented_v3", jobV3Path, harness.Object{"bk_scope_type": "biz", "bk_scope_id": "1"}},
	} {
		dir := install(t, "nginx")
		body := document(t, "manage_proc/"+version.name, "/data/home/nginx/bin/", dir, "/data/var/run/nginx/", dir)
		const key = "key_test:0:10.0.0.1"
		// hosted asks, as JOB's callers can, whether the process is hosted.
		hosted := func() bool {
			t.Helper()
			query := document(t, "operate_process/documented", "/usr/local/xxx", dir)
			query["op_type"] = 2
			query["process_infos"].([]any)[0].(harness.Object)["value_key"] = "key_test"
			data := post(t, s, version.path+"operate_process/", query, jobSubmitted)
			entry := jobResult(t, s, version.path, version.scope, data["bk_gse_taskid"].(string), key)
			process := entry["content"].(harness.Object)["process"].([]any)[0].(harness.Object)
			return process["instance"].([]any)[0].(harness.Object)["isAuto"].(bool)
		}
		manage := func(op int, auto bool) {
			t.Helper()
			body["op_type"] = op
			data := post(t, s, version.path+"manage_proc/", body, jobSubmitted)
			entry := jobResult(t, s, version.path, version.scope, data["bk_gse_taskid"].(string), key)
			wantJSON(t, fmt.Sprintf("%s %d", version.name, op), entry,
				fmt.Sprintf(`{"error_code": 0, "error_msg": "<any>", "content": {"value": [
				{"bk_agent_id": "0:10.0.0.1", "procName": "nginx", "setupPath": %q, "funcID": "", "instanceID": "", "result": "<any>", "isAuto": %v}]}}`, dir, auto))
			if got := hosted(); got != auto {
				t.Errorf("%s %d: hosted %v, want %v", version.name, op, got, auto)
			}
		}
		manage(1, true)
		manage(1, true) // never 850
		manage(2, false)
		manage(2, false)
	}
}
