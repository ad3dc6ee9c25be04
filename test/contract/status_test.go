package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// registration is the body of a registration call for a process.
func registration(p *harness.Process) harness.Object {
	body := p.Request(0)
	spec := body["spec"].(harness.Object)
	spec["monitor_policy"] = spec["alive_monitor_policy"]
	delete(spec, "alive_monitor_policy")
	spec["resource"] = harness.Object{"cpu": 0, "mem": 0}
	delete(body, "op_type")
	delete(body, "agent_id_list")
	body["hosts"] = []any{harness.Object{"ip": "127.0.0.1", "bk_cloud_id": 0, "bk_supplier_id": 0}}
	return body
}

// register calls a registration endpoint and wants a code under the key with the supplier.
func register(t *testing.T, p *harness.Process, endpoint string, code int) {
	t.Helper()
	data := p.Server.Call(endpoint, registration(p))
	entry, _ := data["0:0:127.0.0.1:"+p.Namespace+":"+p.Name].(harness.Object)
	if entry["error_code"] != float64(code) || entry["content"] != "" {
		t.Fatalf("%s: %v, want code %d", endpoint, data, code)
	}
}

// TestRowsFollowTheOperations: flag, status and isauto after each step of a process's life, in both status calls alike.
func TestRowsFollowTheOperations(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, _ := odd(t, s, "followed")
	operate := func(op int) func(*testing.T) {
		return func(t *testing.T) { p.Operate(op).Want(t, fmt.Sprintf("op %d", op), 0) }
	}
	const running = -2 // any pid
	for _, step := range []struct {
		name         string
		do           func(*testing.T)
		flag, status int
		auto         bool
		pid          int
	}{
		{"nothing", func(*testing.T) {}, 0, 0, false, -1},
		{"register", func(t *testing.T) { register(t, p, "register_proc_info", 0) }, 2, 2, false, -1},
		{"register again", func(t *testing.T) { register(t, p, "register_proc_info", 850) }, 2, 2, false, -1},
		{"start", operate(0), 1, 1, true, running},
		{"update", func(t *testing.T) { register(t, p, "update_proc_info", 0) }, 1, 1, true, running},
		{"unhost", operate(4), 0, 1, false, running},
		{"host", operate(3), 1, 1, true, running},
		{"reload", func(t *testing.T) {
			p.Control["reload_cmd"] = "true"
			operate(8)(t)
		}, 1, 1, true, running},
		{"restart", operate(7), 1, 1, true, running},
		{"stop", operate(1), 2, 2, false, -1},
		{"unhost what is stopped", operate(4), 0, 2, false, -1},
		{"start again", operate(0), 1, 1, true, running},
		{"kill", operate(9), 2, 2, false, -1},
		{"unregister", func(t *testing.T) { register(t, p, "unregister_proc_info", 0) }, 0, 0, false, -1},
		{"unregister again", func(t *testing.T) { register(t, p, "unregister_proc_info", 829) }, 0, 0, false, -1},
		{"update of an unknown one", func(t *testing.T) { register(t, p, "update_proc_info", 0) }, 2, 2, false, -1},
	} {
		step.do(t)
		right := func(r harness.Object) bool {
			pid := int(r["pid"].(float64))
			return r["flag"] == float64(step.flag) && r["status"] == float64(step.status) && r["isauto"] == step.auto &&
				(pid == step.pid || step.pid == running && pid > 1)
		}
		var status harness.Object
		var listed []harness.Object
		// What an agent observes reaches the server a moment after the result.
		harness.Eventually(t, step.name+" to be seen in the rows", func() bool {
			status = p.Row()
			var count int
			count, listed = rows(s, p.Namespace)
			known := min(1, step.flag+step.status)
			return right(status) && count == known && len(listed) == known && (known == 0 || right(listed[0]))
		})
		if host := status["host"]; fmt.Sprint(host) != "map[bk_cloud_id:0 bk_supplier_id:0 ip:127.0.0.1]" ||
			status["bk_agent_id"] != harness.Agent {
			t.Errorf("%s: host %v, agent %v", step.name, host, status["bk_agent_id"])
		}
		if len(listed) == 1 && fmt.Sprint(listed[0]["meta"]) != "map[labels:map[] name:followed namespace:odd]" {
			t.Errorf("%s: meta %v", step.name, listed[0]["meta"])
		}
		if registered := listed != nil && listed[0]["register_time"].(float64) > 0; registered != (len(listed) == 1) {
			t.Errorf("%s: register_time is missing in %v", step.name, listed)
		}
	}
}

// TestSyncIsPaged: pages of a namespace are stable, in order, and count all of it.
func TestSyncIsPaged(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	labels := map[string]any{
		"b": harness.Object{"text": "x"}, "a": harness.Object{"number": 7.0, "list": []any{1.0, nil}},
		"d": []any{"a", "list"}, "c": "a string", "e": nil,
	}
	for name, l := range labels {
		p, _ := odd(t, s, name)
		body := registration(p)
		body["meta"] = harness.Object{"namespace": "paged", "name": name, "labels": l}
		s.Call("register_proc_info", body)
	}
	other, _ := odd(t, s, "elsewhere")
	register(t, other, "register_proc_info", 0)
	harness.Eventually(t, "all rows to be there", func() bool {
		count, _ := rows(s, "paged")
		return count == len(labels)
	})
	seen := map[string]any{}
	var names []string
	for start := 0; start < 6; start += 2 {
		data := s.Call("sync_proc_status", harness.Object{
			"meta": harness.Object{"namespace": "paged"}, "page": harness.Object{
				"start": strconv.Itoa(start),
				"limit": "2", "return_total": true,
			}, "_request": 1,
		})
		if data["count"] != float64(len(labels)) {
			t.Errorf("count %v from row %d", data["count"], start)
		}
		for _, r := range data["proc_infos"].([]any) {
			meta := r.(harness.Object)["meta"].(harness.Object)
			names = append(names, meta["name"].(string))
			seen[meta["name"].(string)] = meta["labels"]
		}
	}
	slices.Sort(names) // they are in the order in which they came
	if want := slices.Sorted(maps.Keys(labels)); !slices.Equal(names, want) {
		t.Errorf("pages hold %q, want %q", names, want)
	}
	labels["e"] = harness.Object{} // null is none
	if got, want := fmt.Sprint(seen), fmt.Sprint(labels); got != want {
		t.Errorf("labels %s, want %s", got, want)
	}
}

// TestValuesAreThoseOfProc compares what a query and a row say of a busy process with /proc.
func TestValuesAreThoseOfProc(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	dir := harness.Workdir(t)
	const script = "#!/bin/sh\nwhile :; do :; done\n"
	if err := harness.WriteProgram(dir+"/burner", []byte(script)); err != nil {
		t.Fatal(err)
	}
	p := &harness.Process{
		Server: s, Namespace: "odd", Name: "busy", Policy: harness.Object{"start_check_secs": 1},
		Identity: harness.Object{
			"proc_name": "burner", "setup_path": dir, "pid_path": dir + "/burner.pid",
			"user": "root",
		},
		Control: harness.Object{"start_cmd": "./burner & echo $! >burner.pid"},
	}
	p.Operate(0).Want(t, "start", 0)
	pid := harness.ReadPID(t, dir+"/burner.pid")
	var q harness.Result
	harness.Eventually(t, "the use of the processor to be measured", func() bool {
		q = p.Query()
		return number(t, q.Item, "cpuUsage") > 0 && number(t, q.Item, "utime") > 0
	})
	now := time.Now()
	stat := harness.Stat(pid)
	if q.PID != pid || len(stat) < 22 {
		t.Fatalf("pid %d, want %d; stat %v", q.PID, pid, stat)
	}
	const hertz = 100 // USER_HZ, the same on every architecture that Go runs on
	field := func(n int) float64 {
		v, err := strconv.ParseFloat(stat[n-3], 64) // proc(5) counts from 1, and stat begins with the third
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	started := bootTime(t) + field(22)/hertz
	between := func(what string, got, low, high float64) {
		t.Helper()
		if got < low || got > high {
			t.Errorf("%s is %v, want %v to %v", what, got, low, high)
		}
	}
	between("utime", number(t, q.Item, "utime"), 0.01, field(14)/hertz)
	between("stime", number(t, q.Item, "stime"), 0, field(15)/hertz)
	between("cpuUsage", number(t, q.Item, "cpuUsage"), 0.01, 100.0/float64(runtime.NumCPU())*1.5)
	between("cpuUsageAve", number(t, q.Item, "cpuUsageAve"), 0.01, 100.0/float64(runtime.NumCPU())*1.5)
	between("threadCount", number(t, q.Item, "threadCount"), 1, 1)
	rss, total := kilobytes(t, fmt.Sprintf("/proc/%d/status", pid), "VmRSS"), kilobytes(t, "/proc/meminfo", "MemTotal")
	between("usePhyMem", number(t, q.Item, "usePhyMem"), rss*0.5, rss*2)
	between("phyMemUsage", number(t, q.Item, "phyMemUsage"), rss/total*50, rss/total*200)
	between("elapsedTime", number(t, q.Item, "elapsedTime"), 0, float64(now.Unix())-started+2)
	start, err := time.ParseInLocation(time.DateTime, q.Item["startTime"].(string), time.Local)
	if err != nil {
		t.Fatal(err)
	}
	between("startTime", float64(start.Unix()), started-2, started+2)
	between("last_start_time", number(t, q.Item, "last_start_time"), started-2, started+2)
	between("report_time", number(t, q.Item, "report_time"), math.Floor(started), float64(now.Unix()+1))
	var document struct {
		Local string `json:"utctime"`
		UTC   string `json:"utctime2"`
	}
	if err := json.Unmarshal([]byte(q.Content), &document); err != nil {
		t.Fatal(err)
	}
	reported := time.Unix(int64(number(t, q.Item, "report_time")), 0)
	if document.Local != reported.Format(time.DateTime) || document.UTC != reported.UTC().Format(time.DateTime) {
		t.Errorf("utctime %q, utctime2 %q, want the local time and UTC of %v", document.Local, document.UTC, reported)
	}
	between("register_time", number(t, q.Item, "register_time"), started-2, float64(now.Unix()+1))
	if q.Item["stat"] != "R" && q.Item["stat"] != "S" || !strings.Contains(q.Item["cmdline"].(string), "./burner") {
		t.Errorf("stat %v, cmdline %v", q.Item["stat"], q.Item["cmdline"])
	}

	var r harness.Object
	harness.Eventually(t, "the row to show the process", func() bool {
		r = p.Row()
		return r["pid"] == float64(pid)
	})
	between("last_start_time of the row", number(t, r, "last_start_time"), started-2, started+2)
	between("report_time of the row", number(t, r, "report_time"), math.Floor(started), float64(time.Now().Unix()+1))
	between("register_time of the row", number(t, r, "register_time"), started-2, float64(time.Now().Unix()+1))
	between("cpu_usage of the row", number(t, r, "cpu_usage"), 0, 100)
	between("mem_usage of the row", number(t, r, "mem_usage"), rss/total*50, rss/total*200)
	p.Operate(9).Want(t, "kill", 0)
}

// number returns a field that is a number, or a text that holds one.
func number(t *testing.T, o harness.Object, name string) float64 {
	t.Helper()
	switch v := o[name].(type) {
	case float64:
		return v
	case string:
		n, err := json.Number(v).Float64()
		if err != nil {
			t.Fatalf("%s is %q", name, v)
		}
		return n
	default:
		t.Fatalf("%s is %v", name, v)
		return 0
	}
}

// bootTime is when the host was started, in Unix seconds.
func bootTime(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "btime" {
			n, err := strconv.ParseFloat(words[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("/proc/stat has no btime")
	return 0
}

// kilobytes reads a line such as "VmRSS:  1234 kB".
func kilobytes(t *testing.T, path, name string) float64 {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == name+":" {
			n, err := strconv.ParseFloat(words[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no %s", path, name)
	return 0
}
