package contract_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestOneProcessInTwoSpellings: an agent has an id and an address, an address has several spellings, and suppliers mean
// nothing here. What is asked of one process in one call is done once, and each key gets the result.
func TestOneProcessInTwoSpellings(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	const id = "020000000242010a00002f17521298676503"
	s.Call("upgrade_to_agent_id",
		harness.Object{"hosts": []any{harness.Object{"ip": "127.0.0.1", "bk_cloud_id": 0, "bk_agent_id": id}}})
	p, dir := odd(t, s, "spelt")
	p.Control["restart_cmd"] = "echo r >> restarts; " + p.Control["start_cmd"].(string)
	address := func(ip string, supplier int) harness.Object {
		return harness.Object{"ip": ip, "bk_cloud_id": 0, "bk_supplier_id": supplier}
	}
	ask := func(op int, field string, list ...any) map[string]harness.Result {
		t.Helper()
		body := p.Request(op)
		delete(body, "agent_id_list")
		body[field] = list
		results := map[string]harness.Result{}
		for key, entry := range s.AwaitTask(multi(s, body)) {
			results[key] = harness.ParseResult(t, entry)
		}
		return results
	}
	all := func(results map[string]harness.Result, code, keys int) {
		t.Helper()
		if len(results) != keys {
			t.Errorf("%d keys, want %d", len(results), keys)
		}
		for key, r := range results {
			r.Want(t, key, code)
		}
	}
	all(ask(7, "agent_id_list", id, harness.Agent), 0, 2)
	if text, err := os.ReadFile(filepath.Join(dir, "restarts")); err != nil || string(text) != "r\n" {
		t.Errorf("it was restarted %q; error %v", text, err)
	}
	all(ask(1, "hosts", address("127.0.0.1", 0), address("::ffff:127.0.0.1", 0)), 0, 2)
	all(ask(0, "agent_id_list", harness.Agent, id), 0, 2)
	all(ask(0, "agent_id_list", harness.Agent, id), 828, 2)
	if n := harness.Starts(t, dir); n != 2 {
		t.Errorf("%sit was started %d times, want 2", harness.MoreThan(2, n), n)
	}

	// Different operations of one process run one after another, whatever it is called.
	stop, start := p.Request(1), p.Request(0)
	stop["agent_id_list"], start["agent_id_list"] = []string{id}, []string{harness.Agent}
	for key, entry := range s.AwaitTask(multi(s, stop, start)) {
		harness.ParseResult(t, entry).Want(t, key, 0)
	}
	if n := harness.Starts(t, dir); n != 3 {
		t.Errorf("%sit was started %d times, want 3", harness.MoreThan(3, n), n)
	}

	body := p.Request(0)
	delete(body, "agent_id_list")
	body["meta"] = harness.Object{"namespace": "odd", "name": "new"}
	body["hosts"] = []any{address("127.0.0.1", 0), address("127.0.0.1", 2)}
	for _, code := range []int{0, 850} {
		data := s.Call("register_proc_info", body)
		for _, key := range []string{"0:0:127.0.0.1:odd:new", "0:2:127.0.0.1:odd:new"} {
			if entry, _ := data[key].(harness.Object); entry["error_code"] != float64(code) {
				t.Errorf("register: %s is %v, want %d", key, entry, code)
			}
		}
	}
}

// TestABusyRegistrationIsAskedAgain: a key that is busy is at 115, and a repetition of the call gets the outcome of the
// first.
func TestABusyRegistrationIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, _ := odd(t, s, "busy")
	p.Control["start_cmd"] = "true" // nothing comes up, so that the key is not registered afterwards
	p.Policy = harness.Object{"start_check_secs": 24}
	p.Submit(0)
	body := p.Request(0)
	delete(body, "agent_id_list")
	body["hosts"] = []any{harness.Object{"ip": "127.0.0.1", "bk_cloud_id": 0}}
	var codes []any
	for range 3 {
		data := s.Call("register_proc_info", body)
		codes = append(codes, data["0:0:127.0.0.1:odd:busy"].(harness.Object)["error_code"])
	}
	if want := []any{115.0, 0.0, 850.0}; !slices.Equal(codes, want) {
		t.Errorf("the calls are answered %v, want %v", codes, want)
	}
}

// TestSuccessIsOneWord: what there is to say beside it is said elsewhere.
func TestSuccessIsOneWord(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, _ := odd(t, s, "hinted")
	p.Policy = harness.Object{"start_check_secs": 1, "auto_type": 1, "crontab_rule": "@daily"}
	task := p.Submit(0)
	entry := s.AwaitTask(task)[p.Key()].(harness.Object)
	if text := fmt.Sprint(entry); entry["error_code"] != 0.0 || entry["error_msg"] != "success" ||
		!strings.Contains(text, `"result":"success"`) {
		t.Errorf("entry is %s", text)
	}
	if text := fmt.Sprint(s.Outcome(task)); !strings.Contains(text, "crontab_rule is stored and not used") {
		t.Errorf("drover's own API tells %s", text)
	}
}

// TestTheCheckWindowOfJob: a process may come up until the end of the window, and an end alone leaves it the default
// time.
func TestTheCheckWindowOfJob(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	for name, window := range map[string]harness.Object{
		"late":   {"start_check_begin_time": 1, "start_check_end_time": 4},
		"no-end": {"start_check_end_time": 4},
		"null":   {"start_check_begin_time": nil, "start_check_end_time": 4},
		"zero":   {"start_check_begin_time": 0, "start_check_end_time": 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := odd(t, s, name)
			info := harness.Object{
				"setup_path": p.Identity["setup_path"], "proc_name": p.Identity["proc_name"],
				"pid_path": p.Identity["pid_path"], "value_key": name,
				"ip_list": []any{harness.Object{"ip": "127.0.0.1", "bk_cloud_id": 0}}, "type": 1,
				"start_cmd": "(sleep 2; " + p.Control["start_cmd"].(string) + ") > /dev/null 2>&1 &",
			}
			maps.Copy(info, window)
			if entry := operateJob(t, s, info); entry["error_code"] != 0.0 {
				t.Errorf("the start is answered %v", entry)
			}
		})
	}
}

// operateJob starts a process as a JOB caller does, and returns the result.
func operateJob(t *testing.T, s *harness.Server, info harness.Object) (entry harness.Object) {
	t.Helper()
	status, reply := s.Do("POST", jobPath+"operate_process/", harness.Object{
		"bk_biz_id": 1, "op_type": 0,
		"process_infos": []any{info},
	})
	if status != 200 || reply["code"] != 0.0 {
		t.Fatalf("HTTP %d: %v", status, reply)
	}
	task := reply["data"].(harness.Object)["bk_gse_taskid"]
	harness.Eventually(t, "the start to end", func() bool {
		_, reply := s.Do("POST", jobPath+"get_proc_result/", harness.Object{"bk_biz_id": 1, "bk_gse_taskid": task})
		entry = reply["data"].(harness.Object)["result"].(harness.Object)[info["value_key"].(string)+
			":0:127.0.0.1"].(harness.Object)
		return entry["error_code"] != 115.0
	})
	return entry
}

// TestATypoLocksNoProcess: milliseconds for seconds are a fault that names the field and its bound, in the caller's
// words.
func TestATypoLocksNoProcess(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, _ := odd(t, s, "typo")
	p.Policy = harness.Object{"start_check_secs": 60_000}
	if r := p.Operate(0); r.Code != 65535 ||
		r.Msg != "spec.alive_monitor_policy.start_check_secs is 60000: expected at most 3600" {
		t.Errorf("the start is answered %+v", r)
	}
	if r := p.Query(); r.Code != 0 || r.PID != -1 {
		t.Errorf("after it: %+v", r)
	}

	// What only the host can know it tells in words of its own, which become the caller's.
	p.Policy, p.Identity["user"] = nil, "nosuch"
	if r := p.Operate(0); r.Code != 65535 || !strings.HasPrefix(r.Msg, "spec.identity.user: ") {
		t.Errorf("the start is answered %+v", r)
	}
	info := harness.Object{
		"setup_path": p.Identity["setup_path"], "proc_name": "oddd", "pid_path": "/run/x.pid", "value_key": "typo",
		"account": "nosuch", "start_cmd": "true",
		"ip_list": []any{harness.Object{"ip": "127.0.0.1", "bk_cloud_id": 0}},
	}
	if entry := operateJob(t, s, info); entry["error_code"] != 65535.0 ||
		!strings.HasPrefix(entry["error_msg"].(string), "account: ") {
		t.Errorf("JOB's start is answered %v", entry)
	}
}

// TestRestartThatCannotStart: a start or restart of a process that could not start again ends nothing. Its error is 65535, because
// 836 would say that the process was started in vain. The flag and the stored spec stay.
func TestRestartThatCannotStart(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, dir := odd(t, s, "kept")
	if r := p.Operate(0); r.Code != 0 || !r.Hosted {
		t.Fatalf("the start is answered %+v", r)
	}
	before := p.Query()
	kept := *p
	kept.Identity = maps.Clone(p.Identity)
	for _, c := range []struct {
		op           int
		field, value string
	}{
		{0, "user", "nosuch"}, {7, "user", "nosuch"}, {7, "setup_path", "/no/such"},
	} {
		p.Identity[c.field] = c.value
		r := p.Operate(c.op)
		p.Identity[c.field] = kept.Identity[c.field]
		if r.Code != 65535 || !strings.Contains(r.Msg, "nothing was done: pid "+strconv.Itoa(before.PID)+" runs on") {
			t.Errorf("%+v is answered %d %q", c, r.Code, r.Msg)
		}
		if now := kept.Query(); now.PID != before.PID || !now.Hosted || harness.Starts(t, dir) != 1 {
			t.Errorf("after %+v it is pid %d, hosted %v, started %d times; want pid %d (%v), once", c, now.PID,
				now.Hosted, harness.Starts(t, dir), before.PID, harness.Stat(before.PID))
		}
	}
	if r := p.Operate(7); r.Code != 0 || r.Hosted != before.Hosted {
		t.Errorf("a restart that can start is answered %+v", r)
	}
	if now := p.Query(); now.PID == before.PID || now.PID <= 1 {
		t.Errorf("after it: %+v", now)
	}
}
