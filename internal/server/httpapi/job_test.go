package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/spec"

	"github.com/google/go-cmp/cmp"
)

// The examples of JOB's documents.
const (
	documentedOperate = `{"bk_biz_id": 1, "op_type": 1, "process_infos": [{
		"setup_path": "/usr/local/xxx", "proc_name": "gseagent", "pid_path": "/usr/local/xxx", "account": "root", "contact": "root",
		"cpu_lmt": 50, "mem_lmt": 30, "ip_list": [{"bk_cloud_id": 0, "ip": "10.0.0.1"}]}]}`
	documentedManage = `{"bk_biz_id": 1, ` + manageRest
	manageRest       = `"op_type": 1, "process_infos": [{
		"proc_name": "nginx", "proc_owner": "root", "setup_path": "/data/home/nginx/bin/", "cfg_path": "/data/etc/nginx.conf",
		"log_path": "/data/logs/nginx/", "pid_path": "/data/var/run/nginx/", "start_cmd": "echo start", "stop_cmd": "echo stop",
		"restart_cmd": "echo restart", "reload_cmd": "echo reload", "kill_cmd": "echo kill", "func_id": "", "instance_id": "",
		"value_key": "key_test", "type": 2, "cpu_lmt": 20, "mem_lmt": 30, "cycle_time": 10, "instance_num": 2,
		"start_check_begin_time": 5, "start_check_end_time": 5, "op_timeout": 5, "ip_list": [{"bk_cloud_id": 0, "ip": "10.0.0.1"}]}]}`
)

func TestJobDocumentsOwnExamples(t *testing.T) {
	operate := store.Request{
		Op:      process.Stop,
		Process: process.ID{Namespace: "job:biz:1", Name: "/usr/local/xxx/gseagent"},
		Spec: &process.Spec{
			ProcessName: "gseagent", Directory: "/usr/local/xxx", PIDFile: "/usr/local/xxx", User: "root",
			Thresholds: &spec.Thresholds{CPU: 50, Memory: 30},
			Compat: &spec.Compat{
				KindAssumed: true, StartCheckBegin: 5, StopCheck: 5, StartRetries: 4, StartInterval: 10, OpTimeout: 60,
				Contact: "root",
			},
		},
		Targets: []store.Target{{ItemKey: "/usr/local/xxx/gseagent:0:10.0.0.1", Spelling: "0:10.0.0.1", Agent: "UAGENT2"}},
	}
	manage := store.Request{
		Op:      process.Host,
		Process: process.ID{Namespace: "job:biz:1", Name: "key_test"},
		Spec: &process.Spec{
			ProcessName: "nginx", Directory: "/data/home/nginx/bin/", PIDFile: "/data/var/run/nginx/",
			LogFile: "/data/logs/nginx/", User: "root", Start: "echo start", Stop: "echo stop",
			Reload: &spec.Reload{Command: "echo reload"}, Thresholds: &spec.Thresholds{CPU: 20, Memory: 30},
			ExpectedInstances: new(2), Once: true,
			Compat: &spec.Compat{
				ConfigPath: "/data/etc/nginx.conf", RestartCommand: "echo restart", KillCommand: "echo kill",
				StartCheckBegin: 5, StartCheckEnd: 5, StopCheck: 5, StartRetries: 4, StartInterval: 10, OpTimeout: 5,
				CycleTime: 10, Contact: "root",
			},
		},
		Targets: []store.Target{{ItemKey: "key_test:0:10.0.0.1", Spelling: "0:10.0.0.1", Agent: "UAGENT2"}},
	}
	for _, tt := range []struct {
		name, path, body string
		want             store.Request
	}{
		{"operate_process v2", esbJob + "operate_process/", documentedOperate, operate},
		{"operate_process v3", esbJobV3 + "operate_process/", strings.Replace(documentedOperate, `"bk_biz_id": 1`,
			`"bk_scope_type": "biz", "bk_scope_id": "1"`, 1), operate},
		{"manage_proc v2", esbJob + "manage_proc/", documentedManage, manage},
		{
			"manage_proc v3", esbJobV3 + "manage_proc/", `{"bk_scope_type": "biz", "bk_scope_id": "1", ` + manageRest,
			manage,
		},
		{"manage_proc v3 with bk_biz_id", esbJobV3 + "manage_proc/", documentedManage, manage},
		{"manage_proc v2 with a scope", esbJob + "manage_proc", `{"bk_scope_type": "biz", "bk_scope_id": 1, ` +
			manageRest, manage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			got := w.post(tt.path, tt.body)
			var data map[string]string
			got.ok(t, &data)
			if *got.Message != "" || string(got.Permission) != "null" || len(data) != 1 ||
				!strings.HasPrefix(data["bk_gse_taskid"], "GSETASK:") {
				t.Errorf("answer is %s", got.Raw)
			}
			task := w.onlyTask()
			if diff := cmp.Diff([]store.Request{tt.want}, task.Requests); diff != "" {
				t.Errorf("task differs (-want +got):\n%s", diff)
			}
		})
	}
}

// jobPoll asks for the results of a JOB task.
func (w *world) jobPoll(task string) (status int, entries map[string]entry) {
	w.t.Helper()
	var data struct {
		Status *int             `json:"status"`
		Result map[string]entry `json:"result"`
	}
	w.post(esbJobV3+"get_proc_result/", fmt.Sprintf(`{"bk_scope_type": "biz", "bk_scope_id": "1", "bk_gse_taskid": %q}`,
		task)).ok(w.t, &data)
	if data.Status == nil || data.Result == nil {
		w.t.Fatal("data lacks status or result")
	}
	return *data.Status, data.Result
}

func TestJobResults(t *testing.T) {
	const key = "/usr/local/xxx/gseagent:0:10.0.0.1"
	w := newWorld(t)
	task := w.taskID(esbJob+"operate_process/", strings.Replace(documentedOperate, `"op_type": 1`, `"op_type": "2"`, 1))
	status, got := w.jobPoll(task)
	if e := got[key]; status != 115 || e.Code != 115 || e.Msg != "handling" || string(e.Content) != `""` {
		t.Errorf("unfinished: status %d, entries %+v", status, got)
	}
	w.outcomes[task+key] = process.Outcome{Text: process.Success, Status: &running}
	status, got = w.jobPoll(task)
	var doc struct {
		Process []struct {
			ProcName string `json:"procname"`
			Instance []struct {
				ProcessName string `json:"processName"`
				PID         int    `json:"pid"`
			} `json:"instance"`
		} `json:"process"`
	}
	if err := json.Unmarshal(got[key].Content, &doc); err != nil {
		t.Fatalf("content is no object: %v: %s", err, got[key].Content)
	}
	if status != 0 || got[key].Code != 0 || len(doc.Process) != 1 || len(doc.Process[0].Instance) != 1 ||
		doc.Process[0].ProcName != "gseagent" ||
		doc.Process[0].Instance[0].ProcessName != "gseagent" || doc.Process[0].Instance[0].PID != 4437 {
		t.Errorf("status %d, content %s", status, got[key].Content)
	}
	w.outcomes[task+key] = process.Outcome{Fault: process.AgentUnavailable, Text: "agent not found or offline"}
	if _, got = w.jobPoll(task); got[key].Code != 117 || got[key].Content[0] != '{' {
		t.Errorf("failed entry is %+v", got[key])
	}

	t.Run("by GET", func(t *testing.T) {
		r := "?bk_biz_id=1&bk_gse_taskid=" + task + "&bk_app_code=" + appCode + "&bk_app_secret=" + appSecret +
			"&bk_username=admin"
		var data map[string]any
		w.get(esbJob+"get_proc_result/"+r).ok(t, &data)
	})
	t.Run("refused", func(t *testing.T) {
		for body, code := range map[string]int{
			`{"bk_biz_id": 1, "bk_gse_taskid": "GSETASK:x"}`:                                 1000101,
			`{"bk_biz_id": 1, "bk_gse_taskid": ""}`:                                          1241002,
			`{"bk_biz_id": 1}`:                                                               1241002,
			`{"bk_gse_taskid": "GSETASK:x"}`:                                                 1241002,
			`{"bk_biz_id": 0, "bk_gse_taskid": "GSETASK:x"}`:                                 1241002,
			`{"bk_scope_type": "all", "bk_scope_id": "1", "bk_gse_taskid": "GSETASK:x"}`:     1241002,
			`{"bk_scope_type": "biz_set", "bk_scope_id": "x", "bk_gse_taskid": "GSETASK:x"}`: 1241002,
		} {
			got := w.post(esbJob+"get_proc_result/", body)
			got.refused(t, 200, code)
			if string(got.Permission) != "null" {
				t.Errorf("permission is %s", got.Permission)
			}
		}
	})
}

func TestJobRequiredFields(t *testing.T) {
	replace := func(body, old, replacement string) string {
		if !strings.Contains(body, old) {
			t.Fatalf("%q is not in the example", old)
		}
		return strings.Replace(body, old, replacement, 1)
	}
	for _, tt := range []struct{ name, path, body, field string }{
		{"scope", "operate_process", replace(documentedOperate, `"bk_biz_id": 1`, `"bk_biz": 1`), "bk_biz_id"},
		{
			"scope is a list", "operate_process", replace(documentedOperate, `"bk_biz_id": 1`, `"bk_biz_id": [1]`),
			"bk_biz_id",
		},
		{"op_type", "operate_process", replace(documentedOperate, `"op_type": 1`, `"op_type": null`), "op_type"},
		{
			"process_infos", "operate_process", replace(documentedOperate, `"process_infos"`, `"process_info"`),
			"process_infos",
		},
		{"setup_path", "operate_process", replace(documentedOperate, `"setup_path": "/usr/local/xxx"`,
			`"setup_path": " "`), "process_infos[0].setup_path"},
		{
			"proc_name", "operate_process", replace(documentedOperate, `"gseagent"`, `null`),
			"process_infos[0].proc_name",
		},
		{
			"pid_path", "operate_process", replace(documentedOperate, `"pid_path": "/usr/local/xxx"`, `"pid_path": ""`),
			"process_infos[0].pid_path",
		},
		{
			"ip_list", "operate_process", replace(documentedOperate, `[{"bk_cloud_id": 0, "ip": "10.0.0.1"}]`, `[]`),
			"process_infos[0].ip_list",
		},
		{
			"ip", "operate_process", replace(documentedOperate, `, "ip": "10.0.0.1"`, ``),
			"process_infos[0].ip_list[0].ip",
		},
		{
			"proc_name of manage_proc", "manage_proc", replace(documentedManage, `"nginx"`, `""`),
			"process_infos[0].proc_name",
		},
		{
			"proc_owner of manage_proc", "manage_proc", replace(documentedManage, `"proc_owner": "root", `, ``),
			"process_infos[0].proc_owner",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			got := w.post(esbJob+tt.path+"/", tt.body)
			got.refused(t, 200, 1241002)
			if !strings.Contains(*got.Message, tt.field) {
				t.Errorf("message %q does not name %s", *got.Message, tt.field)
			}
		})
	}
}

func TestJobDefaults(t *testing.T) {
	submit := func(t *testing.T, path, info string) store.Request {
		t.Helper()
		w := newWorld(t)
		w.taskID(path, `{"bk_scope_type": "biz_set", "bk_scope_id": "7", "op_type": 1, "process_infos": [{`+info+
			`, "ip_list": [{"ip": "10.0.0.1", "bk_cloud_id": "0"}]}]}`)
		return w.onlyTask().Requests[0]
	}
	const operate, manage = esbJob + "operate_process/", esbJob + "manage_proc/"
	const paths = `"setup_path": "/a", "proc_name": "n", "pid_path": "/a/n.pid"`
	t.Run("value_key", func(t *testing.T) {
		for info, want := range map[string]string{
			paths: "/a/n",
			`"setup_path": "/a/", "proc_name": "n", "pid_path": "/p"`:  "/a/n",
			`"setup_path": "/a\\", "proc_name": "n", "pid_path": "/p"`: `/a\n`,
			paths + `, "value_key": ""`:                                "/a/n",
			paths + `, "value_key": null`:                              "/a/n",
			paths + `, "value_key": "K:1"`:                             "K:1",
		} {
			r := submit(t, operate, info)
			if r.Process != (process.ID{Namespace: "job:biz_set:7", Name: want}) || r.Targets[0].ItemKey != want+
				":0:10.0.0.1" {
				t.Errorf("%s: process %v, key %q", info, r.Process, r.Targets[0].ItemKey)
			}
		}
	})
	t.Run("manage_proc without paths", func(t *testing.T) {
		r := submit(t, manage, `"proc_name": "n", "proc_owner": "o"`)
		if r.Process.Name != "/n" || r.Spec.Directory != "/" || r.Spec.PIDFile != "" ||
			r.Targets[0].Outcome != nil {
			t.Errorf("request is %+v %+v", r, r.Spec)
		}
	})
	t.Run("type", func(t *testing.T) {
		for info, want := range map[string]process.Kind{
			paths: process.Resident, paths + `, "cycle_time": 60`: process.Periodic,
			paths + `, "type": null`: process.Resident,
			paths + `, "type": 0`:    process.Periodic, paths + `, "type": "2"`: process.SingleRun,
			paths + `, "type": 1, "cycle_time": 60`: process.Resident,
		} {
			if got := submit(t, operate, info).Spec.Kind(); got != want {
				t.Errorf("%s: kind is %q, want %q", info, got, want)
			}
		}
	})
	t.Run("account, limits, window", func(t *testing.T) {
		s := submit(t, operate,
			paths+
				`, "account": " ", "cpu_lmt": 101, "mem_lmt": -1, "start_check_begin_time": 2, "start_check_end_time": 9, "op_timeout": 0`).Spec
		want := spec.Compat{
			KindAssumed: true, StartCheckBegin: 2, StartCheckEnd: 9, StopCheck: 5, StartRetries: 4, StartInterval: 10,
			OpTimeout: 60,
		}
		if s.User != "root" || s.Thresholds != nil || s.Kind() != process.Resident || *s.Compat != want {
			t.Errorf("spec is %+v", s)
		}
	})
	t.Run("a bad value fails its keys in the caller's words", func(t *testing.T) {
		for info, want := range map[string]string{
			`"setup_path": "a", "proc_name": "n", "pid_path": "/p"`: `setup_path "a" is not absolute: expected a path that begins with /`,
			paths + `, "type": 7`: "type is 7: expected 0 (periodic), 1 (resident) or 2 (single run)",
			paths + `, "value_key": "` + strings.Repeat("k", 300) +
				`"`: "value_key is 300 bytes long: expected at most 255",
			paths + `, "instance_num": "many"`: `instance_num is not an integer: "many"`,
			paths + `, "account": "a\u0001"`:   "account holds a control character at byte 1",
		} {
			out := submit(t, operate, info).Targets[0].Outcome
			if out == nil || out.Fault != process.Failed || out.Text != want {
				t.Errorf("%s: outcome is %+v, want %q", info, out, want)
			}
		}
	})
}

func TestManageProcHasOperationsOfItsOwn(t *testing.T) {
	for opType, want := range map[int]process.Op{1: process.Host, 2: process.Unhost} {
		w := newWorld(t)
		w.taskID(esbJob+"manage_proc/", strings.Replace(documentedManage, `"op_type": 1`,
			fmt.Sprintf(`"op_type": %d`, opType), 1))
		if got := w.onlyTask().Requests[0].Op; got != want {
			t.Errorf("op_type %d is %q, want %q", opType, got, want)
		}
	}
	w := newWorld(t)
	task := w.taskID(esbJob+"manage_proc/", strings.Replace(documentedManage, `"op_type": 1`, `"op_type": 9`, 1))
	if _, got := w.jobPoll(task); got["key_test:0:10.0.0.1"].Code != 832 {
		t.Errorf("op_type 9 is %v", got)
	}
}

func TestJobManyProcessesAndHosts(t *testing.T) {
	w := newWorld(t)
	task := w.taskID(esbJob+"operate_process/", `{"bk_biz_id": "3", "op_type": 0, "process_infos": [
		{"setup_path": "/a", "proc_name": "n", "pid_path": "/a/n.pid", "ip_list": [{"bk_cloud_id": 0, "ip": "10.0.0.1"}, {"bk_cloud_id": 9, "ip": "10.0.0.1"}]},
		{"setup_path": "/b", "proc_name": "n", "pid_path": "/b/n.pid", "ip_list": [{"bk_cloud_id": 1, "ip": "10.0.0.1"}]}]}`)
	_, got := w.jobPoll(task)
	want := []string{"/a/n:0:10.0.0.1", "/a/n:9:10.0.0.1", "/b/n:1:10.0.0.1"}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) || got[want[1]].Code != 117 ||
		got[want[0]].Code != 115 {
		t.Errorf("entries are %v", got)
	}
}
