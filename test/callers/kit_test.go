package callers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"drover/internal/test/harness"
)

// kit is bk-process-config-manager: credentials in body and header alike, paths of the later gateway below the ESB's
// root, always with a slash at the end, one host an item, names that end in a number.
type kit struct{ *caller }

func newKIT(t *testing.T, s *harness.Server) kit {
	return kit{&caller{t: t, server: s, headers: map[string]string{
		"Content-Type": "application/json", "X-Bkapi-Authorization": authorization(),
		"X-Bkapi-App-Code":   harness.AppCode,
		"X-Bkapi-App-Secret": harness.AppSecret, "X-Bkapi-User-Name": "admin", "blueking-language": "zh-hans",
	}, inBody: object{
		"bk_app_code": harness.AppCode, "bk_app_secret": harness.AppSecret, "bk_username": "admin",
		"no_request": true,
	}}}
}

// call fails on any other status than 200 before it looks at the body, and fills in what a reply lacks.
func (k kit) call(root, name string, body object) object {
	k.t.Helper()
	status, data := k.send(http.MethodPost, root+name+"/", body)
	if status != http.StatusOK {
		k.t.Fatalf("%s: HTTP %d", name, status)
	}
	var reply object
	if err := json.Unmarshal(data, &reply); err != nil {
		k.t.Fatalf("%s: %v", name, err)
	}
	if _, ok := reply["result"]; !ok {
		reply["result"] = reply["code"] == 0.0
	}
	return reply
}

const (
	kitNested = "/api/c/compapi/v2/gse/api/v2/proc/"
	kitBare   = "/stage/root/"
	kitNS     = "GSEKIT_BIZ_3"
)

func (k kit) item(d daemon, name string, op int, command string) object {
	control := object{"start_cmd": d.start, "stop_cmd": "", "restart_cmd": "", "reload_cmd": command, "kill_cmd": ""}
	identity := object{"index_key": ""}
	maps.Copy(identity, d.identity)
	return object{
		"meta": object{
			"namespace": kitNS, "name": name,
			"labels": object{"bk_process_name": "oddd", "bk_process_id": 77},
		},
		"op_type": op, "agent_id_list": []string{harness.Agent},
		"spec": object{
			"identity": identity, "control": control, "resource": object{"cpu": 10, "mem": 10},
			"alive_monitor_policy": object{"auto_type": 1, "start_check_secs": 1, "op_timeout": 60},
		},
	}
}

// run submits a batch and polls it as KIT's pipeline does: a missing key counts as 115, 1000115 is polled on.
func (k kit) run(root string, items ...object) map[string]object {
	k.t.Helper()
	reply := k.call(root, "operate_proc_multi", object{"proc_operate_req": items})
	if reply["result"] != true {
		k.t.Fatalf("submit: %v", reply)
	}
	task := reply["data"].(object)["task_id"]
	ended := map[string]object{}
	k.eventually("the batch to end", func() bool {
		reply := k.call(root, "get_proc_operate_result_v2", object{"task_id": task})
		if reply["code"] == 1000115.0 {
			return false
		}
		data := reply["data"].(object)
		for _, it := range items {
			key := it["agent_id_list"].([]string)[0] + ":" + kitNS + ":" + it["meta"].(object)["name"].(string)
			e, ok := data[key].(object)
			if !ok || e["error_code"] == 115.0 {
				return false
			}
			ended[key] = e
		}
		return true
	})
	return ended
}

// pidOf reads what the check step reads.
func (k kit) pidOf(e object) (pid int, hosted bool) {
	k.t.Helper()
	var content struct {
		Process []struct {
			Instance []struct {
				PID    int  `json:"pid"`
				IsAuto bool `json:"isAuto"`
			} `json:"instance"`
		} `json:"process"`
	}
	if err := json.Unmarshal([]byte(e["content"].(string)), &content); err != nil || len(content.Process) == 0 ||
		len(content.Process[0].Instance) == 0 {
		k.t.Fatalf("content %v: %v", e["content"], err)
	}
	return content.Process[0].Instance[0].PID, content.Process[0].Instance[0].IsAuto
}

func TestKIT(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	k := newKIT(t, s)
	for _, root := range []string{kitNested, kitBare} {
		one, two := newDaemon(t, s, "one"), newDaemon(t, s, "two")
		name := func(n int) string { return fmt.Sprintf("oddd_%d%d", n, len(root)) }
		both := func(op int) map[string]object {
			return k.run(root, k.item(one, name(1), op, ""), k.item(two, name(2), op, ""))
		}
		for _, step := range []struct{ op, code int }{
			{2, 0},
			{0, 0},
			{0, 828},
			{7, 0},
			{3, 0},
			{4, 0},
			{1, 0},
			{1, 829},
			{9, 829},
			{5, 832},
		} {
			for key, e := range both(step.op) {
				if e["error_code"] != float64(step.code) {
					t.Errorf("op %d: %s is %v, want %d", step.op, key, e, step.code)
				}
			}
		}
		// The reload command is required before it is asked for; a failure's text is the command's output.
		both(0)
		failed := k.run(root, k.item(one, name(1), 8, "echo no such config; exit 3"))
		for _, e := range failed {
			if e["error_code"] != 65535.0 || !strings.Contains(e["error_msg"].(string), "no such config") {
				t.Errorf("failed reload: %v", e)
			}
		}
		for _, e := range both(2) {
			if pid, hosted := k.pidOf(e); pid <= 0 || !hosted {
				t.Errorf("after it: pid %d, hosted %v", pid, hosted)
			}
		}
	}
}

// TestKITSync is the status sync: 1,000 instances a task, read without a look at the code, until as many are recorded
// as were answered; an unknown key is an exception. Processes without a status are then looked for in pages.
func TestKITSync(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	k := newKIT(t, s)
	wanted := map[string]bool{}
	items := make([]object, 1000)
	for i := range items {
		name := fmt.Sprintf("nginx_%d", i)
		items[i] = object{
			"meta": object{"namespace": kitNS, "name": name, "labels": object{"bk_process_id": i}}, "op_type": 2,
			"agent_id_list": []string{harness.Agent},
			"spec": object{
				"identity": object{
					"index_key": "", "proc_name": "nginx", "setup_path": "/nowhere",
					"pid_path": "/nowhere/" + name, "user": "root",
				},
				"control":              object{},
				"alive_monitor_policy": object{"auto_type": 1, "start_check_secs": nil, "op_timeout": nil},
			},
		}
		wanted[harness.Agent+":"+kitNS+":"+name] = true
	}
	task := k.call(kitNested, "operate_proc_multi", object{"proc_operate_req": items})["data"].(object)["task_id"]
	recorded := map[string]bool{}
	k.eventually("all instances to be recorded", func() bool {
		data := k.call(kitNested, "get_proc_operate_result_v2", object{"task_id": task})["data"].(object)
		for key, v := range data {
			if !wanted[key] {
				t.Fatalf("KeyError: %s", key)
			}
			if e := v.(object); e["error_code"] == 0.0 && !recorded[key] {
				recorded[key] = true
				if pid, hosted := k.pidOf(e); pid > 0 || hosted {
					t.Errorf("%s: pid %d, hosted %v", key, pid, hosted)
				}
			}
		}
		return len(recorded) == len(data)
	})
	if len(recorded) != 1000 {
		t.Errorf("%d instances recorded", len(recorded))
	}

	hosted := make([]object, 60)
	for i := range hosted {
		hosted[i] = items[i]
		hosted[i]["op_type"] = 3
		hosted[i]["spec"].(object)["alive_monitor_policy"] = object{"auto_type": 2}
	}
	k.run(kitNested, hosted...)
	page := func(start int, total bool) object {
		p := object{"start": start, "limit": 10}
		if total {
			p["return_total"] = true
		}
		return k.call(kitNested, "sync_proc_status", object{
			"meta": object{"namespace": kitNS}, "page": p,
			"_request": nil,
		})["data"].(object)
	}
	var count int
	k.eventually("the dump to be complete", func() bool {
		count = int(page(0, true)["count"].(float64))
		return count == len(hosted)
	})
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		names []string
	)
	for start := 0; start < count; start += 10 {
		wg.Go(func() {
			for _, r := range page(start, false)["proc_infos"].([]any) {
				row := r.(object)
				_ = row["isauto"].(bool)
				_ = row["host"].(object)["bk_cloud_id"].(float64)
				mu.Lock()
				names = append(names, row["host"].(object)["ip"].(string)+row["meta"].(object)["name"].(string))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(names)
	if len(slices.Compact(names)) != len(hosted) {
		t.Errorf("%d different rows", len(names))
	}
}
