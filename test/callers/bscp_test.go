package callers_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"drover/internal/test/harness"
)

// bscp is bk-bscp: the gateway's paths without a slash at the end, ids only, types that decode strictly, and no look at
// the HTTP status.
type bscp struct{ *caller }

func newBSCP(t *testing.T, s *harness.Server) bscp {
	return bscp{&caller{t: t, server: s, headers: map[string]string{
		"Content-Type": "application/json", "X-Bkapi-Authorization": authorization(), "X-Bk-Tenant-Id": "",
	}}}
}

const bscpProc = "/api/bk-gse/prod/api/v2/proc/"

type (
	bscpReply struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	bscpEntry struct {
		Code    int    `json:"error_code"`
		Msg     string `json:"error_msg"`
		Content string `json:"content"`
	}
	bscpInstance struct {
		Cmdline       string  `json:"cmdline"`
		ProcessName   string  `json:"processName"`
		Version       string  `json:"version"`
		Health        string  `json:"health"`
		IsAuto        bool    `json:"isAuto"`
		Stat          string  `json:"stat"`
		UTime         string  `json:"utime"`
		STime         string  `json:"stime"`
		FreeVMem      string  `json:"freeVMem"`
		StartTime     string  `json:"startTime"`
		PID           int     `json:"pid"`
		CPU           float64 `json:"cpuUsage"`
		CPUAverage    float64 `json:"cpuUsageAve"`
		Mem           float64 `json:"phyMemUsage"`
		UsedMem       int64   `json:"usePhyMem"`
		Disk          int64   `json:"diskSize"`
		Threads       int     `json:"threadCount"`
		Elapsed       int64   `json:"elapsedTime"`
		RegisterTime  int64   `json:"register_time"`
		LastStartTime int64   `json:"last_start_time"`
		ReportTime    int64   `json:"report_time"`
	}
)

func (b bscp) call(name string, body any, into any) bscpReply {
	b.t.Helper()
	_, data := b.send(http.MethodPost, bscpProc+name, body)
	var reply bscpReply
	if err := json.Unmarshal(data, &reply); err != nil {
		b.t.Fatalf("%s: %v: %s", name, err, data)
	}
	if reply.Code == 0 {
		if err := json.Unmarshal(reply.Data, into); err != nil {
			b.t.Fatalf("%s: %v: %s", name, err, data)
		}
	}
	return reply
}

func (b bscp) item(d daemon, op int, stop string) object {
	return object{
		"meta": object{"namespace": "GSEKIT_BIZ_3", "name": "oddd_1"}, "op_type": op,
		"agent_id_list": []string{agentID},
		"spec": object{
			"identity": d.identity,
			"control": object{
				"start_cmd": d.start, "stop_cmd": stop, "restart_cmd": "", "reload_cmd": "",
				"kill_cmd": "",
			},
			"monitor_policy": object{"auto_type": 1, "start_check_secs": 1, "op_timeout": 60},
		},
	}
}

// operate submits without a look at the code, as BSCP does, and polls; any code but 0, or a missing key, is a failure.
func (b bscp) operate(d daemon, op int, stop string) bscpEntry {
	b.t.Helper()
	var submitted struct {
		Task string `json:"task_id"`
	}
	b.call("operate_proc_multi", object{"proc_operate_req": []any{b.item(d, op, stop)}}, &submitted)
	var entry bscpEntry
	b.eventually("the step to end", func() bool {
		var data map[string]bscpEntry
		if reply := b.call("get_proc_operate_result_v2", object{"task_id": submitted.Task}, &data); reply.Code != 0 {
			b.t.Fatalf("the step is aborted: %+v", reply)
		}
		var ok bool
		if entry, ok = data[agentID+":GSEKIT_BIZ_3:oddd_1"]; !ok {
			b.t.Fatalf("no result: %v", data)
		}
		return entry.Code != 115
	})
	return entry
}

// status is what compare and finalize read: hosted if any instance is, and the last pid.
func (b bscp) status(d daemon) (pid int, hosted bool) {
	b.t.Helper()
	var content struct {
		IP      string `json:"ip"`
		Process []struct {
			ProcName string         `json:"procname"`
			Instance []bscpInstance `json:"instance"`
		} `json:"process"`
	}
	e := b.operate(d, 2, "")
	if err := json.Unmarshal([]byte(e.Content), &content); e.Code != 0 || err != nil || len(content.Process) == 0 ||
		len(content.Process[0].Instance) == 0 {
		b.t.Fatalf("%+v: %v", e, err)
	}
	for _, i := range content.Process[0].Instance {
		pid, hosted = i.PID, hosted || i.IsAuto
	}
	return pid, hosted
}

func TestBSCP(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--agent-id", agentID)
	b := newBSCP(t, s)
	d := newDaemon(t, s, "bscp")
	for _, step := range []struct {
		op, code int
		running  bool
		hosted   bool
	}{
		{0, 0, true, true},
		{0, 828, true, true},
		{7, 0, true, true},
		{4, 0, true, false},
		{3, 0, true, true},
		{1, 0, false, false},
		{1, 829, false, false},
		{9, 829, false, false},
	} {
		if e := b.operate(d, step.op, ""); e.Code != step.code {
			t.Errorf("op %d: %+v, want %d", step.op, e, step.code)
		}
		if pid, hosted := b.status(d); pid > 0 != step.running || pid == 0 || hosted != step.hosted {
			t.Errorf("after op %d: pid %d, hosted %v", step.op, pid, hosted)
		}
	}
	// Update of a hosted process: the new spec is hosted, and if it runs it is stopped and started.
	b.operate(d, 0, "")
	if e := b.operate(d, 3, "kill $(cat oddd.pid)"); e.Code != 0 {
		t.Errorf("update: %+v", e)
	}
	if pid, _ := b.status(d); pid > 0 {
		if e := b.operate(d, 1, "kill $(cat oddd.pid)"); e.Code != 0 {
			t.Errorf("stop: %+v", e)
		}
	}
	if e := b.operate(d, 0, "kill $(cat oddd.pid)"); e.Code != 0 {
		t.Errorf("start: %+v", e)
	}
	if e := b.operate(d, 1, "kill $(cat oddd.pid)"); e.Code != 0 {
		t.Errorf("stop: %+v", e)
	}
}

// TestBSCPRefusedSubmit: the task id of a refused submit stays empty, and a poll of that must fail at once.
func TestBSCPRefusedSubmit(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--agent-id", agentID)
	b := newBSCP(t, s)
	var submitted struct {
		Task string `json:"task_id"`
	}
	b.call("operate_proc_multi", object{"proc_operate_req": nil}, &submitted)
	if reply := b.call("get_proc_operate_result_v2", object{"task_id": submitted.Task}, nil); submitted.Task != "" ||
		reply.Code == 0 || string(reply.Data) != "null" {
		t.Errorf("task %q, poll %+v", submitted.Task, reply)
	}
}
