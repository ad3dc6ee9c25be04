package contract_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestEveryKeyInEveryPoll: all that was asked for is there from the first poll, and what has ended does not change.
func TestEveryKeyInEveryPoll(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	slow, _ := odd(t, s, "slow")
	slow.Policy = harness.Object{"start_check_secs": 2}
	quick, _ := odd(t, s, "quick")
	both := slow.Request(0)
	both["agent_id_list"] = []string{harness.Agent, "1:10.99.99.99", "020000000242010a00002f17521298676503"}
	task := multi(s, both, quick.Request(2))
	keys := []string{
		"020000000242010a00002f17521298676503:odd:slow", "0:127.0.0.1:odd:quick", "0:127.0.0.1:odd:slow",
		"1:10.99.99.99:odd:slow",
	}

	first := poll(s, task)
	wantJSON(t, "slow start at the first poll", first[keys[2]],
		`{"error_code": 115, "error_msg": "handling", "content": ""}`)
	for _, key := range []string{keys[0], keys[3]} {
		agent := strings.TrimSuffix(key, ":odd:slow")
		wantJSON(t, "unknown agent at the first poll", first[key],
			fmt.Sprintf(
				`{"error_code": 117, "error_msg": "agent not found or offline", "content": {"<json>": {"value": [
			{"bk_agent_id": %q, "procName": "oddd", "setupPath": "<any>", "funcID": "", "instanceID": "", "result": "agent not found or offline", "isAuto": false}]}}}`, agent))
	}
	ended := harness.Object{}
	harness.Eventually(t, "all keys to end", func() bool {
		data := poll(s, task)
		if got := slices.Sorted(maps.Keys(data)); !slices.Equal(got, keys) {
			t.Fatalf("keys %q, want %q", got, keys)
		}
		open := 0
		for key, entry := range data {
			if entry.(harness.Object)["error_code"] == 115.0 {
				open++
				if ended[key] != nil {
					t.Fatalf("%s was at %v and is handled again", key, ended[key])
				}
				continue
			}
			if text := fmt.Sprint(entry); ended[key] != nil && ended[key] != text {
				t.Fatalf("%s changed from %v to %s", key, ended[key], text)
			}
			ended[key] = fmt.Sprint(entry)
		}
		return open == 0
	})
	data := poll(s, task)
	if r := harness.ParseResult(t, data[keys[2]]); r.Code != 0 || !r.Hosted {
		t.Errorf("live agent: %+v, want success beside unknown agents", r)
	}
	if r := harness.ParseResult(t, data[keys[1]]); r.Code != 0 || r.PID != -1 {
		t.Errorf("query: %+v", r)
	}
}

// TestMultiMixesOperations: one call, many operations, each with its own result.
func TestMultiMixesOperations(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	processes := map[string]*harness.Process{}
	dirs := map[string]string{}
	var starts []harness.Object
	names := []string{
		"started", "stopped", "queried", "hosted", "unhosted", "restarted", "reloaded", "killed",
		"illegal", "bad",
	}
	for _, name := range names {
		p, dir := odd(t, s, name)
		p.Control["reload_cmd"] = "kill -HUP $(cat oddd.pid)"
		processes[name], dirs[name] = p, dir
		if name != "started" {
			starts = append(starts, p.Request(0))
		}
	}
	for key, entry := range s.AwaitTask(multi(s, starts...)) {
		harness.ParseResult(t, entry).Want(t, key, 0)
	}
	processes["bad"].Identity["user"] = ""
	before := map[string]int{}
	for _, name := range names[1:] {
		before[name] = harness.ReadPID(t, dirs[name]+"/oddd.pid")
	}

	ops := map[string]struct {
		op, code int
		hosted   bool
	}{
		"started": {0, 0, true}, "stopped": {1, 0, false}, "queried": {2, 0, true}, "hosted": {3, 0, true},
		"unhosted":  {4, 0, false},
		"restarted": {7, 0, true}, "reloaded": {8, 0, true}, "killed": {9, 0, false}, "illegal": {6, 832, false},
		"bad": {0, 65535, false},
	}
	var requests []harness.Object
	for _, name := range names {
		requests = append(requests, processes[name].Request(ops[name].op))
	}
	data := s.AwaitTask(multi(s, requests...))
	if len(data) != len(names) {
		t.Errorf("%d keys, want %d", len(data), len(names))
	}
	for _, name := range names {
		r := harness.ParseResult(t, data[processes[name].Key()])
		if o := ops[name]; r.Code != o.code || r.Hosted != o.hosted {
			t.Errorf("%s: code %d (%s), hosted %v, want %d, %v", name, r.Code, r.Msg, r.Hosted, o.code, o.hosted)
		}
	}
	lives := map[string]bool{
		"queried": true, "hosted": true, "unhosted": true, "reloaded": true, "illegal": true,
		"bad": true,
	}
	for name, pid := range before {
		if harness.Alive(pid) != lives[name] {
			t.Errorf("%s: pid %d is alive %v, want %v", name, pid, !lives[name], lives[name])
		}
	}
	if now := harness.ReadPID(t, dirs["restarted"]+"/oddd.pid"); now == before["restarted"] || !harness.Alive(now) {
		t.Errorf("restarted: pid %d, alive %v, before %d", now, harness.Alive(now), before["restarted"])
	}
}

func TestDuplicatesInOneCall(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	t.Run("identical starts are one", func(t *testing.T) {
		t.Parallel()
		p, dir := odd(t, s, "identical")
		data := s.AwaitTask(multi(s, p.Request(0), p.Request(0)))
		harness.ParseResult(t, data[p.Key()]).Want(t, "start", 0)
		if n := harness.Starts(t, dir); n != 1 || len(data) != 1 {
			t.Errorf("%sstarted %d times, %d keys", harness.MoreThan(1, n), n, len(data))
		}
	})
	t.Run("different ones run in order and the last is shown", func(t *testing.T) {
		t.Parallel()
		p, dir := odd(t, s, "ordered")
		data := s.AwaitTask(multi(s, p.Request(0), p.Request(1), p.Request(0)))
		if r := harness.ParseResult(t, data[p.Key()]).Want(t, "second start", 0); !r.Hosted || len(data) != 1 {
			t.Errorf("hosted %v, %d keys", r.Hosted, len(data))
		}
		if n := harness.Starts(t, dir); n != 2 {
			t.Errorf("%sstarted %d times, want 2", harness.MoreThan(2, n), n)
		}
		data = s.AwaitTask(multi(s, p.Request(1), p.Request(2)))
		if r := harness.ParseResult(t, data[p.Key()]); r.Code != 0 || r.PID != -1 {
			t.Errorf("query after the stop of the same call: %+v", r)
		}
	})
	t.Run("another spec is another operation", func(t *testing.T) {
		t.Parallel()
		p, dir := odd(t, s, "respecified")
		first := p.Request(0)
		p.Policy = harness.Object{"start_check_secs": 1, "start_retries": 9}
		data := s.AwaitTask(multi(s, first, p.Request(0)))
		harness.ParseResult(t, data[p.Key()]).Want(t, "second start", 828)
		if n := harness.Starts(t, dir); n != 1 {
			t.Errorf("%sstarted %d times", harness.MoreThan(1, n), n)
		}
	})
	t.Run("queries are one, whatever their specs", func(t *testing.T) {
		t.Parallel()
		p, _ := odd(t, s, "queried")
		other := p.Request(2)
		other["spec"] = nil
		if data := s.AwaitTask(multi(s, p.Request(2), p.Request(2), other)); len(data) != 1 {
			t.Errorf("keys %v", data)
		} else if r := harness.ParseResult(t, data[p.Key()]); r.Code != 0 || r.PID != -1 {
			t.Errorf("query: %+v", r)
		}
	})
}

// TestKeysAreSpeltAsAsked: an agent has several names, and each answer uses the one that it was asked under.
func TestKeysAreSpeltAsAsked(t *testing.T) {
	t.Parallel()
	const stable = "020000000242010a00002f17521298676503"
	s := harness.Start(t, binaries.drover, "--agent-id", stable)
	host := harness.Object{"ip": "127.0.0.1", "bk_cloud_id": 0}
	for what, c := range map[string]struct {
		target harness.Object
		agents []string
	}{
		"by id":       {harness.Object{"agent_id_list": []string{stable}}, []string{stable}},
		"by cloud:ip": {harness.Object{"agent_id_list": []string{harness.Agent}}, []string{harness.Agent}},
		"by both": {
			harness.Object{"agent_id_list": []string{harness.Agent, stable}},
			[]string{harness.Agent, stable},
		},
		"by host": {harness.Object{"hosts": []any{host}}, []string{harness.Agent}},
		"the list wins": {harness.Object{
			"hosts":         []any{harness.Object{"ip": "10.9.9.9", "bk_cloud_id": 7}},
			"agent_id_list": []string{stable},
		}, []string{stable}},
		"an empty list": {
			harness.Object{"hosts": []any{host}, "agent_id_list": []string{}},
			[]string{harness.Agent},
		},
		"a null list":      {harness.Object{"hosts": []any{host}, "agent_id_list": nil}, []string{harness.Agent}},
		"a null host list": {harness.Object{"hosts": nil, "agent_id_list": []string{stable}}, []string{stable}},
		"numbers as strings": {harness.Object{"hosts": []any{harness.Object{
			"ip": "127.0.0.1", "bk_cloud_id": "0",
			"bk_supplier_id": "0",
		}}}, []string{harness.Agent}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, name := range []string{"nginx_1", "a b", "x:y", "nginx 进程", ">", "*.proc", `quo"te\`, " padded "} {
				request := harness.Object{
					"meta":    harness.Object{"namespace": "GSEKIT_BIZ_3", "name": name},
					"op_type": 2, "spec": nil,
				}
				maps.Copy(request, c.target)
				data := s.AwaitTask(s.Call("operate_proc_v2", request)["task_id"].(string))
				if len(data) != len(c.agents) {
					t.Errorf("%d keys, want %d", len(data), len(c.agents))
				}
				for _, agent := range c.agents {
					r := harness.ParseResult(t, data[agent+":GSEKIT_BIZ_3:"+name])
					if r.Code != 0 || r.Item["processName"] != name ||
						!strings.Contains(r.Content, `"bk_agent_id":"`+agent+`"`) {
						t.Errorf("%q by %s: %+v", name, agent, r)
					}
				}
			}
		})
	}
}
