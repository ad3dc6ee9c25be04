package trust_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestNamesComeAndGo: what is known of a host by its address is known of it by the id that it is given, and the other
// way round.
func TestNamesComeAndGo(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.JoinAndStart("one", "127.0.0.2", 0)
	f.JoinAndStart("two", "127.0.0.2", 3) // the same address in another area is another host
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	task, _ := f.Call("operate_proc_v2", with(p.Request(2), "agent_id_list", []string{first}))["task_id"].(string)

	f.rename("web-1")
	for _, name := range []string{"web-1", first} {
		if r := f.Operate(p, 2, name)[name]; r.Code != 0 || r.PID <= 0 {
			t.Errorf("as %s it answered %+v", name, r)
		}
	}
	if list := f.CLI("ps", "-o", "wide"); strings.Contains(list, "3:127.0.0.2") {
		t.Errorf("the host in the other area has\n%s", list)
	}
	data := f.Call("get_proc_operate_result_v2", harness.Object{"task_id": task})
	if r := harness.ParseResult(t, data[first+":"+p.Namespace+":"+p.Name]); r.Code != 0 {
		t.Errorf("the task of before answers %+v", r)
	}
	f.Want(0, f.Operate(p, restart, "web-1"))
	if n := harness.Starts(t, dir); n != 2 {
		t.Errorf("it was started %d times, want 2", n)
	}
	f.Server.End(syscall.SIGTERM)
	f.StartServer()
	one.End(syscall.SIGTERM)
	f.StartAgent("one")
	f.Online(first)
	f.Want(0, f.Operate(p, restart, "web-1"))

	f.rename(first)
	harness.Eventually(t, "the id to mean nobody", func() bool { return f.Operate(p, 2, "web-1")["web-1"].Code == 117 })
	if r := f.Operate(p, 2, first)[first]; r.Code != 0 || r.PID <= 0 {
		t.Errorf("it answered %+v", r)
	}
	var events []map[string]any
	if err := json.Unmarshal([]byte(f.CLI("events", "--hosts", first, "-o", "json")), &events); err != nil {
		t.Fatal(err)
	}
	started := 0
	for _, e := range events {
		if kind, _ := e["kind"].(string); strings.Contains(kind, "started") {
			started++
		}
	}
	if started != 3 {
		t.Errorf("its history has %d starts, want 3: %v", started, events)
	}
}

func with(o harness.Object, name string, value any) harness.Object {
	o[name] = value
	return o
}

// rename gives the first host an id, or takes it back, as node management does.
func (f *fleet) rename(id string) {
	f.T.Helper()
	done := f.Call("upgrade_to_agent_id",
		harness.Object{"hosts": []harness.Object{{"ip": "127.0.0.2", "bk_cloud_id": 0, "bk_agent_id": id}}})
	if list, _ := done["success"].([]any); len(list) != 1 {
		f.T.Errorf("it answered %v", done)
	}
}
