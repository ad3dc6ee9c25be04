package contract_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// TestAppendixD holds what the real callers' code was seen to do when it was run, line by line.
func TestAppendixD(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--agent-id", ownID)
	for _, line := range []struct {
		name string
		run  func(b bench)
	}{
		{"D1", d1BothSpellings},
		{"D2", d2HeaderAlone},
		{"D3", d3FullEnvelope},
		{"D4", d4SyncOfNothing},
		{"D5", d5NotRunning},
		{"D6", d6KeysEndTogether},
		{"D7", d7EveryKeyEnds},
		{"D8", d8QueriesHaveAProcess},
	} {
		t.Run(line.name, func(t *testing.T) { line.run(bench{s, t}) })
	}
}

const ownID = "0200000007525400f355781710390005465c"

func d1BothSpellings(b bench) {
	p, _ := b.process("d1")
	start := p.Request(0)
	start["agent_id_list"] = []string{ownID}
	harness.ParseResult(b.t, b.AwaitTask(b.submit(start))[ownID+":odd:d1"]).Want(b.t, "start by id", 0)
	data := b.AwaitTask(b.submit(queryBody("odd", "d1", ownID, harness.Agent)))
	byID, byAddress := harness.ParseResult(b.t, data[ownID+":odd:d1"]),
		harness.ParseResult(b.t, data[harness.Agent+":odd:d1"])
	if byID.PID <= 0 || byID.PID != byAddress.PID {
		b.t.Errorf("by id pid %d, by address pid %d", byID.PID, byAddress.PID)
	}
	rows := b.call(procPath+"get_proc_status_v2/", harness.Object{
		"meta": harness.Object{"namespace": "odd", "name": "d1"}, "agent_id_list": []string{harness.Agent, ownID},
	}).(harness.Object)["proc_infos"].([]any)
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.(harness.Object)["bk_agent_id"].(string))
	}
	if !slices.Equal(ids, []string{harness.Agent, ownID}) {
		b.t.Errorf("rows of %q", ids)
	}
}

func d2HeaderAlone(b bench) {
	header := map[string]string{
		"X-Bkapi-Authorization": fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"admin"}`,
			harness.AppCode, harness.AppSecret),
	}
	status, reply := send(b.t, b.Server, http.MethodPost, gsePath+"sync_proc_status/", header,
		harness.Object{"meta": harness.Object{"namespace": "d2"}})
	if id, _ := reply["request_id"].(string); status != 200 || reply["code"] != 0.0 ||
		!regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
		b.t.Errorf("HTTP %d, %v", status, reply)
	}
}

func d3FullEnvelope(b bench) {
	meta := harness.Object{"namespace": "d3", "name": "p"}
	hosts := []any{harness.Object{"ip": "127.0.0.1", "bk_cloud_id": 0, "bk_supplier_id": 0}}
	all := harness.Object{
		"meta": meta, "hosts": hosts, "op_type": 2, "task_id": "x", "bk_biz_id": 1, "ip_list": hosts,
		"proc_operate_req": []any{harness.Object{"meta": meta, "hosts": hosts, "op_type": 2}},
	}
	for _, path := range []string{
		gsePath + "operate_proc/", gsePath + "operate_proc_v2/", gsePath + "operate_proc_multi/",
		gsePath + "get_proc_operate_result/", gsePath + "get_proc_status/",
		gsePath + "sync_proc_status/", gsePath + "unregister_proc_info/", gsePath + "get_process_group_info/",
		gsePath + "get_agent_status/", gsePath + "get_agent_info/",
		procPath + "operate_proc_v2", clusterPath + "list_agent_state", clusterPath + "list_agent_info",
		"/procapi/v2/proc/operate", jobPath + "get_agent_status/",
		procPath + "upgrade_to_agent_id", jobPath + "operate_process/", "/nowhere", "/procapi/nowhere",
	} {
		_, reply := b.Do(http.MethodPost, path, all)
		for _, field := range []string{"result", "code", "message", "data", "request_id"} {
			if _, ok := reply[field]; !ok {
				b.t.Errorf("%s: %s is missing in %v", path, field, reply)
			}
		}
		if _, isBool := reply["result"].(bool); !isBool || reply["result"] != (reply["code"] == 0.0) {
			b.t.Errorf("%s: result %v with code %v", path, reply["result"], reply["code"])
		}
	}
}

func d4SyncOfNothing(b bench) {
	if count, list := rows(b.Server, "nobody has this namespace"); count != 0 || len(list) != 0 {
		b.t.Errorf("%d rows: %v", count, list)
	}
}

func d5NotRunning(b bench) {
	p, _ := b.process("d5")
	p.Operate(3).Want(b.t, "host", 0)
	p.Operate(4).Want(b.t, "unhost", 0)
	p.Operate(1).Want(b.t, "stop, third generation", 829)
	task := b.call(gsePath+"operate_proc/", harness.Object{
		"meta": harness.Object{"namespace": "odd", "name": "d5"}, "op_type": 1,
		"hosts": []any{harness.Object{"ip": "127.0.0.1", "bk_cloud_id": 0, "bk_supplier_id": 0}},
	}).(harness.Object)["task_id"].(string)
	harness.ParseResult(b.t, b.AwaitTask(task)["0:0:127.0.0.1:odd:d5"]).Want(b.t, "stop, first generation", 829)
}

func d6KeysEndTogether(b bench) {
	items := make([]harness.Object, 500)
	for i := range items {
		items[i] = queryBody("d6", fmt.Sprintf("p_%d", i), harness.Agent)
	}
	task := b.submit(items...)
	var first time.Time
	harness.Eventually(b.t, "the query to end", func() bool {
		open := 0
		for _, e := range poll(b.Server, task) {
			if e.(harness.Object)["error_code"] == 115.0 {
				open++
			}
		}
		if open < len(items) && first.IsZero() {
			first = time.Now()
		}
		return open == 0
	})
	if took := time.Since(first); took > 5*time.Second {
		b.t.Errorf("the last key ended %v after the first", took)
	}
}

func d7EveryKeyEnds(b bench) {
	p, _ := b.process("d7")
	p.Control["start_cmd"], p.Policy["op_timeout"] = "exec sleep 600", 1
	began := time.Now()
	p.Operate(0).Want(b.t, "a start that hangs", 65535)
	if took := time.Since(began); took > 20*time.Second {
		b.t.Errorf("it took %v", took)
	}
}

func d8QueriesHaveAProcess(b bench) {
	p, _ := b.process("d8")
	task := b.submit(p.Request(2), queryBody("odd", "d8-unknown", harness.Agent), queryBody("odd", "d8-away", nobodyID))
	data := b.AwaitTask(task)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if r := harness.ParseResult(b.t, data[key]); r.PID != -1 || r.Item["processName"] == nil {
			b.t.Errorf("%s: %v", key, r.Item)
		}
	}
	if len(data) != 3 {
		b.t.Errorf("%d keys", len(data))
	}
}
