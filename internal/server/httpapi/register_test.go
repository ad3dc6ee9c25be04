package httpapi_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"

	"github.com/google/go-cmp/cmp"
)

// documentedRegister is the example of the document, whose host has a supplier.
const documentedRegister = `{
	"meta": {"namespace": "gse", "name": "proc-test", "labels": {"proc_name": "proc-test"}},
	"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1, "bk_supplier_id": 2}],
	"spec": {
		"identity": {"index_key": "", "proc_name": "proc-test", "setup_path": "/data/gsetest/", "pid_path": "/data/gsetest/proc-test.pid",
			"config_path": "/data/gsetest/proc-test.conf", "log_path": "/data/gsetest/logs/", "user": "root"},
		"control": {"start_cmd": "./start.sh", "stop_cmd": "./stop.sh", "restart_cmd": "./restart.sh", "reload_cmd": "./reload.sh",
			"kill_cmd": "./kill.sh", "version_cmd": "./version.sh", "health_cmd": "./health.sh"},
		"resource": {"cpu": 10.0, "mem": 10.0, "fd": 10000, "disk": 100, "net": 0},
		"monitor_policy": {"auto_type": 1, "start_check_secs": 5, "stop_check_secs": 5, "start_retries": 3, "start_interval": 20, "crotab_rule": ""},
		"warn_report_policy": {"report_id": 0},
		"configmap": [{"path": "", "md5": ""}]}}`

func TestRegistrationCallsWaitForTheirResult(t *testing.T) {
	for name, op := range map[string]process.Op{
		"register_proc_info": process.Register, "update_proc_info": process.Update,
		"unregister_proc_info": process.Unregister,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.waited = func(context.Context) error {
				id := w.onlyTask().ID
				w.outcomes[id+"1:2:10.0.0.1:gse:proc-test"] = process.Outcome{Text: process.Success}
				return nil
			}
			var got map[string]entry
			w.post(esbGSE+name+"/", documentedRegister).ok(t, &got)
			want := map[string]entry{"1:2:10.0.0.1:gse:proc-test": {
				Code: 0, Msg: "success",
				Content: json.RawMessage(`""`),
			}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("data differs (-want +got):\n%s", diff)
			}
			request := w.onlyTask().Requests[0]
			if request.Op != op || request.Targets[0].Agent != "UAGENT1" || request.Spec.Shares().CPU != 10 ||
				request.Spec.Compat.Resource.FD != 10000 {
				t.Errorf("request is %+v", request)
			}
		})
	}
}

func TestRegistrationFailures(t *testing.T) {
	w := newWorld(t)
	w.answer = func(store.Request, store.Target) *process.Outcome {
		return &process.Outcome{
			Fault: process.AlreadyRegistered,
			Text:  "Fail to register, for the process info already exists.",
		}
	}
	var got map[string]entry
	body := strings.Replace(documentedRegister, `"hosts": [`,
		`"hosts": [{"ip": "10.9.9.9", "bk_cloud_id": "1", "bk_supplier_id": "3"}, {"ip": "10.0.0.1", "bk_cloud_id": 0}, `, 1)
	w.post(esbGSE+"register_proc_info/", body).ok(t, &got)
	codes := map[string]int{}
	for key, e := range got {
		codes[key] = e.Code
		if string(e.Content) != `""` {
			t.Errorf("%s: content is %s", key, e.Content)
		}
	}
	want := map[string]int{
		"1:2:10.0.0.1:gse:proc-test": 850, "1:3:10.9.9.9:gse:proc-test": 117, "0:0:10.0.0.1:gse:proc-test": 850,
	}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("codes differ (-want +got):\n%s", diff)
	}

	t.Run("a bad spec is the key's failure", func(t *testing.T) {
		var got map[string]entry
		w.post(esbGSE+"update_proc_info/", strings.Replace(documentedRegister, `"root"`, `""`, 1)).ok(t, &got)
		if e := got["1:2:10.0.0.1:gse:proc-test"]; e.Code != 65535 || !strings.Contains(e.Msg, "user") {
			t.Errorf("entry is %+v", e)
		}
	})
	t.Run("unregister needs no spec", func(t *testing.T) {
		var got map[string]entry
		w.answer = succeed
		w.post(esbGSE+"unregister_proc_info/",
			`{"meta": {"namespace": "gse", "name": "x"}, "hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1}], "spec": null}`).ok(t, &got)
		if e := got["1:0:10.0.0.1:gse:x"]; e.Code != 0 {
			t.Errorf("data is %+v", got)
		}
	})
	t.Run("missing words refuse the call", func(t *testing.T) {
		for _, body := range []string{
			`{}`, `{"meta": {"namespace": "a", "name": "b"}}`,
			`{"meta": {"name": "b"}, "hosts": [{"ip": "1.1.1.1", "bk_cloud_id": 0}]}`,
		} {
			w.post(esbGSE+"register_proc_info/", body).refused(t, 200, 1306406)
		}
		w.post(esbGSE+"register_proc_info/", strings.Replace(documentedRegister, `"bk_supplier_id": 2`,
			`"bk_supplier_id": "two"`, 1)).refused(t, 200, 1306406)
	})
}

// late has the wait for a task end as a call's own wait does when its time is up.
func (w *world) late() {
	w.waited = func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			w.t.Error("the wait has no bound")
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// TestARegistrationThatIsNotDoneIsAskedAgain: 115 tells the caller to ask again, and then he gets the outcome of what
// he asked first.
func TestARegistrationThatIsNotDoneIsAskedAgain(t *testing.T) {
	const key = "1:2:10.0.0.1:gse:proc-test"
	for _, name := range []string{"register_proc_info/", "update_proc_info/", "unregister_proc_info/"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			call := func(body string) entry {
				var got map[string]entry
				w.post(esbGSE+name, body).ok(t, &got)
				return got[key]
			}
			handling := entry{Code: 115, Msg: "handling", Content: json.RawMessage(`""`)}
			w.late()
			for range 3 {
				if diff := cmp.Diff(handling, call(documentedRegister)); diff != "" {
					t.Errorf("entry differs (-want +got):\n%s", diff)
				}
			}
			first := w.onlyTask()
			w.outcomes[first.ID+key] = process.Outcome{Text: process.Success}
			w.waited = func(context.Context) error { return nil }
			if e := call(documentedRegister); e.Code != 0 || w.onlyTask() != first {
				t.Errorf("the repetition is answered %+v", e)
			}
			if row := w.lastAudit(); !row.Allowed || row.Action+"/" != name || row.Targets != 1 ||
				!strings.Contains(string(row.Detail), first.ID) {
				t.Errorf("recorded is %+v", row)
			}
			// It has been told: the next call is one of its own.
			w.answer = func(store.Request, store.Target) *process.Outcome {
				return &process.Outcome{Fault: process.AlreadyRegistered, Text: "there"}
			}
			if e := call(documentedRegister); e.Code != 850 || len(w.tasks) != 2 {
				t.Errorf("after that it is answered %+v; there are %d tasks", e, len(w.tasks))
			}
		})
	}
}

// TestWhatIsNoRepetition: another call, another caller, and one who comes back too late.
func TestWhatIsNoRepetition(t *testing.T) {
	const path = esbGSE + "register_proc_info/"
	for name, second := range map[string]func(w *world){
		"another spec": func(w *world) {
			w.post(path, strings.Replace(documentedRegister, "./start.sh", "./begin.sh", 1))
		},
		"another call": func(w *world) { w.post(esbGSE+"unregister_proc_info/", documentedRegister) },
		"another host": func(w *world) {
			w.post(path, strings.Replace(documentedRegister, `"bk_supplier_id": 2`, `"bk_supplier_id": 3`, 1))
		},
		"another app": func(w *world) { w.postAs("other", "other-secret", path, documentedRegister) },
		"much later":  func(w *world) { w.now = w.now.Add(3 * time.Minute); w.post(path, documentedRegister) },
		"a pruned task": func(w *world) {
			clear(w.tasks)
			w.tasks["x"] = &store.Task{}
			w.post(path, documentedRegister)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.late()
				w.post(path, documentedRegister)
				w.waited, w.answer = func(context.Context) error { return nil }, succeed
				if second(w); len(w.tasks) != 2 {
					t.Errorf("there are %d tasks", len(w.tasks))
				}
			})
		})
	}
}

// TestTheNextCallAboutAProcessEndsTheRepetition: after register, unregister the second register is one.
func TestTheNextCallAboutAProcessEndsTheRepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.late()
		w.post(esbGSE+"register_proc_info/", documentedRegister)
		w.waited, w.answer = func(context.Context) error { return nil }, succeed
		w.post(esbGSE+"unregister_proc_info/", documentedRegister)
		w.post(esbGSE+"register_proc_info/", documentedRegister)
		if len(w.tasks) != 3 {
			t.Errorf("there are %d tasks", len(w.tasks))
		}
	})
}

func TestMonitorPolicyIsPreferredByRegistration(t *testing.T) {
	both := strings.Replace(documentedRegister, `"warn_report_policy"`,
		`"alive_monitor_policy": {"auto_type": 2, "op_timeout": 7}, "warn_report_policy"`, 1)
	w := newWorld(t)
	w.answer = succeed
	w.post(esbGSE+"register_proc_info/", both)
	if p := w.onlyTask().Requests[0].Spec; p.Kind() != process.Resident || p.Compat.OpTimeout != 60 {
		t.Errorf("registration took %+v", p)
	}
	w = newWorld(t)
	w.taskID(esbGSE+"operate_proc_v2/", `{"op_type": 0, `+both[1:])
	if p := w.onlyTask().Requests[0].Spec; p.Kind() != process.SingleRun || p.Compat.OpTimeout != 7 {
		t.Errorf("operate took %+v", p)
	}
}
