package callers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"

	"drover/internal/test/harness"
)

// jobUser is whoever calls JOB's process APIs through the ESB: credentials in the body, polls by GET. JOB itself asks
// for the state of agents in batches of 5,000.
type jobUser struct{ *caller }

func (j jobUser) call(method, path string, body any, into any) {
	j.t.Helper()
	status, data := j.send(method, path, body)
	var reply struct {
		Result     bool            `json:"result"`
		Code       int             `json:"code"`
		Message    *string         `json:"message"`
		Data       json.RawMessage `json:"data"`
		RequestID  string          `json:"request_id"`
		Permission json.RawMessage `json:"permission"`
	}
	if err := json.Unmarshal(data, &reply); status != http.StatusOK || err != nil || !reply.Result || reply.Code != 0 ||
		reply.Message == nil {
		j.t.Fatalf("%s: HTTP %d, %v: %.500s", path, status, err, data)
	}
	if err := json.Unmarshal(reply.Data, into); err != nil {
		j.t.Fatalf("%s: %v", path, err)
	}
}

func TestJOB(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	j := jobUser{&caller{t: t, server: s, inBody: object{
		"bk_app_code":   harness.AppCode,
		"bk_app_secret": harness.AppSecret, "bk_username": "admin",
	}}}
	dir := harness.Workdir(t)
	start := fmt.Sprintf("#!/bin/sh\nexec %s plain -pidfile %s/oddd.pid -runlog %s/run.log -siglog %s/sig.log\n",
		binaries.oddd, dir, dir, dir)
	stop := "#!/bin/sh\nkill $(cat oddd.pid)\n"
	for name, text := range map[string]string{
		"start.sh": start, "stop.sh": stop, "restart.sh": start,
		"reload.sh": "#!/bin/sh\n",
	} {
		if err := harness.WriteProgram(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	ips := []any{object{"bk_cloud_id": 0, "ip": "127.0.0.1"}}
	process := object{"setup_path": dir, "proc_name": "oddd", "pid_path": dir + "/oddd.pid", "ip_list": ips}
	key := dir + "/oddd:0:127.0.0.1"
	run := func(path string, body object) (code int, content object) {
		t.Helper()
		var submitted struct {
			Task string `json:"bk_gse_taskid"`
		}
		j.call(http.MethodPost, path, body, &submitted)
		query := url.Values{
			"bk_biz_id": {"2"}, "bk_gse_taskid": {submitted.Task}, "bk_app_code": {harness.AppCode},
			"bk_app_secret": {harness.AppSecret}, "bk_username": {"admin"},
		}
		j.eventually("the task to end", func() bool {
			var data struct {
				Status int `json:"status"`
				Result map[string]struct {
					Code    int             `json:"error_code"`
					Msg     string          `json:"error_msg"`
					Content json.RawMessage `json:"content"`
				} `json:"result"`
			}
			j.call(http.MethodGet, "/api/c/compapi/v2/job/get_proc_result/?"+query.Encode(), nil, &data)
			e, ok := data.Result[key]
			if !ok || len(data.Result) != 1 {
				t.Fatalf("results %v, want %s", data.Result, key)
			}
			code = e.Code
			if code == 115 {
				return false
			}
			if err := json.Unmarshal(e.Content, &content); err != nil {
				t.Fatalf("content %s: %v", e.Content, err)
			}
			return true
		})
		return code, content
	}
	scripted := func(op int) (int, object) {
		return run("/api/c/compapi/v2/job/operate_proc/",
			object{"bk_biz_id": 2, "op_type": op, "process_infos": []any{process}})
	}
	for _, step := range []struct{ op, code int }{{2, 0}, {0, 0}, {0, 828}, {8, 0}, {3, 0}, {4, 0}, {1, 0}, {1, 829}} {
		if code, content := scripted(step.op); code != step.code {
			t.Errorf("operate_proc %d: %d, %v", step.op, code, content)
		}
	}
	if _, content := scripted(2); content["process"].([]any)[0].(object)["procname"] != "oddd" {
		t.Errorf("query: %v", content)
	}
	// manage_proc: 1 hosts and 2 unhosts; a hosted process that does not run is started.
	managed := object{
		"proc_owner": "admin", "start_cmd": "./start.sh", "stop_cmd": "./stop.sh", "type": 1,
		"value_key": dir + "/oddd",
	}
	maps.Copy(managed, process)
	for _, path := range []string{"/api/c/compapi/v2/jobv3/manage_proc/", "/esb/api/v2/manage_proc"} {
		for op := 1; op <= 2; op++ {
			if code, content := run(path, object{
				"bk_scope_type": "biz", "bk_scope_id": "2", "op_type": op,
				"process_infos": []any{managed},
			}); code != 0 {
				t.Errorf("%s %d: %d, %v", path, op, code, content)
			}
		}
	}
	var agents []struct {
		IP    string `json:"ip"`
		Cloud int    `json:"bk_cloud_id"`
		Alive int    `json:"bk_agent_alive"`
	}
	j.call(http.MethodPost, "/api/c/compapi/v2/job/get_agent_status/",
		object{"bk_biz_id": 2, "ip_list": append(ips, object{"bk_cloud_id": 0, "ip": "10.9.9.9"})}, &agents)
	if len(agents) != 2 || agents[0].Alive != 1 || agents[1].Alive != 0 {
		t.Errorf("agents %+v", agents)
	}
	ids := make([]string, 5000)
	for i := range ids {
		ids[i] = fmt.Sprintf("0:10.2.%d.%d", i>>8, i&255)
	}
	ids[0] = harness.Agent
	var states []struct {
		ID     string `json:"bk_agent_id"`
		Status int    `json:"status_code"`
	}
	j.call(http.MethodPost, "/api/v2/cluster/list_agent_state", object{"agent_id_list": ids}, &states)
	if len(states) != 5000 || states[0].Status != 2 || states[1].Status == 2 {
		t.Errorf("%d states, the first %+v", len(states), states[:2])
	}
}
