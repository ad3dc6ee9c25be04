package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/test/harness"
)

const (
	clusterPath = "/api/v2/cluster/"
	nobodyID    = "020000000242010a00002f17521298676503"
	nobodyHost  = "7:10.99.99.99"
)

// bench is a server and what the habits of callers are tried with.
type bench struct {
	*harness.Server
	t *testing.T
}

// call posts a body and returns data, which has to come with code 0 and HTTP 200.
func (b bench) call(path string, body any) any {
	b.t.Helper()
	status, reply := b.Do(http.MethodPost, path, body)
	if status != http.StatusOK || reply["code"] != 0.0 || reply["result"] != true {
		b.t.Fatalf("%s: HTTP %d, %.500v", path, status, reply)
	}
	return reply["data"]
}

// submit sends operate bodies as one task.
func (b bench) submit(requests ...harness.Object) string {
	b.t.Helper()
	return b.call(procPath+"operate_proc_multi",
		harness.Object{"proc_operate_req": requests}).(harness.Object)["task_id"].(string)
}

// queryBody is an operate body that asks for the state, with as little as may be.
func queryBody(namespace, name string, agents ...string) harness.Object {
	return harness.Object{
		"meta": harness.Object{"namespace": namespace, "name": name}, "op_type": 2,
		"agent_id_list": agents,
	}
}

// process returns a daemon, without any start check to speak of.
func (b bench) process(name string) (*harness.Process, string) {
	p, dir := odd(b.t, b.Server, name)
	p.Policy = harness.Object{"start_check_secs": 1, "stop_check_secs": 5}
	return p, dir
}

// TestAppendixB holds the list of what breaks a caller, line by line, against the binary.
func TestAppendixB(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	for _, line := range []struct {
		name string
		run  func(b bench)
	}{
		{"B1", b1AllKeys},
		{"B2", b2ContentTypes},
		{"B3", b3OneValueOneProcess},
		{"B4", b4StoppedPID},
		{"B5", b5IsAuto},
		{"B6", b6ProcessName},
		{"B7", b7LogicalFailures},
		{"B8", b8UnknownTasks},
		{"B9", b9HostAndUnhost},
		{"B10", b10RestartFromNothing},
		{"B11", b11NothingToDo},
		{"B12", b12FailedStop},
		{"B13", b13EmptyQueries},
		{"B14", b14Sizes},
		{"B15", b15Offline},
		{"B16", b16AllUnknown},
		{"B17", b17Verbatim},
		{"B18", b18Paths},
		{"B19", b19QuickSubmits},
		{"B20", b20Pages},
		{"B21", b21Rows},
		{"B22", b22FiveParts},
		{"B24", b24AgentTypes},
		{"B23", b23Survives}, // the last, as it ends the server
	} {
		t.Run(line.name, func(t *testing.T) { line.run(bench{s, t}) })
	}
}

func b1AllKeys(b bench) {
	p, _ := b.process("b1")
	start := p.Request(0)
	start["agent_id_list"] = []string{harness.Agent, nobodyID, nobodyHost}
	task := b.submit(start, queryBody("odd", "b1-other", harness.Agent))
	want := []string{nobodyID + ":odd:b1", "0:127.0.0.1:odd:b1", "0:127.0.0.1:odd:b1-other", nobodyHost + ":odd:b1"}
	first := slices.Sorted(maps.Keys(poll(b.Server, task)))
	last := slices.Sorted(maps.Keys(b.AwaitTask(task)))
	slices.Sort(want)
	if !slices.Equal(first, want) || !slices.Equal(last, want) {
		b.t.Errorf("first %q, last %q, want %q", first, last, want)
	}
}

// jobBody is an operate_process call on the local agent.
func jobBody(op int, name string) harness.Object {
	return harness.Object{"bk_biz_id": 1, "op_type": op, "process_infos": []any{harness.Object{
		"setup_path": "/tmp", "proc_name": name, "pid_path": "/tmp/" + name + ".pid",
		"ip_list": []any{harness.Object{"bk_cloud_id": 0, "ip": "127.0.0.1"}},
	}}}
}

func (b bench) jobAwait(path string, body any) harness.Object {
	b.t.Helper()
	task := b.call(path, body).(harness.Object)["bk_gse_taskid"]
	var data harness.Object
	harness.Eventually(b.t, "the JOB task to end", func() bool {
		data = b.call(jobPath+"get_proc_result/",
			harness.Object{"bk_biz_id": 1, "bk_gse_taskid": task}).(harness.Object)
		return data["status"] == 0.0
	})
	return data["result"].(harness.Object)
}

func b2ContentTypes(b bench) {
	for key, e := range b.AwaitTask(b.submit(queryBody("odd", "b2", harness.Agent, nobodyID))) {
		if _, ok := e.(harness.Object)["content"].(string); !ok {
			b.t.Errorf("%s: %v", key, e)
		}
	}
	for op := range 3 {
		for key, e := range b.jobAwait(jobPath+"operate_process/", jobBody(op, "b2")) {
			if _, ok := e.(harness.Object)["content"].(harness.Object); !ok {
				b.t.Errorf("JOB op %d: %s: %v", op, key, e)
			}
		}
	}
}

func b3OneValueOneProcess(b bench) {
	p, _ := b.process("b3")
	p.Control = harness.Object{"start_cmd": "exit 1", "restart_cmd": "exit 1", "reload_cmd": "exit 1"}
	for op := range 10 {
		r := p.Request(op)
		r["agent_id_list"] = []string{harness.Agent, nobodyID, nobodyHost}
		for key, e := range b.AwaitTask(b.submit(r)) {
			result := harness.ParseResult(b.t, e) // one value, or one process with one instance
			if _, isQuery := result.Item["pid"]; isQuery != (op == 2) {
				b.t.Errorf("op %d %s: %v", op, key, result.Item)
			}
		}
	}
}

func b4StoppedPID(b bench) {
	p, _ := b.process("b4")
	if r := p.Query(); r.PID != -1 {
		b.t.Errorf("never seen: pid %d", r.PID)
	}
	p.Operate(0).Want(b.t, "start", 0)
	if r := p.Query(); r.PID <= 0 {
		b.t.Errorf("running: pid %d", r.PID)
	}
	p.Operate(1).Want(b.t, "stop", 0)
	if r := p.Query(); r.PID != -1 {
		b.t.Errorf("stopped: pid %d", r.PID)
	}
}

func b5IsAuto(b bench) {
	p, _ := b.process("b5")
	for _, op := range []int{2, 3, 2, 4, 2} {
		r := p.Operate(op)
		if is, ok := r.Item["isAuto"].(bool); !ok || op == 3 && !is || op == 4 && is {
			b.t.Errorf("op %d: %v", op, r.Item)
		}
	}
}

func b6ProcessName(b bench) {
	p, _ := b.process("b6_instance")
	if r := p.Query(); r.Item["processName"] != "b6_instance" {
		b.t.Errorf("%v", r.Item)
	}
	if r := p.Operate(4); r.Item["procName"] != "oddd" {
		b.t.Errorf("%v", r.Item)
	}
}

func b7LogicalFailures(b bench) {
	for _, name := range []string{
		"gse/register_proc_info", "gse/update_proc_info", "gse/unregister_proc_info", "gse/operate_proc",
		"gse/operate_proc_v2", "gse/operate_proc_multi",
		"gse/get_proc_operate_result", "gse/get_proc_operate_result_v2", "gse/get_proc_status",
		"gse/get_proc_status_v2", "gse/sync_proc_status",
		"gse/set_process_group_info", "gse/get_process_group_info", "gse/get_agent_status", "gse/get_agent_info",
		"gse/api/v2/proc/upgrade_to_agent_id",
		"gse/api/v2/cluster/list_agent_state", "gse/api/v2/cluster/list_agent_info", "job/operate_process",
		"job/operate_proc", "job/manage_proc",
		"job/get_proc_result", "job/get_agent_status", "jobv3/operate_process",
	} {
		for _, body := range []any{
			harness.Object{},
			harness.Object{"meta": 7, "hosts": 7, "ip_list": 7},
			[]byte(`{"a":`), []byte(`[1]`),
		} {
			status, reply := b.Do(http.MethodPost, "/api/c/compapi/v2/"+name+"/", body)
			code, isNumber := reply["code"].(float64)
			if status != http.StatusOK || !isNumber || code == 0 || code != float64(int(code)) ||
				reply["result"] != false || reply["data"] != nil {
				b.t.Errorf("%s: HTTP %d, %v", name, status, reply)
			}
		}
	}
}

func b8UnknownTasks(b bench) {
	for _, path := range []string{gsePath, procPath} {
		for _, task := range []any{"", "GSETASK:S:0:0", nil, 7, strings.Repeat("x", 10000)} {
			status, reply := b.Do(http.MethodPost, path+"get_proc_operate_result_v2", harness.Object{"task_id": task})
			if status != http.StatusOK || reply["code"] == 0.0 || reply["data"] != nil {
				b.t.Errorf("task %.20v: HTTP %d, %v", task, status, reply)
			}
		}
	}
}

func b9HostAndUnhost(b bench) {
	p, _ := b.process("b9")
	p.Operate(4).Want(b.t, "unhost of an unknown process", 0)
	p.Operate(0).Want(b.t, "start", 0)
	p.Control["stop_cmd"] = "echo it is the new one; exit 9"
	p.Operate(3).Want(b.t, "host of a managed process", 0)
	data := b.call(gsePath+"operate_proc/", harness.Object{
		"meta": harness.Object{"namespace": "odd", "name": "b9"}, "op_type": 1,
		"hosts": []any{harness.Object{"ip": "127.0.0.1", "bk_cloud_id": 0, "bk_supplier_id": 0}},
	})
	r := harness.ParseResult(b.t, b.AwaitTask(data.(harness.Object)["task_id"].(string))["0:0:127.0.0.1:odd:b9"])
	if r.Want(b.t, "stop by the stored spec", 65535); !strings.Contains(r.Msg, "it is the new one") {
		b.t.Errorf("the old spec was used: %s", r.Msg)
	}
	p.Operate(4).Want(b.t, "unhost", 0)
	p.Operate(4).Want(b.t, "unhost again", 0)
}

func b10RestartFromNothing(b bench) {
	p, _ := b.process("b10")
	p.Control["restart_cmd"] = p.Control["start_cmd"]
	if r := p.Operate(7).Want(b.t, "restart", 0); !r.Hosted {
		b.t.Error("not hosted after a restart")
	}
	if r := p.Query(); r.PID <= 0 || !r.Hosted {
		b.t.Errorf("%v", r.Item)
	}
}

func b11NothingToDo(b bench) {
	p, dir := b.process("b11")
	p.Control["stop_cmd"] = "touch " + dir + "/stopped"
	if r := p.Operate(1).Want(b.t, "stop", 829); r.Hosted || !strings.Contains(r.Msg, "oddd") {
		b.t.Errorf("%q, hosted %v", r.Msg, r.Hosted)
	}
	p.Control["stop_cmd"] = ""
	p.Operate(0).Want(b.t, "start", 0)
	if r := p.Operate(0).Want(b.t, "start again", 828); !r.Hosted || !strings.Contains(r.Msg, "oddd") ||
		harness.Starts(b.t, dir) != 1 {
		b.t.Errorf("%q, hosted %v, %d starts", r.Msg, r.Hosted, harness.Starts(b.t, dir))
	}
	p.Operate(4).Want(b.t, "unhost", 0)
	if r := p.Operate(0).Want(b.t, "start of an unhosted one", 828); r.Hosted {
		b.t.Error("828 has changed the flag")
	}
	p.Operate(9).Want(b.t, "kill", 0)
	p.Operate(9).Want(b.t, "kill again", 829)
}

func b12FailedStop(b bench) {
	p, _ := b.process("b12")
	p.Policy["stop_check_secs"] = 1
	p.Operate(0).Want(b.t, "start", 0)
	p.Control["stop_cmd"] = "true"
	if r := p.Operate(1).Want(b.t, "stop", 836); !strings.HasPrefix(r.Msg, "stop") {
		b.t.Errorf("%q", r.Msg)
	}
}

func b13EmptyQueries(b bench) {
	for i, spec := range []any{
		nil,
		harness.Object{},
		harness.Object{"identity": harness.Object{"proc_name": "b13", "setup_path": "", "pid_path": "", "user": ""}},
		harness.Object{
			"identity": harness.Object{"proc_name": "b13", "setup_path": nil, "pid_path": nil, "user": nil},
			"control":  nil,
			"resource": harness.Object{"cpu": 0, "mem": 0},
			"monitor_policy": harness.Object{
				"auto_type": 0, "op_timeout": nil, "start_check_secs": nil,
				"start_retries": 0,
			},
		},
	} {
		q := queryBody("b13", fmt.Sprintf("never-seen-%d", i), harness.Agent)
		q["spec"] = spec
		for key, e := range b.AwaitTask(b.submit(q)) {
			if r := harness.ParseResult(b.t, e); r.Code != 0 || r.PID != -1 || r.Hosted {
				b.t.Errorf("%s: %+v", key, r)
			}
		}
	}
	if count, list := rows(b.Server, "b13"); count != 0 {
		b.t.Errorf("a query has registered %v", list)
	}
}

func b14Sizes(b bench) {
	ids := make([]string, 30000)
	hosts := make([]any, 5000)
	for i := range ids {
		ids[i] = fmt.Sprintf("0200000002420%023d", i)
		if i < len(hosts) {
			hosts[i] = harness.Object{"ip": fmt.Sprintf("10.1.%d.%d", i>>8, i&255), "bk_cloud_id": 3}
		}
	}
	if data := b.AwaitTask(b.submit(queryBody("n", "p", ids...))); len(data) != len(ids) {
		b.t.Errorf("%d keys for 30,000 agents", len(data))
	}
	if data := b.call(clusterPath+"list_agent_state",
		harness.Object{"agent_id_list": ids[:5000]}).([]any); len(data) != 5000 {
		b.t.Errorf("%d rows for 5,000 agents", len(data))
	}
	if data := b.call(gsePath+"get_agent_status/", harness.Object{"hosts": hosts}).(harness.Object); len(data) != 5000 {
		b.t.Errorf("%d members for 5,000 hosts", len(data))
	}
	status := b.call(gsePath+"get_proc_status_v2/",
		harness.Object{"meta": harness.Object{"namespace": "n", "name": "p"}, "hosts": hosts[:2000]})
	if list := status.(harness.Object)["proc_infos"].([]any); len(list) != 2000 {
		b.t.Errorf("%d rows for 2,000 hosts", len(list))
	}
	items := make([]harness.Object, 1000)
	for i := range items {
		items[i] = queryBody("b14", fmt.Sprintf("p_%d", i), harness.Agent)
	}
	if data := b.AwaitTask(b.submit(items...)); len(data) != 1000 {
		b.t.Errorf("%d keys for 1,000 items", len(data))
	}
}

func b15Offline(b bench) {
	p, _ := b.process("b15")
	r := p.Request(0)
	r["agent_id_list"] = []string{nobodyID, harness.Agent, nobodyHost}
	began := time.Now()
	data := b.AwaitTask(b.submit(r))
	if took := time.Since(began); took > 20*time.Second {
		b.t.Errorf("it took %v", took)
	}
	for key, code := range map[string]int{nobodyID: 117, nobodyHost: 117, harness.Agent: 0} {
		harness.ParseResult(b.t, data[key+":odd:b15"]).Want(b.t, key, code)
	}
}

func b16AllUnknown(b bench) {
	for _, name := range []string{"list_agent_state", "list_agent_info"} {
		list := b.call(clusterPath+name, harness.Object{"agent_id_list": []string{nobodyID, nobodyHost}}).([]any)
		if len(list) != 2 {
			b.t.Fatalf("%s: %v", name, list)
		}
		for i, id := range []string{nobodyID, nobodyHost} {
			if row := list[i].(harness.Object); row["bk_agent_id"] != id || row["status_code"] != -1.0 ||
				row["version"] != "" {
				b.t.Errorf("%s: %v", name, row)
			}
		}
	}
}

func b17Verbatim(b bench) {
	asked := []string{"0:127.0.0.1", "00:127.0.0.1", "0:::ffff:127.0.0.1", nobodyID, "UPPER-lower.1"}
	data := b.AwaitTask(b.submit(queryBody("b17", "Ein Prozess:mit Zeichen·中", asked...)))
	for _, id := range asked {
		e, ok := data[id+":b17:Ein Prozess:mit Zeichen·中"]
		if !ok {
			b.t.Errorf("%s is missing in %v", id, slices.Collect(maps.Keys(data)))
			continue
		}
		var content struct {
			ID string `json:"bk_agent_id"`
		}
		if err := json.Unmarshal([]byte(e.(harness.Object)["content"].(string)), &content); err != nil ||
			content.ID != id {
			b.t.Errorf("%s: bk_agent_id %q, %v", id, content.ID, err)
		}
	}
}

func b18Paths(b bench) {
	body := queryBody("b18", "p", harness.Agent)
	body["no_request"], body["_request"], body["bk_supplier_account"] = true, nil, "0"
	for _, path := range []string{
		"/api/c/compapi/v2/gse/operate_proc_v2", "/api/c/compapi/v2/gse/operate_proc_v2/",
		"//api/c/compapi/v2//gse/operate_proc_v2//",
		"/api/c/compapi/v2/gse/api/v2/proc/operate_proc_v2/", "/c/compapi/v2/gse/operate_proc_v2/",
		"/component/compapi/v2/gse/operate_proc_v2/",
		"/api/v2/proc/operate_proc_v2", "/api/bk-gse/prod/api/v2/proc/operate_proc_v2/", "/some/root/operate_proc_v2/",
		"/procapi/v2/proc/operate",
		"/o/bk_esb/v2/gse/operate_proc_v2/",
	} {
		for _, labels := range []any{nil, "x", 7, []any{1}, harness.Object{"bk_process_id": 77}} {
			body["meta"] = harness.Object{"namespace": "b18", "name": "p", "labels": labels}
			if data := b.call(path, body).(harness.Object); !strings.HasPrefix(data["task_id"].(string), "GSETASK:") {
				b.t.Errorf("%s: %v", path, data)
			}
		}
	}
}

func b19QuickSubmits(b bench) {
	p, dir := b.process("b19")
	items := make([]harness.Object, 1000)
	for i := range items {
		items[i] = queryBody("b19", fmt.Sprintf("p_%d", i), harness.Agent)
	}
	items[0] = p.Request(0)
	var tasks [3]string
	for i := range tasks {
		began := time.Now()
		tasks[i] = b.submit(items...)
		// Callers give up after 30 s, and send the same again.
		if took := time.Since(began); took > 30*time.Second {
			b.t.Errorf("a submit of 1,000 items took %v", took)
		}
	}
	codes := map[int]int{}
	for _, task := range tasks {
		codes[harness.ParseResult(b.t, b.AwaitTask(task)[p.Key()]).Code]++
	}
	if codes[0] != 1 || codes[828] != 2 || harness.Starts(b.t, dir) != 1 {
		b.t.Errorf("codes %v and %d starts, want one 0, two 828 and one start", codes, harness.Starts(b.t, dir))
	}
}

func b20Pages(b bench) {
	items := make([]harness.Object, 30)
	for i := range items {
		items[i] = queryBody("b20", fmt.Sprintf("p_%02d", i), harness.Agent)
		items[i]["op_type"] = 3
		items[i]["spec"] = harness.Object{
			"identity": harness.Object{
				"proc_name": "b20", "setup_path": "/tmp",
				"pid_path": fmt.Sprintf("/tmp/b20-%d.pid", i), "user": "root",
			},
			"alive_monitor_policy": harness.Object{"auto_type": 2},
		}
	}
	for key, e := range b.AwaitTask(b.submit(items...)) {
		harness.ParseResult(b.t, e).Want(b.t, key, 0)
	}
	harness.Eventually(b.t, "all rows to be there", func() bool {
		count, _ := rows(b.Server, "b20")
		return count == 30
	})
	page := func(start, limit int) []any {
		data := b.call(gsePath+"sync_proc_status/", harness.Object{
			"meta": harness.Object{"namespace": "b20"}, "page": harness.Object{
				"start": start, "limit": limit,
				"return_total": true,
			}, "_request": nil,
		}).(harness.Object)
		if data["count"] != 30.0 {
			b.t.Errorf("count is %v", data["count"])
		}
		return data["proc_infos"].([]any)
	}
	var wg sync.WaitGroup
	pages := make([][]any, 10)
	for i := range pages {
		wg.Go(func() { pages[i] = page(3*i, 3) })
	}
	wg.Wait()
	var names []string
	for _, r := range slices.Concat(pages...) {
		row := r.(harness.Object)
		host, isObject := row["host"].(harness.Object)
		_, isBool := row["isauto"].(bool)
		if !isObject || host["ip"] != "127.0.0.1" || !isBool {
			b.t.Errorf("row %v", row)
		}
		names = append(names, row["meta"].(harness.Object)["name"].(string))
	}
	var again []string
	for _, r := range page(0, 30) {
		again = append(again, r.(harness.Object)["meta"].(harness.Object)["name"].(string))
	}
	if !slices.Equal(names, again) {
		b.t.Errorf("pages hold %q, and all of them together %q", names, again)
	}
	if slices.Sort(names); len(names) != 30 || len(slices.Compact(names)) != 30 {
		b.t.Errorf("names %q", names)
	}
	if status, reply := b.Do(http.MethodPost, gsePath+"sync_proc_status/",
		harness.Object{
			"meta": harness.Object{"namespace": "b20"},
			"page": harness.Object{"start": 0, "limit": 1001},
		}); status != 200 || reply["code"] == 0.0 {
		b.t.Errorf("a page of 1001: HTTP %d, %v", status, reply)
	}
}

func b21Rows(b bench) {
	p, _ := b.process("b21")
	p.Operate(0).Want(b.t, "start", 0)
	data := b.call(procPath+"get_proc_status_v2/", harness.Object{
		"meta": harness.Object{"namespace": "odd", "name": "b21"}, "agent_id_list": []string{
			harness.Agent, nobodyID,
			nobodyHost,
		},
	}).(harness.Object)["proc_infos"].([]any)
	if len(data) != 3 {
		b.t.Fatalf("%d rows", len(data))
	}
	for _, r := range data {
		row := r.(harness.Object)
		_, isObject := row["host"].(harness.Object)
		id, isString := row["bk_agent_id"].(string)
		status, isNumber := row["status"].(float64)
		if !isObject || !isString || id == "" || !isNumber || status < 0 || status > 2 ||
			row["meta"].(harness.Object)["name"] != "b21" {
			b.t.Errorf("row %v", row)
		}
	}
}

func b22FiveParts(b bench) {
	body := harness.Object{
		"meta": harness.Object{"namespace": "b22", "name": "p"}, "op_type": 2,
		"hosts": []any{harness.Object{"ip": "127.0.0.1", "bk_cloud_id": "0", "bk_supplier_id": 5}},
		"spec": harness.Object{"identity": harness.Object{
			"proc_name": "x", "setup_path": "/tmp",
			"pid_path": "/tmp/x.pid", "user": "root",
		}},
	}
	const key = "0:5:127.0.0.1:b22:p"
	for _, name := range []string{"register_proc_info", "update_proc_info", "unregister_proc_info"} {
		if data := b.call(gsePath+name+"/", body).(harness.Object); len(data) != 1 || data[key] == nil {
			b.t.Errorf("%s: %v", name, data)
		}
	}
	task := b.call(gsePath+"operate_proc/", body).(harness.Object)["task_id"].(string)
	if data := b.AwaitTask(task); len(data) != 1 || data[key] == nil {
		b.t.Errorf("operate_proc: %v", data)
	}
}

func b23Survives(b bench) {
	p, _ := b.process("b23")
	p.Operate(0).Want(b.t, "start", 0)
	before := p.Query()
	b.Kill()
	b.Run()
	after := p.Query()
	if after.PID != before.PID || !after.Hosted {
		b.t.Errorf("before %v, after %v", before.Item, after.Item)
	}
	harness.Signal(b.t, after.PID, 9)
	harness.Eventually(b.t, "a relaunch", func() bool {
		r := p.Query()
		return r.PID > 0 && r.PID != before.PID
	})
	p.Operate(1).Want(b.t, "stop", 0)
}

func b24AgentTypes(b bench) {
	row := b.call(clusterPath+"list_agent_info",
		harness.Object{"agent_id_list": []string{harness.Agent}}).([]any)[0].(harness.Object)
	_, isString := row["conn_cycle_time"].(string)
	reported, _ := row["report_time"].(float64)
	now := float64(time.Now().UnixMilli())
	if !isString || reported < now-60_000 || reported > now+1000 || row["status_code"] != 2.0 ||
		row["bk_host_ip"] != "127.0.0.1" {
		b.t.Errorf("row %v", row)
	}
}
