package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPathsAreMatchedByTheirEnd(t *testing.T) {
	w := newWorld(t)
	body := `{"meta": {"namespace": "ns"}}`
	for _, path := range []string{
		"/api/c/compapi/v2/gse/sync_proc_status/", "/api/c/compapi/v2/gse/sync_proc_status",
		"//api/c/compapi/v2//gse/sync_proc_status//",
		"/c/compapi/v2/gse/sync_proc_status/", "/any/prefix/api/c/compapi/v2/gse/sync_proc_status",
		"/component/compapi/v2/gse/sync_proc_status/",
		"/api/v2/proc/sync_proc_status", "/api/bk-gse/prod/api/v2/proc/sync_proc_status/",
		"/api/c/compapi/v2/gse/api/v2/proc/sync_proc_status/",
		"/api//v2/proc/sync_proc_status//",
		"/sync_proc_status", "/api/bk-gse/prod/sync_proc_status/", "/o/esb/api/v2/gse/sync_proc_status/",
		"/component/compapi/v2/gse/sync_proc_status",
		"/procapi/v1/proc/syncstatus", "/gse//procapi/v1/proc/syncstatus/",
	} {
		var data map[string]any
		w.post(path, body).ok(t, &data)
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{
		"/api/c/compapi/v2/gse/no_such_thing/", "/api/c/compapi/gse/operate_proc_v2/",
		"/api/c/compapi/v2/job/operate_proc_v2/", "/api/c/compapi/",
		"/api/c/compapi/v2/gse/xsync_proc_status", "/api/c/compapi/v2/xgse/sync_proc_status",
		"/api/c/compapi/v2/gse/../gse/sync_proc_status/x",
	} {
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}")))
		if got := strings.TrimSpace(rec.Body.String()); rec.Code != 404 ||
			got != `{"result":false,"data":null,"message":"The content does not exist"}` {
			t.Errorf("%s is answered %d %s", path, rec.Code, got)
		}
	}
	for _, path := range []string{
		"/api/v2/proc/no_such_thing", "/", "/procapi/v2/proc/none",
		"/procapi/v1/proc/operate_proc_v2", "/api/v1/operate_proc_v2", "/job/operate_proc_v2x",
		"/api/v2/cluster/operate_proc_v2", "//healthz", "/healthz/", "/a/../healthz",
	} {
		got := w.post(path, "{}")
		got.refused(t, 404, 1640401)
		if got.CodeName != "API_NOT_FOUND" || got.Header.Get("X-Bkapi-Error-Code") != "1640401" ||
			got.Header.Get("Location") != "" {
			t.Errorf("%s is answered %s", path, got.Raw)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		got := w.send(httptest.NewRequest(method, "/api/v2/proc/operate_proc_v2", strings.NewReader("{}")))
		got.refused(t, 405, 1640501)
		if strings.Join(got.Header.Values("Allow"), ",") != "GET,POST" {
			t.Errorf("%s: Allow is %q", method, got.Header.Values("Allow"))
		}
		if got := w.send(httptest.NewRequest(method, esbGSE+"operate_proc_v2/",
			strings.NewReader("{}"))); got.Status != 404 {
			t.Errorf("%s below /compapi/ is answered %d", method, got.Status)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	w := newWorld(t)
	for sent, echoed := range map[string]bool{
		"abc-DEF_0.9:1": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "": false, "a b": false,
		`a"b`: false, "é": false,
	} {
		r := httptest.NewRequest(http.MethodPost, gatewayV2+"sync_proc_status", strings.NewReader("{}"))
		r.Header.Set("X-Bkapi-Request-Id", sent)
		got := w.send(r)
		if got.RequestID != got.Header.Get("X-Bkapi-Request-Id") {
			t.Errorf("%q: body has %q, header %q", sent, got.RequestID, got.Header.Get("X-Bkapi-Request-Id"))
		}
		if echoed && got.RequestID != sent {
			t.Errorf("%q came back as %q", sent, got.RequestID)
		}
		if !echoed && (got.RequestID == sent || len(got.RequestID) != 32 ||
			strings.Trim(got.RequestID, "0123456789abcdef") != "") {
			t.Errorf("%q came back as %q, want 32 hexadecimal digits", sent, got.RequestID)
		}
	}
}

func TestHealth(t *testing.T) {
	synctest.Test(t, testHealth)
}

// testHealth: what was found out counts for a second, however often it is asked for.
func testHealth(t *testing.T) {
	w := newWorld(t)
	look := func(path string) (int, map[string]string) {
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		var body map[string]string
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return rec.Code, body
	}
	if code, _ := look("/healthz"); code != 200 {
		t.Errorf("healthz is %d", code)
	}
	if code, _ := look("/readyz"); code != 200 {
		t.Errorf("readyz is %d", code)
	}
	w.notReady = errors.New("the agent has not reported yet")
	if code, _ := look("/readyz"); code != 200 {
		t.Errorf("readyz is %d within the second", code)
	}
	time.Sleep(time.Second)
	if code, body := look("/readyz"); code != 503 || body["reason"] != "the agent has not reported yet" {
		t.Errorf("readyz is %d %v", code, body)
	}
	if code, _ := look("/healthz"); code != 200 {
		t.Errorf("healthz is %d while not ready", code)
	}
}

func TestAReplyThatFailsEarlyIsARefusal(t *testing.T) {
	w := newWorld(t)
	task := w.taskID(esbGSE+"operate_proc_multi/", `{"proc_operate_req": [`+exampleOperate(0)+","+
		strings.Replace(exampleOperate(0), "proc-test", "x", 1)+`]}`)
	w.breakAfter = 1
	w.post(esbGSE+"get_proc_operate_result_v2/", fmt.Sprintf(`{"task_id": %q}`, task)).refused(t, 200, 1306201)
}

func TestAReplyThatFailsLateIsCut(t *testing.T) {
	w := newWorld(t)
	ids := make([]string, 5000)
	for i := range ids {
		ids[i] = fmt.Sprintf(`"agent-%d"`, i)
	}
	task := w.taskID(gatewayV2+"operate_proc_v2",
		`{"meta": {"namespace": "n", "name": "p"}, "op_type": 2, "agent_id_list": [`+strings.Join(ids, ",")+`]}`)
	w.breakAfter = 4000
	server := httptest.NewServer(w.handler)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+gatewayV2+
		"get_proc_operate_result_v2", strings.NewReader(fmt.Sprintf(`{"task_id": %q}`, task)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code": %q, "bk_app_secret": %q, "bk_username": "a"}`,
		appCode, appSecret))
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil || json.Valid(body) {
		t.Errorf("a reply that broke off looks whole: %d bytes, %v", len(body), err)
	}
	if row := w.lastAudit(); row.Code != 1650201 {
		t.Errorf("the cut reply is audited as %+v", row)
	}
}

// TestSharedNames: two names are GSE's and JOB's; the path decides, and the body where it does not.
func TestSharedNames(t *testing.T) {
	const (
		gseBody = `{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1}]}`
		jobBody = `{"bk_biz_id": 1, "ip_list": [{"ip": "10.0.0.1", "bk_cloud_id": 1}]}`
		old     = `{"action": "get_agent_status", "operator": "admin", "bk_scope_type": "biz", "bk_scope_id": "1", "ip_list": [{"ip": "10.0.0.1", "bk_cloud_id": 1}]}`
	)
	for _, tt := range []struct {
		path, body string
		job        bool
	}{
		{"/api/c/compapi/v2/gse/get_agent_status/", gseBody, false},
		{"/component/compapi/v2/gse/get_agent_status", gseBody, false},
		{"/root/esb/gse/get_agent_status", gseBody, false},
		{"/get_agent_status", gseBody, false},
		{"/api/bk-gse/prod/get_agent_status/", gseBody, false},
		{"/api/v2/get_agent_status", gseBody, false},
		{"/api/v2/get_agent_status", jobBody, true},
		{"/api/v2/get_agent_status/", old, true},
		{"/get_agent_status", jobBody, true},
		{"/api/c/compapi/v2/job/get_agent_status/", jobBody, true},
		{"/api/c/compapi/v2/jobv3/get_agent_status/", jobBody, true},
		{"/esb/api/v2/get_agent_status", jobBody, true},
		{"/esb/api/v3/get_agent_status", jobBody, true},
		{"/api/job/v2/job-execute/get_agent_status/", jobBody, true},
		{"/api/job/v3/job-execute/get_agent_status/", jobBody, true},
	} {
		w := newWorld(t)
		got := w.post(tt.path, tt.body)
		var list []any
		var object map[string]any
		if tt.job {
			got.ok(t, &list)
			if len(list) != 1 || *got.Message != "" || string(got.Permission) != "null" {
				t.Errorf("%s %s: %s", tt.path, tt.body, got.Raw)
			}
			continue
		}
		got.ok(t, &object)
		if object["1:10.0.0.1"] == nil || *got.Message != "success" {
			t.Errorf("%s %s: %s", tt.path, tt.body, got.Raw)
		}
	}
}

// TestBackendPaths: the paths that a gateway forwards to, each with its methods; a gateway of their own they have none,
// so a refusal is HTTP 200.
func TestBackendPaths(t *testing.T) {
	w := newWorld(t)
	w.answer = succeed
	send := func(method, path, body string) reply {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"a"}`,
			appCode, appSecret))
		return w.send(r)
	}
	var data map[string]any
	send(http.MethodPost, "/procapi/v2/proc/operate", exampleOperate(0)).ok(t, &data)
	poll := fmt.Sprintf(`{"task_id": %q}`, data["task_id"])
	for _, path := range []string{"/procapi/v1/proc/operate", "/procapi/v2/proc/operate"} {
		data = nil
		if send(http.MethodGet, path, poll).ok(t, &data); data[exampleKey] == nil {
			t.Errorf("%s: %v", path, data)
		}
	}
	send(http.MethodPost, "/procapi/v2/proc/multioperate", `{"proc_operate_req": [`+exampleOperate(2)+`]}`).ok(t, &data)
	send(http.MethodPost, "/procapi/v1/proc/operate", exampleOperate(0)).ok(t, &data)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		data = nil
		if send(method, "/procapi/v1/proc/procinfo", documentedRegister).ok(t,
			&data); data["1:2:10.0.0.1:gse:proc-test"] == nil {
			t.Errorf("%s procinfo: %v", method, data)
		}
	}
	for _, path := range []string{
		"/procapi/v1/proc/status", "/procapi/v2/proc/status", "/procapi/v1/proc/groupinfo",
		"/procapi/v1/proc/syncstatus",
	} {
		send(http.MethodGet, path, exampleOperate(2)).ok(t, &data)
	}
	send(http.MethodPost, "/procapi/v1/proc/groupinfo", documentedGroups).ok(t, &data)

	send(http.MethodPost, "/procapi/v2/proc/operate", `{`).refused(t, 200, 1306000)
	send(http.MethodPost, "/procapi/v2/proc/operate", `{}`).refused(t, 200, 1306406)
	w.postAs("nobody", "x", "/procapi/v2/proc/operate", `{}`).refused(t, 200, 1306000)
	got := send(http.MethodDelete, "/procapi/v2/proc/operate", `{}`)
	if got.refused(t, 405, 1640501); strings.Join(got.Header.Values("Allow"), ",") != "GET,POST" {
		t.Errorf("Allow is %q", got.Header.Values("Allow"))
	}
	send(http.MethodPost, "/procapi/v3/proc/operate", `{}`).refused(t, 404, 1640401)
}

func TestTheAreaOfAGatewayPathCounts(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{
		"/api/v2/cluster/list_agent_state", "/api/v2/cluster/list_agent_info/",
		"/api/bk-gse/prod/api/v2/cluster/list_agent_state",
		"/api/c/compapi/v2/gse/api/v2/cluster/list_agent_state/", "/list_agent_state",
	} {
		var rows []map[string]any
		if w.post(path, `{"agent_id_list": ["0:10.0.0.1"]}`).ok(t, &rows); len(rows) != 1 {
			t.Errorf("%s: %v", path, rows)
		}
	}
	w.post("/api/v2/proc/list_agent_state", `{"agent_id_list": ["0:10.0.0.1"]}`).refused(t, 404, 1640401)
}
