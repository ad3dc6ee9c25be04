package callers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// nmgr is bk-nodemgr: single operations through operate_proc_v2, questions to very many agents at once, and content
// that is decoded for every key as soon as none is at 115.
type nmgr struct{ *caller }

func (n nmgr) call(path string, body any, into any) {
	n.t.Helper()
	status, data := n.send(http.MethodPost, path, body)
	var reply struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(data, &reply); status != http.StatusOK || err != nil || reply.Code != 0 {
		n.t.Fatalf("%s: HTTP %d, %v, code %d: %s", path, status, err, reply.Code, reply.Message)
	}
	if err := json.Unmarshal(reply.Data, into); err != nil {
		n.t.Fatalf("%s: %v", path, err)
	}
}

type nmgrEntry struct {
	Code    int    `json:"error_code"`
	Msg     string `json:"error_msg"`
	Content string `json:"content"`
}

// poll returns the entries by agent id, which is what stands before the first colon of a key.
func (n nmgr) poll(task string) map[string]nmgrEntry {
	n.t.Helper()
	var data map[string]nmgrEntry
	n.eventually("the task to end", func() bool {
		data = nil
		n.call("/api/v2/proc/get_proc_operate_result_v2", object{"task_id": task}, &data)
		for _, e := range data {
			if e.Code == 115 {
				return false
			}
		}
		return true
	})
	byAgent := map[string]nmgrEntry{}
	for key, e := range data {
		agent, _, _ := strings.Cut(key, ":")
		byAgent[agent] = e
	}
	return byAgent
}

func (n nmgr) submit(path string, body any) string {
	n.t.Helper()
	var data struct {
		Task string `json:"task_id"`
	}
	n.call(path, body, &data)
	return data.Task
}

func TestNMGR(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--agent-id", agentID)
	n := nmgr{&caller{t: t, server: s, headers: map[string]string{
		"X-Bkapi-Authorization": authorization(),
		"X-Bk-Tenant-Id":        "system", "Content-Type": "application/json",
	}}}
	d := newDaemon(t, s, "nmgr")
	for _, step := range []struct {
		op, code int
		result   string
		hosted   bool
	}{
		{0, 0, "success", true},
		{0, 828, "", true},
		{7, 0, "success", true},
		{1, 0, "success", false},
		{1, 829, "", false},
	} {
		task := n.submit("/api/v2/proc/operate_proc_v2", object{
			"meta":    object{"namespace": "bk-nodemgr", "name": "plugin", "labels": object{"proc_name": "oddd"}},
			"op_type": step.op, "agent_id_list": []string{agentID, "gone"},
			"spec": object{
				"identity": d.identity, "control": object{"start_cmd": d.start, "stop_cmd": "", "restart_cmd": ""},
				"resource":       object{"cpu": 0, "mem": 0},
				"monitor_policy": object{"auto_type": 1, "start_check_secs": 1},
			},
		})
		entries := n.poll(task)
		if len(entries) != 2 || entries["gone"].Code != 117 || entries[agentID].Code != step.code {
			t.Fatalf("op %d: %v", step.op, entries)
		}
		for agent, e := range entries {
			var content struct {
				Value []struct {
					AgentID string `json:"bk_agent_id"`
					Result  string `json:"result"`
					IsAuto  bool   `json:"isAuto"`
				} `json:"value"`
			}
			if err := json.Unmarshal([]byte(e.Content), &content); err != nil || len(content.Value) != 1 ||
				content.Value[0].AgentID != agent {
				t.Fatalf("op %d: %s: %q: %v", step.op, agent, e.Content, err)
			}
			if v := content.Value[0]; agent == agentID && (v.IsAuto != step.hosted || step.result != "" &&
				v.Result != step.result) {
				t.Errorf("op %d: %+v", step.op, v)
			}
		}
	}
}

// TestNMGRManyAgents asks 30,000 agents in one request: the local one, and many that never joined.
func TestNMGRManyAgents(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--agent-id", agentID)
	n := nmgr{&caller{t: t, server: s, headers: map[string]string{"X-Bkapi-Authorization": authorization()}}}
	ids := make([]string, 30000)
	for i := range ids {
		ids[i] = fmt.Sprintf("0200000002420%023d", i)
	}
	ids[777] = agentID
	entries := n.poll(n.submit("/api/v2/proc/operate_proc_multi", object{"proc_operate_req": []any{object{
		"meta": object{"namespace": "bk-nodemgr", "name": "plugin"}, "op_type": 2, "agent_id_list": ids,
		"spec": object{
			"identity": object{"proc_name": "oddd", "setup_path": "", "pid_path": "", "user": ""},
			"control":  object{"start_cmd": ""}, "resource": object{"cpu": 0, "mem": 0},
			"monitor_policy": object{"auto_type": 0, "start_check_secs": 0, "op_timeout": 0},
		},
	}}}))
	if len(entries) != len(ids) || entries[agentID].Code != 0 {
		t.Fatalf("%d entries, the local agent's is %+v", len(entries), entries[agentID])
	}
	for agent, e := range entries {
		var content struct {
			Process []struct {
				Instance []struct {
					ProcessName string `json:"processName"`
					PID         int    `json:"pid"`
				} `json:"instance"`
			} `json:"process"`
		}
		if err := json.Unmarshal([]byte(e.Content), &content); err != nil || len(content.Process) != 1 ||
			len(content.Process[0].Instance) != 1 ||
			content.Process[0].Instance[0].ProcessName != "plugin" || content.Process[0].Instance[0].PID != -1 {
			t.Fatalf("%s: %q: %v", agent, e.Content, err)
		}
	}
	for start := 0; start < 3000; start += 1000 {
		var rows []struct {
			Code          int    `json:"code"`
			AgentID       string `json:"bk_agent_id"`
			StatusCode    int    `json:"status_code"`
			ReportTime    int64  `json:"report_time"`
			ConnCycleTime string `json:"conn_cycle_time"`
			CPUs          int    `json:"cpu_num"`
		}
		n.call("/api/v2/cluster/list_agent_info", object{"agent_id_list": ids[start : start+1000]}, &rows)
		if len(rows) != 1000 {
			t.Fatalf("%d rows", len(rows))
		}
		for i, r := range rows {
			if r.AgentID != ids[start+i] || (r.StatusCode == 2) != (r.AgentID == agentID) || r.AgentID == agentID &&
				(r.CPUs < 1 || r.ConnCycleTime == "") {
				t.Fatalf("row %+v", r)
			}
		}
	}
}
