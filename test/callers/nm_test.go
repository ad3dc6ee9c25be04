package callers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// nm is bk-nodeman. Its first client is the ESB's SDK: credentials in the header only, JSON without saying so, and a
// reply is used as it is. Its later one names every host cloud:ip, whether it has an id or not.
type nm struct{ *caller }

func newNM(t *testing.T, s *harness.Server) nm {
	return nm{&caller{t: t, server: s, headers: map[string]string{
		"X-Bkapi-Authorization": authorization(),
		"Content-Type":          "text/plain",
	}}}
}

// call raises for any status but 200, and takes result, code and data out of the reply without asking whether they are
// there.
func (n nm) call(path string, body object) object {
	n.t.Helper()
	status, data := n.send(http.MethodPost, path, body)
	var reply object
	if err := json.Unmarshal(data, &reply); status != http.StatusOK || err != nil {
		n.t.Fatalf("%s: HTTP %d, %v", path, status, err)
	}
	if !reply["result"].(bool) {
		n.t.Fatalf("%s: %v", path, reply["message"].(string))
	}
	return reply
}

const (
	nmGSE   = "/api/c/compapi/v2/gse/"
	nmProc  = "/api/bk-gse/prod/api/v2/proc/"
	nmAgent = "/api/bk-gse/prod/api/v2/cluster/"
)

func (n nm) spec(d daemon, autoType int, policy string) object {
	line := func(script string) string { return d.dir + "/" + script }
	spec := object{
		"identity": d.identity,
		"control": object{
			"start_cmd": d.start, "stop_cmd": "", "restart_cmd": d.start, "reload_cmd": line("None"), "kill_cmd": "",
			"version_cmd": "echo ' 1.2.3'", "health_cmd": "",
		},
		"resource": object{"cpu": 10, "mem": 10},
	}
	spec[policy] = object{
		"auto_type": autoType, "start_check_secs": 2, "stop_check_secs": 5, "start_retries": 4,
		"start_interval": 10,
	}
	return spec
}

// operate sends one operation of the later client and returns the result of its one host, as the agent step reads it: a
// missing key fails the instance, code 0 is expected.
func (n nm) operate(name string, op int, spec object) (code float64, entry object) {
	n.t.Helper()
	task := n.call(nmProc+"operate_proc_multi/", object{"proc_operate_req": []any{object{
		"meta": object{"namespace": "nodeman", "name": name}, "op_type": op, "spec": spec,
		"nodeman_spec":  object{"x": 1},
		"hosts":         []any{object{"ip": "127.0.0.1", "bk_cloud_id": 0, "bk_agent_id": agentID}},
		"agent_id_list": []string{harness.Agent},
	}}})["data"].(object)["task_id"].(string)
	n.eventually("the operation to end", func() bool {
		data := n.call(nmProc+"get_proc_operate_result_v2/", object{"task_id": task})["data"].(object)
		e, ok := data[harness.Agent+":nodeman:"+name].(object)
		if !ok {
			n.t.Fatalf("GSE task has no result: %v", data)
		}
		entry = e
		return e["error_code"] != 115.0
	})
	return entry["error_code"].(float64), entry
}

func TestNM(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--agent-id", agentID)
	n := newNM(t, s)
	d := newDaemon(t, s, "plugin")
	spec := n.spec(d, 1, "alive_monitor_policy")
	const name = "sub_870_host_1_host_exp002"
	for _, step := range []struct {
		what string
		op   int
		want float64
	}{
		{"install: a restart is the first start", 7, 0},
		{"start", 0, 828},
		{"delegate", 3, 0},
		{"push config: reload fails", 8, 65535},
		{"delegate again", 3, 0},
		{"restart", 7, 0},
		{"stop", 1, 0},
		{"stop again", 1, 829},
		{"undelegate", 4, 0},
		{"undelegate again", 4, 0},
	} {
		if code, e := n.operate(name, step.op, spec); code != step.want {
			t.Errorf("%s: %v, want %v", step.what, e, step.want)
		}
	}
	// A single-run plugin that ends within its check time is 836, taken for a success, and then unhosted.
	single := n.spec(newDaemon(t, s, "single"), 2, "alive_monitor_policy")
	single["control"].(object)["start_cmd"] = "true"
	if code, e := n.operate("single", 0, single); code != 836 {
		t.Errorf("single run: %v", e)
	}
	if code, e := n.operate("single", 4, single); code != 0 {
		t.Errorf("unhost of a single run: %v", e)
	}
	for _, path := range []string{nmProc + "get_proc_status_v2/", nmGSE + "get_proc_status_v2/"} {
		rows := n.call(path,
			object{
				"meta":          object{"namespace": "nodeman", "name": name, "labels": object{"proc_name": "oddd"}},
				"agent_id_list": []string{harness.Agent},
			})
		for _, r := range rows["data"].(object)["proc_infos"].([]any) {
			row := r.(object)
			row["host"].(object)["bk_agent_id"] = row["bk_agent_id"].(string)
			states := map[float64]string{0: "UNREGISTER", 1: "RUNNING", 2: "TERMINATED"}
			if states[row["status"].(float64)] == "" || row["bk_agent_id"] != harness.Agent ||
				row["meta"].(object)["name"] != name {
				t.Errorf("row %v", row)
			}
			_ = row["isauto"].(bool)
		}
	}
	for id, alive := range map[string]bool{harness.Agent: true, agentID: true, "0:10.9.9.9": false} {
		row := n.call(nmAgent+"list_agent_state/", object{"agent_id_list": []string{id}})["data"].([]any)[0].(object)
		if (row["status_code"] == 2.0) != alive || row["bk_agent_id"] != id {
			t.Errorf("%s: %v", id, row)
		}
	}
}

// TestNMFirstGeneration: register is an update, results are split into cloud, supplier and ip.
func TestNMFirstGeneration(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	n := newNM(t, s)
	d := newDaemon(t, s, "v1")
	hosts := []any{object{"ip": "127.0.0.1", "bk_cloud_id": 0, "bk_supplier_id": 0}}
	meta := object{"namespace": "nodeman", "name": "v1"}
	split := func(data any) (code float64) {
		t.Helper()
		for key, e := range data.(object) {
			parts := strings.SplitN(key, ":", 4)
			if len(parts) != 4 || parts[0] != "0" || parts[1] != "0" || parts[2] != "127.0.0.1" ||
				parts[3] != "nodeman:v1" {
				t.Fatalf("key %q", key)
			}
			code = e.(object)["error_code"].(float64)
		}
		return code
	}
	operate := func(op int) (code float64) {
		t.Helper()
		task := n.call(nmGSE+"operate_proc/",
			object{"meta": meta, "hosts": hosts, "op_type": op})["data"].(object)["task_id"]
		n.eventually("the operation to end", func() bool {
			code = split(n.call(nmGSE+"get_proc_operate_result/", object{"task_id": task})["data"])
			return code != 115
		})
		return code
	}
	if code := operate(0); code != 65535 {
		t.Errorf("before it is registered a start is %v", code)
	}
	update := object{"meta": meta, "hosts": hosts, "spec": n.spec(d, 1, "monitor_policy")}
	for range 2 {
		if code := split(n.call(nmGSE+"update_proc_info/", update)["data"]); code != 0 {
			t.Errorf("update: %v", code)
		}
	}
	if code := split(n.call(nmGSE+"register_proc_info/", update)["data"]); code != 850 {
		t.Errorf("register: %v", code)
	}
	for _, step := range []struct {
		op   int
		want float64
	}{{2, 0}, {0, 0}, {0, 828}, {7, 0}, {1, 0}, {1, 829}, {3, 0}, {4, 0}} {
		if code := operate(step.op); code != step.want {
			t.Errorf("op %d: %v, want %v", step.op, code, step.want)
		}
	}
	operate(0)
	operate(2)
	rows := func() object {
		list := n.call(nmGSE+"get_proc_status/",
			object{
				"meta":  object{"namespace": "nodeman", "name": "v1", "labels": object{"proc_name": "oddd"}},
				"hosts": hosts,
			})
		return list["data"].(object)["proc_infos"].([]any)[0].(object)
	}
	n.eventually("the version to be shown", func() bool { return rows()["version"] == "1.2.3" })
	operate(1)
	for _, want := range []float64{0, 829} {
		if code := split(n.call(nmGSE+"unregister_proc_info/",
			object{"meta": meta, "hosts": hosts})["data"]); code != want {
			t.Errorf("unregister: %v, want %v", code, want)
		}
	}
}

// TestNMUpgrade: a host gets an id, and the rollback takes it back; either way everything that is known of it stays.
func TestNMUpgrade(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	n := newNM(t, s)
	spec := n.spec(newDaemon(t, s, "upgraded"), 1, "alive_monitor_policy")
	if code, e := n.operate("upgraded", 0, spec); code != 0 {
		t.Fatalf("start: %v", e)
	}
	upgrade := func(id string) {
		t.Helper()
		data := n.call(nmProc+"upgrade_to_agent_id/",
			object{"hosts": []any{object{"ip": "127.0.0.1", "bk_cloud_id": 0, "bk_agent_id": id}}})["data"].(object)
		if done := data["success"].([]any); len(done) != 1 || done[0] != harness.Agent {
			t.Fatalf("upgrade to %s: %v", id, data)
		}
	}
	running := func(id string, want bool) {
		t.Helper()
		data := n.call(nmProc+"get_proc_status_v2/", object{
			"meta":          object{"namespace": "nodeman", "name": "upgraded"},
			"agent_id_list": []string{id},
		})["data"].(object)
		row := data["proc_infos"].([]any)[0].(object)
		if (row["status"] == 1.0) != want || row["bk_agent_id"] != id || want && !row["isauto"].(bool) {
			t.Errorf("%s: %v", id, row)
		}
	}
	running(agentID, false)
	upgrade(agentID)
	running(agentID, true)
	running(harness.Agent, true)
	if code, e := n.operate("upgraded", 7, spec); code != 0 {
		t.Errorf("restart after the upgrade: %v", e)
	}
	// The agent introduces itself again, to a server that was started again.
	s.Kill()
	s.Run()
	running(agentID, true)
	running(harness.Agent, true)
	upgrade(harness.Agent)
	running(agentID, false)
	running(harness.Agent, true)
	if code, e := n.operate("upgraded", 1, spec); code != 0 {
		t.Errorf("stop: %v", e)
	}
}
