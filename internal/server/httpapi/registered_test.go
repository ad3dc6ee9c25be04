package httpapi_test

import (
	"errors"
	"fmt"
	"testing"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/spec"
)

// registeredCall is operate_proc on three hosts: two that have told of the process, each with a spec of its own, and
// one that has not.
func registeredCall(op int, spec string) string {
	return fmt.Sprintf(
		`{"meta": {"namespace": "gse", "name": "proc-test"}, "op_type": %d, "hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1, "bk_supplier_id": 2},
		{"ip": "10.0.0.1", "bk_cloud_id": 0}, {"ip": "2001:db8::7", "bk_cloud_id": 0}]%s}`, op, spec)
}

func TestOperationsOnTheRegisteredSpec(t *testing.T) {
	w := newWorld(t)
	w.answer = succeed
	for agent, name := range map[string]string{"UAGENT1": "one", "UAGENT2": "two"} {
		w.observed = append(w.observed, store.Observed{
			Agent: agent, Process: process.ID{Namespace: "gse", Name: "proc-test"},
			Spec: &process.Spec{ProcessName: name, Directory: "/srv/" + name, Compat: &spec.Compat{}},
		})
	}
	task := w.taskID(esbGSE+"operate_proc/", registeredCall(0, ""))
	poll := w.poll(task)
	for key, name := range map[string]string{
		"1:2:10.0.0.1:gse:proc-test": "one", "0:0:10.0.0.1:gse:proc-test": "two",
		"0:0:2001:db8::7:gse:proc-test": "",
	} {
		var doc struct {
			Value []struct {
				Asked    string `json:"bk_agent_id"`
				ProcName string `json:"procName"`
				Path     string `json:"setupPath"`
			} `json:"value"`
		}
		decodeText(t, poll[key].Content, &doc)
		if v := doc.Value[0]; v.ProcName != name || (v.Path == "/srv/"+name) != (name != "") {
			t.Errorf("%s: %+v, want %q", key, v, name)
		}
	}
	for _, r := range w.tasks[task].Requests {
		if r.Spec != nil {
			t.Errorf("the agent is sent %+v", r.Spec)
		}
	}
}

func TestASpecThatIsBroughtAlongCounts(t *testing.T) {
	w := newWorld(t)
	w.taskID("/procapi/v1/proc/operate", registeredCall(7, `, "spec": `+exampleSpec))
	if r := w.onlyTask().Requests; len(r) != 1 || r[0].Spec == nil || r[0].Spec.Compat.RestartCommand != "./restart.sh" {
		t.Errorf("requests %+v", r)
	}
	w = newWorld(t)
	poll := w.poll(w.taskID(esbGSE+"operate_proc/", registeredCall(0, `, "spec": {"identity": {"proc_name": "a/b"}}`)))
	for key, e := range poll {
		if e.Code != 65535 {
			t.Errorf("%s: %+v", key, e)
		}
	}
}

func TestRegisteredCallsThatCannotBe(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{
		`{}`, `{"meta": {"namespace": "n", "name": "p"}, "op_type": 0}`,
		`{"meta": {"namespace": "n", "name": "p"}, "hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0}]}`,
	} {
		w.post(esbGSE+"operate_proc/", body).refused(t, 200, 1306406)
	}
	for _, e := range w.poll(w.taskID(esbGSE+"operate_proc/", registeredCall(5, ""))) {
		if e.Code != 832 {
			t.Errorf("op 5: %+v", e)
		}
	}
	w.storeErr = errors.New("disk read error")
	w.post(esbGSE+"operate_proc/", registeredCall(0, "")).refused(t, 200, 1306201)
}

// TestTheStoredSpecCountsAsNone: without the right to start a spec is let in only where it is the stored one, and then
// the agent goes by what it has; a question goes without a spec.
func TestTheStoredSpecCountsAsNone(t *testing.T) {
	id := process.ID{Namespace: "ns", Name: "p"}
	for _, op := range []int{1, 2} {
		w := newWorld(t)
		w.taskID(esbGSE+"operate_proc/", operation(op, "ns", `["0:10.0.0.1"]`))
		w.observed = []store.Observed{{Agent: "UAGENT2", Process: id, Spec: w.onlyTask().Requests[0].Spec}}
		clear(w.tasks)
		w.grant("stop,query on ns")
		var data map[string]string
		w.limited(esbGSE+"operate_proc/", operation(op, "ns", `["0:10.0.0.1"]`)).ok(t, &data)
		r := w.onlyTask().Requests
		if len(r) != 1 || r[0].Spec != nil || r[0].ReportedSpec == nil || len(r[0].Targets) != 1 {
			t.Errorf("operation %d is sent as %+v", op, r)
		}
		clear(w.tasks)
		w.observed[0].Spec = &process.Spec{ProcessName: "other", Compat: &spec.Compat{}}
		got := w.limited(esbGSE+"operate_proc/", operation(op, "ns", `["0:10.0.0.1"]`))
		if refused := *got.Code == 1306403; refused != (op == 1) {
			t.Errorf("operation %d with another spec: %s", op, got.Raw)
		}
	}
}
