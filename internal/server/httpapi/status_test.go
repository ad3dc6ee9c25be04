package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/spec"

	"github.com/google/go-cmp/cmp"
)

var running = process.Status{
	Known: true, Hosted: true, Want: process.WantRunning, State: "up", ProcName: "nginx",
	RegisteredAt: 1789000000, LastStartAt: 1789000100, ReportedAt: 1789000700,
	Instance: process.Instance{
		PID: 4437, Cmdline: "nginx -g a&b", Stat: "S", StartedAt: 1789000100, Elapsed: 600, CPU: 0.5, CPUAverage: 0.25,
		Mem: 1.5,
		RSS: 1024, VSize: 4096, UserTime: 1.5, SystemTime: 0.25, Threads: 4, Version: "1.24.0", Health: "ok",
	},
}

type statusRow struct {
	Meta struct {
		Namespace string          `json:"namespace"`
		Name      string          `json:"name"`
		Labels    json.RawMessage `json:"labels"`
	} `json:"meta"`
	Host *struct {
		IP       string `json:"ip"`
		Cloud    int    `json:"bk_cloud_id"`
		Supplier int    `json:"bk_supplier_id"`
	} `json:"host"`
	AgentID string  `json:"bk_agent_id"`
	Flag    int     `json:"flag"`
	Status  int     `json:"status"`
	IsAuto  *bool   `json:"isauto"`
	Message string  `json:"message"`
	PID     int     `json:"pid"`
	Version string  `json:"version"`
	Started int64   `json:"last_start_time"`
	Told    int64   `json:"report_time"`
	CPU     float64 `json:"cpu_usage"`
}

func (w *world) rows(path, body string) (rows []statusRow, count int) {
	w.t.Helper()
	var data struct {
		Count *int        `json:"count"`
		Rows  []statusRow `json:"proc_infos"`
	}
	w.post(path, body).ok(w.t, &data)
	if data.Rows == nil {
		w.t.Fatal("proc_infos is no list")
	}
	for _, r := range data.Rows {
		if r.Host == nil || r.IsAuto == nil || r.AgentID == "" || r.Meta.Name == "" || r.Status < 0 || r.Status > 2 ||
			len(r.Meta.Labels) == 0 {
			w.t.Errorf("row lacks what callers read: %+v", r)
		}
	}
	if data.Count != nil {
		count = *data.Count
	}
	return data.Rows, count
}

func TestStatusRows(t *testing.T) {
	id := process.ID{Namespace: "nodeman", Name: "bkmonitorbeat"}
	labels := &process.Spec{Compat: &spec.Compat{Labels: `{"n":7}`}}
	stopped := process.Status{
		Known: true, Want: process.WantStopped, Message: "exited with 1",
		Instance: process.Instance{PID: -1},
	}
	w := newWorld(t)
	w.observed = []store.Observed{
		{Agent: "UAGENT1", Process: id, Status: running, Spec: labels},
		{Agent: "UAGENT3", Process: id, Status: stopped},
	}
	body := `{"meta": {"namespace": "nodeman", "name": "bkmonitorbeat", "labels": {"proc_name": "x"}}, %s}`
	// The store answers in the order of the request, knows nothing of agent 2, and agent 1 is asked for by both its
	// names.
	rows, _ := w.rows(gatewayV2+"get_proc_status_v2",
		fmt.Sprintf(body, `"agent_id_list": ["nobody", "0:10.0.0.1", "02000000024201", "0:2001:db8::7", "1:10.0.0.1"]`))
	type short struct {
		Agent, IP    string
		Cloud        int
		Flag, Status int
		Auto         bool
		PID          int
	}
	var got []short
	for _, r := range rows {
		got = append(got, short{r.AgentID, r.Host.IP, r.Host.Cloud, r.Flag, r.Status, *r.IsAuto, r.PID})
	}
	want := []short{
		{"0:10.0.0.1", "10.0.0.1", 0, 0, 0, false, -1},
		{"02000000024201", "10.0.0.1", 1, 1, 1, true, 4437},
		{"1:10.0.0.1", "10.0.0.1", 1, 1, 1, true, 4437},
		{"0:2001:db8::7", "2001:db8::7", 0, 2, 2, false, -1},
		{"nobody", "", 0, 0, 0, false, -1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
	if r := rows[1]; r.Version != "1.24.0" || r.Started != 1789000100 || r.Told != 1789000700 || r.CPU != 0.5 ||
		string(r.Meta.Labels) != `{"n":7}` {
		t.Errorf("row is %+v", r)
	}
	if rows[3].Message != "exited with 1" {
		t.Errorf("message is %q", rows[3].Message)
	}

	t.Run("by host, first generation", func(t *testing.T) {
		rows, _ := w.rows(esbGSE+"get_proc_status/",
			fmt.Sprintf(body,
				`"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": "1", "bk_supplier_id": 5}, {"ip": "10.9.9.9", "bk_cloud_id": 3}]`))
		if len(rows) != 2 || rows[0].Host.Supplier != 5 || rows[0].Status != 1 || rows[0].AgentID != "02000000024201" ||
			rows[1].Host.IP != "10.9.9.9" || rows[1].Host.Cloud != 3 || rows[1].Status != 0 {
			t.Errorf("rows are %+v", rows)
		}
	})
	t.Run("after an unhost nothing is expected", func(t *testing.T) {
		unhosted := running
		unhosted.Hosted, unhosted.Want = false, process.WantNothing
		w.observed[0].Status = unhosted
		rows, _ := w.rows(esbGSE+"get_proc_status_v2/",
			fmt.Sprintf(body, `"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1}]`))
		if r := rows[0]; r.Flag != 0 || r.Status != 1 || *r.IsAuto || r.PID != 4437 {
			t.Errorf("row is %+v", r)
		}
	})
	t.Run("the store fails", func(t *testing.T) {
		w.storeErr = errors.New("disk is full")
		w.post(esbGSE+"get_proc_status_v2/", fmt.Sprintf(body, `"agent_id_list": ["a"]`)).refused(t, 200, 1306201)
		w.post(gatewayV2+"sync_proc_status", `{"meta": {"namespace": "ns"}}`).refused(t, 502, 1650201)
	})
}

func TestStatusNeedsMetaAndTargets(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{
		`{}`, `{"meta": {"namespace": "n", "name": "x"}}`,
		`{"meta": {"namespace": "n"}, "agent_id_list": ["a"]}`, `{"meta": "n", "agent_id_list": ["a"]}`,
		`{"meta": {"namespace": "n", "name": "x"}, "agent_id_list": "a"}`,
	} {
		for _, path := range []string{
			esbGSE + "get_proc_status/", esbGSE + "get_proc_status_v2/",
			gatewayV2 + "get_proc_status_v2",
		} {
			w.post(path, body).refused(t, 200, 1306406)
		}
	}
}

func TestSyncPages(t *testing.T) {
	w := newWorld(t)
	for i := range 25 {
		w.observed = append(w.observed, store.Observed{
			Agent: "UAGENT1", Process: process.ID{Namespace: "ns", Name: fmt.Sprintf("p%02d", i)}, Status: running,
		})
	}
	w.observed = append(w.observed,
		store.Observed{Agent: "UAGENT2", Process: process.ID{Namespace: "elsewhere", Name: "p"}, Status: running},
		store.Observed{Agent: "UGONE", Process: process.ID{Namespace: "left", Name: "p"}, Status: running})
	var names []string
	for start := 0; start < 30; start += 10 {
		rows, count := w.rows(esbGSE+"sync_proc_status/",
			fmt.Sprintf(`{"meta": {"namespace": "ns"}, "page": {"start": "%d", "limit": 10, "return_total": true}}`,
				start))
		if count != 25 {
			t.Errorf("count is %d, want 25", count)
		}
		for _, r := range rows {
			names = append(names, r.Meta.Name)
			if r.Host.IP != "10.0.0.1" || r.Host.Cloud != 1 || r.AgentID != "02000000024201" || r.Status != 1 ||
				!*r.IsAuto {
				t.Errorf("row is %+v", r)
			}
		}
	}
	if got := strings.Join(names, " "); len(names) != 25 || !strings.HasPrefix(got, "p00 p01") ||
		!strings.HasSuffix(got, "p23 p24") {
		t.Errorf("pages hold %s", got)
	}
	if rows, count := w.rows(gatewayV2+"sync_proc_status",
		`{"meta": {"namespace": "nothing"}, "page": {"start": 0, "limit": 1000}}`); len(rows) != 0 || count != 0 {
		t.Errorf("an empty namespace has %d rows of %d", len(rows), count)
	}
	if rows, _ := w.rows(gatewayV2+"sync_proc_status", `{"meta": {"namespace": "ns"}}`); len(rows) != 25 {
		t.Errorf("without a page there are %d rows", len(rows))
	}
	t.Run("refused", func(t *testing.T) {
		for _, body := range []string{
			`{}`, `{"meta": {}}`, `{"meta": {"namespace": "ns"}, "page": {"limit": 1001}}`,
			`{"meta": {"namespace": "ns"}, "page": {"limit": 0}}`,
			`{"meta": {"namespace": "ns"}, "page": {"start": -1}}`,
			`{"meta": {"namespace": "ns"}, "page": {"start": 99999999999}}`,
			`{"meta": {"namespace": "ns"}, "page": []}`, `{"meta": {"namespace": "ns"}, "page": {"limit": "many"}}`,
		} {
			w.post(esbGSE+"sync_proc_status/", body).refused(t, 200, 1306406)
		}
	})
}

func TestQueryContent(t *testing.T) {
	w := newWorld(t)
	w.answer = func(store.Request, store.Target) *process.Outcome {
		return &process.Outcome{Text: process.Success, Hosted: true, Status: &running}
	}
	e := w.poll(w.taskID(gatewayV2+"operate_proc_v2",
		`{"meta": {"namespace": "ns", "name": "nginx_1"}, "op_type": 2, "agent_id_list": ["02000000024201"], "spec": {"identity": {"proc_name": "", "user": ""}}}`))["02000000024201:ns:nginx_1"]
	var got any
	decodeText(t, e.Content, &got)
	want := map[string]any{
		"ip": "10.0.0.1", "bk_agent_id": "02000000024201",
		"utctime": "2026-09-10 08:38:20", "utctime2": "2026-09-10 00:38:20", "timezone": 8.0,
		"process": []any{map[string]any{"procname": "nginx", "instance": []any{map[string]any{
			"processName": "nginx_1", "pid": 4437.0, "isAuto": true, "version": "1.24.0", "health": "ok",
			"cmdline": "nginx -g a&b",
			"stat":    "S", "startTime": "2026-09-10 08:28:20", "cpuUsage": 0.5, "cpuUsageAve": 0.25,
			"phyMemUsage": 1.5,
			"usePhyMem":   1024.0,
			"diskSize":    -1.0, "utime": "1.50", "stime": "0.25", "freeVMem": "0", "threadCount": 4.0,
			"elapsedTime":   600.0,
			"register_time": 1789000000.0, "last_start_time": 1789000100.0, "report_time": 1789000700.0,
		}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("content differs (-want +got):\n%s", diff)
	}
}
