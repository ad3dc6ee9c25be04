package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// TestWhatBreaksCallers holds what real callers were seen to rely on, one subtest for each; the numbers are those of the
// list of such habits that the compatibility table keeps.
func TestWhatBreaksCallers(t *testing.T) {
	multi := func(items ...string) string { return `{"proc_operate_req": [` + strings.Join(items, ",") + `]}` }
	item := func(name string, op int, agents string) string {
		return fmt.Sprintf(`{"meta": {"namespace": "ns", "name": %q}, "op_type": %d, "agent_id_list": %s, "spec": %s}`, name, op, agents, exampleSpec)
	}
	const here = `["0:10.0.0.1"]`

	t.Run("01 all keys in every reply, none beside them", func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(r store.Request, _ store.Target) *process.Outcome {
			if r.Process.Name == "slow" {
				return nil
			}
			return &process.Outcome{Text: process.Success}
		}
		task := w.taskID(gatewayV2+"operate_proc_multi", multi(item("fast", 0, here), item("slow", 0, `["0:10.0.0.1", "gone"]`)))
		for range 2 {
			got := w.poll(task)
			if len(got) != 3 || got["0:10.0.0.1:ns:fast"].Code != 0 || got["0:10.0.0.1:ns:slow"].Code != 115 || got["gone:ns:slow"].Code != 117 {
				t.Fatalf("poll is %v", got)
			}
		}
	})
	t.Run("02 content is a string for GSE and an object for JOB", func(t *testing.T) {
		w := newWorld(t)
		w.answer = succeed
		for _, e := range w.poll(w.taskID(esbGSE+"operate_proc_v2/", exampleOperate(0))) {
			if e.Content[0] != '"' {
				t.Errorf("GSE content is %s", e.Content)
			}
		}
		_, entries := w.jobPoll(w.taskID(esbJob+"operate_process/", documentedOperate))
		for _, e := range entries {
			if e.Content[0] != '{' {
				t.Errorf("JOB content is %s", e.Content)
			}
		}
	})
	t.Run("03 one value, one process with an instance, for failures too", func(t *testing.T) {
		w := newWorld(t)
		for op := range 10 {
			for _, e := range w.poll(w.taskID(gatewayV2+"operate_proc_v2", item("p", op, `["gone"]`))) {
				var doc struct {
					Value   []any `json:"value"`
					Process []struct {
						Instance []any `json:"instance"`
					} `json:"process"`
				}
				decodeText(t, e.Content, &doc)
				query := len(doc.Process) == 1 && len(doc.Process[0].Instance) == 1 && doc.Value == nil
				value := len(doc.Value) == 1 && doc.Process == nil
				if e.Code == 0 || query != (op == 2) || value == (op == 2) {
					t.Errorf("op %d: %d %s", op, e.Code, e.Content)
				}
			}
		}
	})
	t.Run("04 and 05 pid is -1 when stopped and isAuto a boolean", func(t *testing.T) {
		for name, s := range map[string]*process.Status{"stopped": {Known: true}, "unknown": {}, "failed": nil} {
			w := newWorld(t)
			w.answer = func(store.Request, store.Target) *process.Outcome {
				return &process.Outcome{Text: process.Success, Status: s, Hosted: true}
			}
			for _, e := range w.poll(w.taskID(gatewayV2+"operate_proc_v2", item("p", 2, here))) {
				var doc struct {
					Process []struct {
						Instance []struct {
							PID    int   `json:"pid"`
							IsAuto *bool `json:"isAuto"`
						} `json:"instance"`
					} `json:"process"`
				}
				decodeText(t, e.Content, &doc)
				if i := doc.Process[0].Instance[0]; i.PID != -1 || i.IsAuto == nil || !*i.IsAuto {
					t.Errorf("%s: instance is %s", name, e.Content)
				}
			}
		}
	})
	t.Run("06 processName is meta.name", func(t *testing.T) {
		w := newWorld(t)
		for _, e := range w.poll(w.taskID(gatewayV2+"operate_proc_v2", item("nginx_1", 2, `["gone"]`))) {
			if !strings.Contains(string(e.Content), `\"processName\":\"nginx_1\"`) || !strings.Contains(string(e.Content), `\"procname\":\"proc-test\"`) {
				t.Errorf("content is %s", e.Content)
			}
		}
	})
	t.Run("07 logical failures are HTTP 200 with an integer code", func(t *testing.T) {
		w := newWorld(t)
		for _, path := range endpoints() {
			if !strings.Contains(path, "compapi") {
				continue
			}
			if got := w.post(path, `{"meta": 7}`); got.Status != 200 || *got.Result || got.Code == nil || *got.Code == 0 {
				t.Errorf("%s answers %d %s", path, got.Status, got.Raw)
			}
		}
	})
	t.Run("08 an unknown or empty task is an error with null data", func(t *testing.T) {
		w := newWorld(t)
		for _, id := range []string{"", "GSETASK:S:0:0"} {
			if got := w.post(gatewayV2+"get_proc_operate_result_v2", fmt.Sprintf(`{"task_id": %q}`, id)); *got.Code == 0 || string(got.Data) != "null" {
				t.Errorf("%q is answered %s", id, got.Raw)
			}
		}
	})
	t.Run("13 a query needs next to no spec", func(t *testing.T) {
		w := newWorld(t)
		for _, spec := range []string{
			`null`, `{}`, `{"identity": {"proc_name": "x", "setup_path": "", "pid_path": "", "user": ""}, "resource": {"cpu": 0, "mem": 0}, "monitor_policy": {"auto_type": 0, "op_timeout": null, "start_check_secs": null}}`,
			`{"identity": null, "control": null, "resource": null, "monitor_policy": null, "alive_monitor_policy": null, "warn_report_policy": null, "configmap": null}`,
			`{"identity": {"user": []}, "monitor_policy": {"auto_type": "?", "op_timeout": {}}}`,
		} {
			for _, op := range []int{2, 4} {
				body := fmt.Sprintf(`{"meta": {"namespace": "ns", "name": "p"}, "op_type": %d, "agent_id_list": %s, "spec": %s}`, op, here, spec)
				for _, e := range w.poll(w.taskID(gatewayV2+"operate_proc_v2", body)) {
					if e.Code != 115 {
						t.Errorf("op %d with spec %s is answered %d %s", op, spec, e.Code, e.Msg)
					}
				}
			}
		}
	})
	t.Run("14 and 19 large calls are answered quickly", func(t *testing.T) {
		w := newWorld(t)
		ids := make([]string, 30000)
		for i := range ids {
			ids[i] = fmt.Sprintf(`"0200000002420%023d"`, i)
		}
		items := make([]string, 1000)
		for i := range items {
			items[i] = item(fmt.Sprintf("p_%d", i), 2, here)
		}
		list := "[" + strings.Join(ids, ",") + "]"
		began := time.Now()
		if got := w.poll(w.taskID(gatewayV2+"operate_proc_multi", multi(item("p", 2, list)))); len(got) != 30000 {
			t.Errorf("%d keys", len(got))
		}
		if got := w.poll(w.taskID(gatewayV2+"operate_proc_multi", multi(items...))); len(got) != 1000 {
			t.Errorf("%d keys", len(got))
		}
		if rows, _ := w.rows(gatewayV2+"get_proc_status_v2", `{"meta": {"namespace": "ns", "name": "p"}, "agent_id_list": `+list+`}`); len(rows) != 30000 {
			t.Errorf("%d rows", len(rows))
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("15 an unknown agent is 117 at once and hurts no other key", func(t *testing.T) {
		w := newWorld(t)
		w.answer = succeed
		got := w.poll(w.taskID(gatewayV2+"operate_proc_v2", item("p", 0, `["gone", "0:10.0.0.1"]`)))
		if got["gone:ns:p"].Code != 117 || got["0:10.0.0.1:ns:p"].Code != 0 {
			t.Errorf("poll is %v", got)
		}
	})
	t.Run("17 ids are echoed verbatim, whatever their form", func(t *testing.T) {
		w := newWorld(t)
		got := w.poll(w.taskID(gatewayV2+"operate_proc_v2", item("p", 2, `["02000000024201", "1:10.0.0.1", "01:10.0.0.1"]`)))
		for _, key := range []string{"02000000024201:ns:p", "1:10.0.0.1:ns:p", "01:10.0.0.1:ns:p"} {
			if _, ok := got[key]; !ok {
				t.Errorf("%s is missing in %v", key, got)
			}
		}
	})
	t.Run("18 unknown keys and labels of any type", func(t *testing.T) {
		w := newWorld(t)
		for _, labels := range []string{`{"bk_process_id": 77}`, `null`, `[]`, `"x"`, `7`, `{"a": {"b": [1, null]}}`} {
			w.taskID(esbGSE+"operate_proc_multi/", `{"no_request": true, "_request": null, "bk_supplier_account": "0", "nodeman_spec": {}, "proc_operate_req": [
				{"meta": {"namespace": "ns", "name": "p", "labels": `+labels+`, "x": 1}, "op_type": 0, "hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "x"}],
				"spec": {"identity": {"index_key": "", "proc_name": "x", "setup_path": "/", "pid_path": "/p", "user": "root"}, "unknown": []}}]}`)
		}
	})
	t.Run("22 keys of the first generation have five parts", func(t *testing.T) {
		w := newWorld(t)
		w.answer = succeed
		var got map[string]json.RawMessage
		w.post(esbGSE+"update_proc_info/", strings.Replace(documentedRegister, `"bk_supplier_id": 2`, `"bk_supplier_id": null`, 1)).ok(t, &got)
		if _, ok := got["1:0:10.0.0.1:gse:proc-test"]; !ok || len(got) != 1 {
			t.Errorf("keys are %v", got)
		}
	})
}
