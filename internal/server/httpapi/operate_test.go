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

const exampleSpec = `{
	"identity": {"index_key": "", "proc_name": "proc-test", "setup_path": "/data/gsetest/", "pid_path": "/data/gsetest/proc-test.pid",
		"config_path": "/data/gsetest/proc-test.conf", "log_path": "/data/gsetest/logs/", "user": "root"},
	"control": {"start_cmd": "./start.sh", "stop_cmd": "./stop.sh", "restart_cmd": "./restart.sh", "reload_cmd": "./reload.sh",
		"kill_cmd": "./kill.sh", "version_cmd": "./version.sh", "health_cmd": "./health.sh"},
	"alive_monitor_policy": {"auto_type": 1, "start_check_secs": 5, "stop_check_secs": 5, "start_retries": 3, "start_interval": 20, "crotab_rule": ""},
	"warn_report_policy": {"report_id": 0},
	"configmap": [{"path": "", "md5": ""}]}`

func exampleOperate(op int) string {
	return fmt.Sprintf(`{"meta": {"namespace": "gse", "name": "proc-test", "labels": {"proc_name": "proc-test"}},
		"op_type": %d, "hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1}], "spec": %s}`, op, exampleSpec)
}

func succeed(store.Request, store.Target) *process.Outcome {
	return &process.Outcome{Text: process.Success, Hosted: true}
}

func TestOperateIsATask(t *testing.T) {
	w := newWorld(t)
	task := w.taskID(esbGSE+"operate_proc_v2/", exampleOperate(0))

	want := store.Request{
		Op:      process.Start,
		Process: process.ID{Namespace: "gse", Name: "proc-test"},
		Spec: &process.Spec{
			ProcessName: "proc-test", Directory: "/data/gsetest/", PIDFile: "/data/gsetest/proc-test.pid",
			LogFile: "/data/gsetest/logs/", User: "root", Start: "./start.sh", Stop: "./stop.sh",
			Reload: &spec.Reload{Command: "./reload.sh"}, VersionCommand: "./version.sh",
			Health: &spec.Health{Exec: "./health.sh"}, Labels: map[string]string{"proc_name": "proc-test"},
			Compat: &spec.Compat{
				ConfigPath: "/data/gsetest/proc-test.conf", RestartCommand: "./restart.sh", KillCommand: "./kill.sh",
				StartCheckBegin: 5, StopCheck: 5, StartRetries: 3, StartInterval: 20, OpTimeout: 60,
			},
		},
		Targets: []store.Target{{ItemKey: exampleKey, Spelling: "1:10.0.0.1", Agent: "UAGENT1"}},
	}
	got := w.onlyTask()
	if diff := cmp.Diff([]store.Request{want}, got.Requests); diff != "" {
		t.Errorf("task differs (-want +got):\n%s", diff)
	}
	if got.App != appCode || got.User != "admin" || got.ID != task {
		t.Errorf("task is of %q, %q, %q", got.App, got.User, got.ID)
	}

	t.Run("every key is there from the first poll", func(t *testing.T) {
		want := map[string]entry{exampleKey: {Code: 115, Msg: "handling", Content: json.RawMessage(`""`)}}
		if diff := cmp.Diff(want, w.poll(task)); diff != "" {
			t.Errorf("poll differs (-want +got):\n%s", diff)
		}
	})

	t.Run("content of a finished operation is a string with one value", func(t *testing.T) {
		w.outcomes[task+exampleKey] = process.Outcome{Text: process.Success, Hosted: true}
		e := w.poll(task)[exampleKey]
		if e.Code != 0 || e.Msg != "success" {
			t.Errorf("entry is %d %q", e.Code, e.Msg)
		}
		var got any
		decodeText(t, e.Content, &got)
		want := map[string]any{"value": []any{map[string]any{
			"bk_agent_id": "1:10.0.0.1", "procName": "proc-test", "setupPath": "/data/gsetest/",
			"funcID": "", "instanceID": "", "result": "success", "isAuto": true,
		}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("content differs (-want +got):\n%s", diff)
		}
	})
}

func TestFaultsHaveTheirCodesAndAWholeDocument(t *testing.T) {
	for fault, code := range map[process.Fault]int{
		process.AgentUnavailable: 117, process.AlreadyRunning: 828, process.NotRunning: 829, process.IllegalOp: 832,
		process.CheckFailed: 836, process.AlreadyRegistered: 850, process.Failed: 65535,
	} {
		t.Run(string(fault), func(t *testing.T) {
			w := newWorld(t)
			w.answer = func(store.Request, store.Target) *process.Outcome {
				return &process.Outcome{Fault: fault, Text: "why <it> & failed", Hosted: true}
			}
			e := w.poll(w.taskID(esbGSE+"operate_proc_v2", exampleOperate(1)))[exampleKey]
			if e.Code != code || e.Msg != "why <it> & failed" {
				t.Errorf("entry is %d %q, want code %d", e.Code, e.Msg, code)
			}
			var doc struct {
				Value []struct {
					Result string `json:"result"`
					IsAuto *bool  `json:"isAuto"`
				} `json:"value"`
			}
			decodeText(t, e.Content, &doc)
			if len(doc.Value) != 1 || doc.Value[0].Result != "why <it> & failed" || doc.Value[0].IsAuto == nil ||
				!*doc.Value[0].IsAuto {
				t.Errorf("content is %s", e.Content)
			}
		})
	}
}

func TestAnItemThatCannotBeCarriedOutFailsItsKeysOnly(t *testing.T) {
	item := func(change string) string {
		return fmt.Sprintf(`{"proc_operate_req": [%s, %s]}`, exampleOperate(0), change)
	}
	other := func(old, replacement string) string {
		body := strings.ReplaceAll(exampleOperate(0), `"name": "proc-test"`, `"name": "other"`)
		if !strings.Contains(body, old) {
			t.Fatalf("%q is not in the example", old)
		}
		return strings.Replace(body, old, replacement, 1)
	}
	tests := []struct {
		name, body string
		code       int
		text       string
	}{
		{"op_type 5", other(`"op_type": 0`, `"op_type": 5`), 832, "op_type 5 is not an operation"},
		{"op_type 6", other(`"op_type": 0`, `"op_type": "6"`), 832, "op_type 6 is not an operation"},
		{"op_type is a word", other(`"op_type": 0`, `"op_type": "start"`), 832, `op_type "start" is not an operation`},
		{"op_type is huge", other(`"op_type": 0`, `"op_type": 1e300`), 832, "op_type 1e300 is not an operation"},
		{"op_type is negative", other(`"op_type": 0`, `"op_type": -1`), 832, "op_type -1 is not an operation"},
		{
			"no user", other(`"user": "root"`, `"user": ""`), 65535,
			"spec.identity.user is empty: expected an account of the host",
		},
		{
			"user is null", other(`"user": "root"`, `"user": null`), 65535,
			"spec.identity.user is empty: expected an account of the host",
		},
		{"user is an object", other(`"user": "root"`, `"user": {}`), 65535, "spec.identity.user is not a string: {}"},
		{
			"relative pid file", other(`"/data/gsetest/proc-test.pid"`, `"run/x.pid"`), 65535,
			`spec.identity.pid_path "run/x.pid" is not absolute: expected a path that begins with /`,
		},
		{
			"no spec", strings.Replace(other(`"spec"`, `"spec_"`), "x", "x", 1), 65535,
			"spec.identity.proc_name is empty: expected the base name of the executable; spec.identity.setup_path is empty: expected an absolute directory; spec.identity.user is empty: expected an account of the host",
		},
		{
			"unknown kind", other(`"auto_type": 1`, `"auto_type": 3`), 65535,
			"spec.alive_monitor_policy.auto_type is 3: expected 0 (periodic), 1 (resident) or 2 (single run)",
		},
		{
			"time is a word", other(`"stop_check_secs": 5`, `"stop_check_secs": "soon"`), 65535,
			`spec.alive_monitor_policy.stop_check_secs is not an integer: "soon"`,
		},
		{
			"time is huge", other(`"stop_check_secs": 5`, `"stop_check_secs": 99999999999`), 65535,
			"spec.alive_monitor_policy.stop_check_secs is 99999999999: expected at most 3600",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.answer = succeed
			got := w.poll(w.taskID(esbGSE+"operate_proc_multi/", item(tt.body)))
			if good := got[exampleKey]; good.Code != 0 {
				t.Errorf("the other item is %d %q", good.Code, good.Msg)
			}
			if e := got["1:10.0.0.1:gse:other"]; e.Code != tt.code || e.Msg != tt.text {
				t.Errorf("entry is %d %q, want %d %q", e.Code, e.Msg, tt.code, tt.text)
			}
			if len(got) != 2 {
				t.Errorf("keys are %v", slices.Collect(maps.Keys(got)))
			}
		})
	}
}

func TestNamesThatCannotBeServedFailTheirKeys(t *testing.T) {
	for name, word := range map[string]string{
		"control character": `"a\u0000b"`, "too long": `"` + strings.Repeat("x", 256) + `"`, "empty": `""`,
	} {
		for _, op := range []int{0, 2, 4} {
			t.Run(fmt.Sprint(name, " op ", op), func(t *testing.T) {
				w := newWorld(t)
				w.answer = succeed
				got := w.poll(w.taskID(esbGSE+"operate_proc_v2/",
					strings.Replace(exampleOperate(op), `"name": "proc-test"`, `"name": `+word, 1)))
				for key, e := range got {
					if e.Code != 65535 || !strings.HasPrefix(e.Msg, "meta.name") {
						t.Errorf("%q is %d %q", key, e.Code, e.Msg)
					}
				}
				if len(got) != 1 {
					t.Errorf("%d keys", len(got))
				}
			})
		}
	}
}

func TestTheCallersSpellingIsEchoed(t *testing.T) {
	for _, name := range []string{
		"nginx_1", "中文-名.称", "a:b::c", "Ab ", " sql'; DROP TABLE x;--", "../../etc/passwd",
		`q"uo\te`, "<&>",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			word, _ := json.Marshal(name)
			body := strings.Replace(exampleOperate(2), `"name": "proc-test"`, `"name": `+string(word), 1)
			if _, ok := w.poll(w.taskID(esbGSE+"operate_proc_v2/", body))["1:10.0.0.1:gse:"+name]; !ok {
				t.Errorf("the key is not echoed")
			}
		})
	}
}

func TestThirdGenerationKeysAreTheIDsAsSent(t *testing.T) {
	w := newWorld(t)
	body := fmt.Sprintf(`{"meta": {"namespace": "ns", "name": "p"}, "op_type": "2",
		"hosts": [{"ip": "10.9.9.9", "bk_cloud_id": 9}],
		"agent_id_list": ["02000000024201", "1:10.0.0.1", "0:2001:db8::7", "no-such-agent"], "spec": %s}`, exampleSpec)
	got := w.poll(w.taskID(gatewayV2+"operate_proc_v2", body))
	want := []string{"02000000024201:ns:p", "0:2001:db8::7:ns:p", "1:10.0.0.1:ns:p", "no-such-agent:ns:p"}
	if keys := slices.Sorted(maps.Keys(got)); !cmp.Equal(keys, slices.Sorted(slices.Values(want))) {
		t.Errorf("keys are %q, want %q", keys, want)
	}
	targets := w.onlyTask().Requests[0].Targets
	if targets[0].Agent != "UAGENT1" || targets[1].Agent != "UAGENT1" || targets[2].Agent != "UAGENT3" {
		t.Errorf("targets are %+v", targets)
	}
	e := got["no-such-agent:ns:p"]
	if e.Code != 117 || e.Msg != "agent not found or offline" {
		t.Errorf("unknown agent is %d %q", e.Code, e.Msg)
	}
}

func TestMissingWordsRefuseTheCallAndNameTheField(t *testing.T) {
	good := exampleOperate(0)
	host := `[{"ip": "10.0.0.1", "bk_cloud_id": 1}]`
	tests := []struct{ name, body, field string }{
		{"nothing", `{}`, "meta"},
		{
			"meta null",
			strings.Replace(good,
				`"meta": {"namespace": "gse", "name": "proc-test", "labels": {"proc_name": "proc-test"}}`,
				`"meta": null`, 1), "meta",
		},
		{
			"meta a list",
			strings.Replace(good,
				`"meta": {"namespace": "gse", "name": "proc-test", "labels": {"proc_name": "proc-test"}}`, `"meta": []`,
				1), "meta",
		},
		{"namespace null", strings.Replace(good, `"namespace": "gse"`, `"namespace": null`, 1), "meta.namespace"},
		{"namespace a list", strings.Replace(good, `"namespace": "gse"`, `"namespace": ["gse"]`, 1), "meta.namespace"},
		{"name absent", strings.Replace(good, `"name": "proc-test", `, ``, 1), "meta.name"},
		{"op_type absent", strings.Replace(good, `"op_type"`, `"op"`, 1), "op_type"},
		{"op_type null", strings.Replace(good, `"op_type": 0`, `"op_type": null`, 1), "op_type"},
		{"hosts absent", strings.Replace(good, `"hosts"`, `"hosts_"`, 1), "hosts"},
		{"hosts empty", strings.Replace(good, host, `[], "agent_id_list": []`, 1), "hosts"},
		{"hosts null", strings.Replace(good, host, `null, "agent_id_list": null`, 1), "hosts"},
		{"hosts an object", strings.Replace(good, host, `{}`, 1), "hosts"},
		{"host null", strings.Replace(good, host, `[null]`, 1), "hosts[0].ip"},
		{"ip null", strings.Replace(good, `"ip": "10.0.0.1"`, `"ip": null`, 1), "hosts[0].ip"},
		{"ip empty", strings.Replace(good, `"ip": "10.0.0.1"`, `"ip": ""`, 1), "hosts[0].ip"},
		{"cloud null", strings.Replace(good, `"bk_cloud_id": 1`, `"bk_cloud_id": null`, 1), "hosts[0].bk_cloud_id"},
		{
			"cloud a word", strings.Replace(good, `"bk_cloud_id": 1`, `"bk_cloud_id": "default"`, 1),
			"hosts[0].bk_cloud_id",
		},
		{
			"cloud huge", strings.Replace(good, `"bk_cloud_id": 1`, `"bk_cloud_id": 99999999999`, 1),
			"hosts[0].bk_cloud_id",
		},
		{
			"agent id null", strings.Replace(good, `"hosts"`, `"agent_id_list": ["a", null], "hosts"`, 1),
			"agent_id_list[1]",
		},
		{"agent id long", strings.Replace(good, `"hosts"`, `"agent_id_list": ["`+strings.Repeat("a", 65)+`"], "hosts"`,
			1), "agent_id_list[0]"},
		{
			"spec a list", strings.Replace(good, `"warn_report_policy": {"report_id": 0}`, `"warn_report_policy": []`, 1),
			"spec.warn_report_policy",
		},
	}
	for _, tt := range tests {
		if tt.body == good {
			t.Fatalf("%s: the example was not changed", tt.name)
		}
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for path, body := range map[string]string{
				esbGSE + "operate_proc_v2/":      tt.body,
				gatewayV2 + "operate_proc_v2":    tt.body,
				esbGSE + "operate_proc_multi/":   `{"proc_operate_req": [` + good + "," + tt.body + `]}`,
				gatewayV2 + "operate_proc_multi": `{"proc_operate_req": [` + good + "," + tt.body + `]}`,
			} {
				got := w.post(path, body)
				got.refused(t, 200, 1306406)
				if !strings.Contains(*got.Message, tt.field) {
					t.Errorf("%s: message %q does not name %s", path, *got.Message, tt.field)
				}
			}
			if len(w.tasks) != 0 {
				t.Error("a refused call has left a task")
			}
		})
	}
	for _, body := range []string{
		`{}`, `{"proc_operate_req": null}`, `{"proc_operate_req": []}`,
		`{"proc_operate_req": {}}`, `{"proc_operate_req": [null]}`, `{"proc_operate_req": [[]]}`,
	} {
		newWorld(t).post(esbGSE+"operate_proc_multi/", body).refused(t, 200, 1306406)
	}
}

func TestAPollOfATaskThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	task := w.taskID(esbGSE+"operate_proc_v2/", exampleOperate(0))
	for name, body := range map[string]string{
		"unknown": `{"task_id": "GSETASK:S:1:1"}`, "empty": `{"task_id": ""}`, "null": `{"task_id": null}`,
		"absent": `{}`, "list": `{"task_id": []}`,
	} {
		for _, path := range []string{
			esbGSE + "get_proc_operate_result/", esbGSE + "get_proc_operate_result_v2/",
			gatewayV2 + "get_proc_operate_result_v2",
		} {
			t.Run(name, func(t *testing.T) {
				got := w.post(path, body)
				if got.Status != 200 || *got.Result || *got.Code == 0 || *got.Code == 1000115 ||
					string(got.Data) != "null" {
					t.Errorf("answer is %d %s", got.Status, got.Raw)
				}
			})
		}
	}
	t.Run("of another app", func(t *testing.T) {
		w.postAs("other", "other-secret", gatewayV2+"get_proc_operate_result_v2",
			fmt.Sprintf(`{"task_id": %q}`, task)).refused(t, 200, 1000101)
	})
}

func TestTaskIDsCannotBeGuessed(t *testing.T) {
	w := newWorld(t)
	seen := map[string]bool{}
	for range 50 {
		id := w.taskID(esbGSE+"operate_proc_v2/", exampleOperate(2))
		if seen[id] || !strings.HasPrefix(id, "GSETASK:S:20261120120000") || !strings.HasSuffix(id, ":1") ||
			len(id) < 45 {
			t.Fatalf("id is %q", id)
		}
		seen[id] = true
	}
}
