package httpapi_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/store"

	"github.com/google/go-cmp/cmp"
)

const clusterV2 = "/api/v2/cluster/"

// fleetWorld has one agent that is there, one that is away and one by an IPv6 address.
func fleetWorld(t *testing.T) *world {
	w := newWorld(t)
	for i := range w.agents {
		w.agents[i].Build = "1.2.3"
		if w.agents[i].Key == "UAGENT1" {
			w.agents[i].Host = store.Host{System: "linux", OS: "debian", Arch: "x86_64", CPUs: 4, Memory: 8 << 30}
		}
	}
	w.presence["UAGENT1"] = fleet.Presence{
		Joined: true, LastSeen: noon().Add(-2 * time.Second), Linked: noon().Add(-90 * time.Second),
		Facts: fleet.Facts{Started: noon().Add(-time.Hour)}, Load: fleet.Load{CPU: 125, Memory: 402},
	}
	w.presence["UAGENT2"] = fleet.Presence{Joined: true, Away: true}
	return w
}

func TestAgentStatus(t *testing.T) {
	w := fleetWorld(t)
	const hosts = `[{"ip": "10.0.0.1", "bk_cloud_id": 1}, {"ip": "10.0.0.1", "bk_cloud_id": "0"}, {"ip": "2001:db8::7", "bk_cloud_id": 0},
		{"ip": "10.9.9.9", "bk_cloud_id": 5}, {"ip": "10.0.0.1", "bk_cloud_id": 1}]`
	row := func(ip string, cloud, alive int) map[string]any {
		return map[string]any{"ip": ip, "bk_cloud_id": float64(cloud), "bk_agent_alive": float64(alive)}
	}
	var got map[string]any
	w.post(esbGSE+"get_agent_status/", `{"bk_supplier_account": "0", "hosts": `+hosts+`}`).ok(t, &got)
	want := map[string]any{
		"1:10.0.0.1": row("10.0.0.1", 1, 1), "0:10.0.0.1": row("10.0.0.1", 0, 0),
		"0:2001:db8::7": row("2001:db8::7", 0, 1),
		"5:10.9.9.9":    row("10.9.9.9", 5, 0),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GSE's form (-want +got): %s", diff)
	}
	var list []any
	w.post(esbJob+"get_agent_status/", `{"bk_biz_id": 2, "ip_list": `+hosts+`}`).ok(t, &list)
	if diff := cmp.Diff([]any{
		row("10.0.0.1", 1, 1), row("10.0.0.1", 0, 0), row("2001:db8::7", 0, 1),
		row("10.9.9.9", 5, 0), row("10.0.0.1", 1, 1),
	}, list); diff != "" {
		t.Errorf("JOB's form (-want +got): %s", diff)
	}
	if row := w.lastAudit(); row.Action != "get_agent_status" || row.Targets != 5 || row.Target != "1:10.0.0.1" {
		t.Errorf("audited as %+v", row)
	}
	got = nil
	w.post(esbGSE+"get_agent_info/",
		`{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1}, {"ip": "10.9.9.9", "bk_cloud_id": 5}]}`).ok(t, &got)
	version := func(ip, v string, cloud int) map[string]any {
		return map[string]any{
			"ip": ip, "version": v, "bk_cloud_id": float64(cloud), "parent_ip": "",
			"parent_port": 0.0,
		}
	}
	if diff := cmp.Diff(map[string]any{
		"1:10.0.0.1": version("10.0.0.1", "1.2.3", 1),
		"5:10.9.9.9": version("10.9.9.9", "", 5),
	}, got); diff != "" {
		t.Errorf("get_agent_info (-want +got): %s", diff)
	}
}

func TestAgentRows(t *testing.T) {
	w := fleetWorld(t)
	const ids = `{"agent_id_list": ["02000000024201", "1:10.0.0.1", "0:10.0.0.1", "020000unknown", "9:10.9.9.9"], "hosts": null}`
	ms := func(d time.Duration) float64 { return float64(noon().Add(d).UnixMilli()) }
	state := func(id string, cloud int, version string, code int, seen float64) map[string]any {
		return map[string]any{
			"bk_agent_id": id, "bk_cloud_id": float64(cloud), "version": version, "run_mode": 1.0,
			"status_code": float64(code), "report_time": seen,
		}
	}
	var got []any
	w.post(clusterV2+"list_agent_state", ids).ok(t, &got)
	seen := ms(-2 * time.Second)
	want := []any{
		state("02000000024201", 1, "1.2.3", 2, seen), state("1:10.0.0.1", 1, "1.2.3", 2, seen),
		state("0:10.0.0.1", 0, "1.2.3", -1, 0),
		state("020000unknown", 0, "", -1, 0), state("9:10.9.9.9", 9, "", -1, 0),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list_agent_state (-want +got): %s", diff)
	}
	got = nil
	w.post(clusterV2+"list_agent_info", ids).ok(t, &got)
	if len(got) != 5 {
		t.Fatalf("%d rows", len(got))
	}
	full := state("02000000024201", 1, "1.2.3", 2, seen)
	maps.Copy(full, map[string]any{
		"code": 0.0, "message": "success", "bk_host_ip": "10.0.0.1", "bk_os_type": "linux",
		"bk_cpu_architecture": "x86_64", "parent_ip": "",
		"parent_port": 0.0, "cpu_rate": 12.5, "mem_rate": 40.2, "cpu_num": 4.0, "mem_size": 8192.0,
		"start_time": ms(-time.Hour), "last_work_time": seen,
		"conn_cycle_time": "90", "status": "running", "last_status_code": 2.0, "last_status": "running", "remark": "",
	})
	if diff := cmp.Diff(full, got[0]); diff != "" {
		t.Errorf("list_agent_info (-want +got): %s", diff)
	}
	if stranger := got[3].(map[string]any); stranger["status_code"] != -1.0 || stranger["code"] != 0.0 ||
		stranger["conn_cycle_time"] != "0" || stranger["bk_host_ip"] != "" {
		t.Errorf("a stranger's row is %v", stranger)
	}
	for _, body := range []string{`{}`, `{"agent_id_list": []}`, `{"agent_id_list": [null]}`, `{"agent_id_list": {}}`} {
		w.post(clusterV2+"list_agent_state", body).refused(t, 200, 1306406)
	}
}

func TestManyAgentsInOneCall(t *testing.T) {
	w := newWorld(t)
	ids, hosts := make([]string, 30000), make([]string, 30000)
	for i := range ids {
		ids[i] = fmt.Sprintf(`"0200000002420%023d"`, i)
		hosts[i] = fmt.Sprintf(`{"ip": "10.%d.%d.%d", "bk_cloud_id": 0}`, i>>16, i>>8&255, i&255)
	}
	var list []any
	if w.post(clusterV2+"list_agent_info", `{"agent_id_list": [`+strings.Join(ids, ",")+`]}`).ok(t,
		&list); len(list) != 30000 {
		t.Errorf("%d rows", len(list))
	}
	var object map[string]any
	if w.post(esbGSE+"get_agent_status", `{"hosts": [`+strings.Join(hosts, ",")+`]}`).ok(t,
		&object); len(object) != 30000 {
		t.Errorf("%d members", len(object))
	}
}

func TestUpgradeToAgentID(t *testing.T) {
	w := newWorld(t)
	upgrade := func(hosts string) (success, failed []string) {
		var data struct{ Success, Failed []string }
		w.post(gatewayV2+"upgrade_to_agent_id/", `{"no_request": true, "hosts": [`+hosts+`]}`).ok(t, &data)
		return data.Success, data.Failed
	}
	success, failed := upgrade(
		`{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "new-id"}, {"ip": "10.9.9.9", "bk_cloud_id": 0, "bk_agent_id": "x"},
		{"ip": "2001:db8::7", "bk_cloud_id": 0, "bk_agent_id": "02000000024201"}`)
	if diff := cmp.Diff([][]string{{"0:10.0.0.1"}, {"0:10.9.9.9", "0:2001:db8::7"}},
		[][]string{success, failed}); diff != "" {
		t.Errorf("upgrade (-want +got): %s", diff)
	}
	// Both names reach the host, and each is echoed as it was written.
	task := w.taskID(gatewayV2+"operate_proc_v2",
		`{"meta": {"namespace": "n", "name": "p"}, "op_type": 2, "agent_id_list": ["new-id", "0:10.0.0.1"]}`)
	if poll := w.poll(task); len(poll) != 2 || poll["new-id:n:p"].Code != 115 || poll["0:10.0.0.1:n:p"].Code != 115 {
		t.Errorf("poll is %v", poll)
	}
	for _, target := range w.tasks[task].Requests[0].Targets {
		if target.Agent != "UAGENT2" {
			t.Errorf("%s reaches %q", target.Spelling, target.Agent)
		}
	}
	if success, failed = upgrade(`{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "0:10.0.0.1"}`); len(
		success) != 1 || len(failed) != 0 || w.agents[1].Assigned != "" {
		t.Errorf("taking it back: %v, %v, %+v", success, failed, w.agents[1])
	}
	for _, body := range []string{
		`{}`, `{"hosts": []}`, `{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0}]}`,
		`{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": ""}]}`,
		`{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "*"}]}`,
		`{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "0:10.0.0.?"}]}`,
		`{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "a b"}]}`,
	} {
		w.post(gatewayV2+"upgrade_to_agent_id", body).refused(t, 200, 1306406)
	}
	// The address of another host is no id for this one, in whatever spelling, and nothing of the call is done.
	for _, id := range []string{"3:10.0.0.9", "0:10.0.0.2", "1:10.0.0.1", "0:[fe80::9]", "0:::ffff:10.0.0.9"} {
		answer := w.post(gatewayV2+"upgrade_to_agent_id",
			`{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "fine"},
			{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "`+id+`"}]}`)
		answer.refused(t, 200, 1306406)
		if want := `hosts[1].bk_agent_id: "` + id +
			`" is the address of another host than 0:10.0.0.1`; !strings.Contains(*answer.Message, want) {
			t.Errorf("%s is refused with %q", id, *answer.Message)
		}
		if w.agents[1].Assigned != "" {
			t.Errorf("half of the call was carried out: %+v", w.agents[1])
		}
	}
	w.storeErr = errors.New("disk full")
	w.post(gatewayV2+"upgrade_to_agent_id",
		`{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "x"}]}`).refused(t, 502, 1650201)
}

const documentedGroups = `{"meta": {"namespace": "gse", "name": "", "labels": {}}, "hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1, "bk_supplier_id": 2}],
	"spec": {"process_group": [{"id": "gse", "resource": {"cpu_pool_limit": 20, "mem_pool_limit": 20, "cpu_pool_weight": 0, "mem_pool_weight": 0}}]}}`

func TestGroups(t *testing.T) {
	w := newWorld(t)
	w.answer = func(store.Request, store.Target) *process.Outcome { return &process.Outcome{Text: process.Success} }
	var set map[string]entry
	w.post(esbGSE+"set_process_group_info/", documentedGroups).ok(t, &set)
	if e, ok := set["1:2:10.0.0.1:gse"]; !ok || len(set) != 1 || e.Code != 0 || e.Msg != "success" ||
		string(e.Content) != `""` {
		t.Errorf("set is answered %v", set)
	}
	if diff := cmp.Diff([]process.Group{{ID: "gse", CPULimit: 20, MemLimit: 20}},
		w.groups[store.GroupHost{Agent: "UAGENT1", Namespace: "gse"}]); diff != "" {
		t.Errorf("stored (-want +got): %s", diff)
	}
	want := []store.Request{{
		Op: process.SetGroups, Process: process.ID{Namespace: "gse"},
		Targets: []store.Target{{ItemKey: "1:2:10.0.0.1:gse", Spelling: "1:10.0.0.1", Agent: "UAGENT1"}},
	}}
	if diff := cmp.Diff(want, w.onlyTask().Requests); diff != "" {
		t.Errorf("sent (-want +got): %s", diff)
	}
	set = nil
	w.post(gatewayV2+"set_process_group_info", strings.Replace(documentedGroups, `"hosts"`,
		`"agent_id_list": ["02000000024201", "gone"], "hosts"`, 1)).ok(t, &set)
	if len(set) != 2 || set["02000000024201:gse"].Code != 0 || set["gone:gse"].Code != 117 {
		t.Errorf("by id it is answered %v", set)
	}
}

// TestGroupsAreShownWithTheirUse: each group is a pool over all processes of the namespace, so the use is the same for
// all.
func TestGroupsAreShownWithTheirUse(t *testing.T) {
	w := newWorld(t)
	w.groups[store.GroupHost{Agent: "UAGENT1", Namespace: "gse"}] = []process.Group{{
		ID: "gse", CPULimit: 20,
		MemLimit: 20,
	}, {ID: "b", CPUWeight: 1}}
	for name, u := range map[string]*process.Usage{"a": {CPU: 10.1, Mem: 1}, "b": {CPU: 20.2, Mem: 2.5}, "down": nil} {
		w.observed = append(w.observed,
			store.Observed{
				Agent: "UAGENT1", Process: process.ID{Namespace: "gse", Name: name},
				Status: process.Status{Usage: u},
			})
	}
	row := func(id string, cpu, mem, weight float64) any {
		return map[string]any{
			"meta": map[string]any{"namespace": "gse", "name": "", "labels": map[string]any{}},
			"host": map[string]any{"ip": "10.0.0.1", "bk_cloud_id": 1.0, "bk_supplier_id": 2.0},
			"id":   id, "resource": map[string]any{
				"cpu_pool_limit": cpu, "mem_pool_limit": mem,
				"cpu_pool_weight": weight, "mem_pool_weight": 0.0,
			},
			"usage": map[string]any{"cpu": 30.3, "mem": 3.5, "processes": 2.0},
		}
	}
	var got map[string][]any
	w.post(esbGSE+"get_process_group_info/", documentedGroups).ok(t, &got)
	if diff := cmp.Diff([]any{row("gse", 20, 20, 0), row("b", 0, 0, 1)}, got["process_group_infos"]); diff != "" {
		t.Errorf("get (-want +got): %s", diff)
	}
}

// TestGroupsOfAHostThatIsAway: the caller is told so, and what he asked for is kept for it.
func TestGroupsOfAHostThatIsAway(t *testing.T) {
	w := newWorld(t)
	w.answer = func(store.Request, store.Target) *process.Outcome {
		return &process.Outcome{Fault: process.AgentUnavailable, Text: "agent not found or offline"}
	}
	var set map[string]entry
	w.post(esbGSE+"set_process_group_info/", documentedGroups).ok(t, &set)
	if e := set["1:2:10.0.0.1:gse"]; e.Code != 117 || len(w.groups) != 1 {
		t.Errorf("answered %v, stored %v", set, w.groups)
	}
}

// TestGroupsAreNormal: of the same id the last one counts, and what is no limit is zero.
func TestGroupsAreNormal(t *testing.T) {
	w := newWorld(t)
	w.answer = func(store.Request, store.Target) *process.Outcome { return &process.Outcome{Text: process.Success} }
	body := strings.Replace(documentedGroups, `[{"id"`,
		`[{"id": "gse", "resource": {}}, {"id": "b", "resource": {"cpu_pool_limit": -1, "mem_pool_weight": "1"}}, {"id"`, 1)
	var set map[string]entry
	w.post(esbGSE+"set_process_group_info/", body).ok(t, &set)
	want := []process.Group{{ID: "b", MemWeight: 1}, {ID: "gse", CPULimit: 20, MemLimit: 20}}
	if diff := cmp.Diff(want, w.groups[store.GroupHost{Agent: "UAGENT1", Namespace: "gse"}]); diff != "" {
		t.Errorf("stored (-want +got): %s", diff)
	}
}

func TestGroupsThatCannotBe(t *testing.T) {
	w := newWorld(t)
	for _, change := range [][2]string{
		{`"id": "gse"`, `"id": ""`},
		{`"id": "gse"`, `"id": []`},
		{`"cpu_pool_limit": 20`, `"cpu_pool_limit": 101`},
		{`"mem_pool_limit": 20`, `"mem_pool_limit": []`},
		{`"cpu_pool_weight": 0`, `"cpu_pool_weight": 2`},
		{`"mem_pool_weight": 0`, `"mem_pool_weight": "x"`},
		{`"resource"`, `"resources"`},
	} {
		var set map[string]entry
		w.post(esbGSE+"set_process_group_info/", strings.Replace(documentedGroups, change[0], change[1], 1)).ok(t, &set)
		if e := set["1:2:10.0.0.1:gse"]; e.Code != 65535 || !strings.HasPrefix(e.Msg, "spec.process_group[") {
			t.Errorf("%s is answered %v", change[1], set)
		}
	}
	if len(w.groups) != 0 {
		t.Errorf("stored: %v", w.groups)
	}
	for _, change := range [][2]string{
		{`"process_group"`, `"group"`},
		{`"spec"`, `"spec1"`},
		{`"meta"`, `"meta1"`},
		{`"namespace"`, `"ns"`},
		{`"hosts"`, `"host"`},
		{`"namespace": "gse"`, `"namespace": ""`},
	} {
		w.post(esbGSE+"set_process_group_info/", strings.Replace(documentedGroups, change[0], change[1], 1)).refused(t,
			200, 1306406)
	}
}
