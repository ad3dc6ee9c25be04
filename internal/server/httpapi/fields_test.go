package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/server/httpapi"
	"drover/internal/server/store"

	"github.com/google/go-cmp/cmp"
)

// lookalikes are members that only look like those of a call. Whoever filters or signs calls in front of us sees others
// in them.
const lookalikes = `, "OP_TYPE": 0, "Op_type": 1, "Meta": {"namespace": "x", "name": "y"}, "HOSTS": [{"ip": "9.9.9.9", "bk_cloud_id": 9}], "Agent_Id_List": ["zz"],
	"\u017fpec": {"identity": {"user": "nosuch"}}, "Task_ID": "y", "BK_BIZ_ID": 7, "Bk_Gse_TaskId": "y", "PROCESS_INFOS": [], "Proc_Operate_Req": [],
	"IP_LIST": [], "PAGE": {"limit": 5000}, "BK_APP_CODE": "nobody", "Bk_App_Secret": "wrong"}`

// withLookalikes adds them at the end of an object.
func withLookalikes(body string) string {
	return strings.TrimSuffix(strings.TrimSpace(body), "}") + lookalikes
}

// bodyOf is a body of a call that names what is there.
func bodyOf(call string) string {
	const hosts = `"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1}]`
	switch call {
	case "gse/register_proc_info", "gse/update_proc_info", "gse/unregister_proc_info":
		return documentedRegister
	case "gse/operate_proc", "gse/operate_proc_v2", "gse/get_proc_status", "gse/get_proc_status_v2":
		return exampleOperate(2)
	case "gse/operate_proc_multi":
		return `{"proc_operate_req": [` + withLookalikes(exampleOperate(2)) + `]}`
	case "gse/get_proc_operate_result", "gse/get_proc_operate_result_v2":
		return `{"task_id": "x"}`
	case "gse/sync_proc_status":
		return `{"meta": {"namespace": "n"}, "page": {"start": 0, "limit": 10, "LIMIT": 5000}}`
	case "gse/set_process_group_info":
		return `{"meta": {"namespace": "n"}, ` + hosts + `, "spec": {"process_group": []}}`
	case "gse/get_process_group_info":
		return `{"meta": {"namespace": "n"}, ` + hosts + `}`
	case "gse/get_agent_status", "gse/get_agent_info":
		return `{` + hosts + `}`
	case "gse/list_agent_state", "gse/list_agent_info":
		return `{"agent_id_list": ["1:10.0.0.1"]}`
	case "gse/upgrade_to_agent_id":
		return `{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1, "bk_agent_id": "new", "BK_AGENT_ID": "other"}]}`
	case "job/operate_process", "job/operate_proc":
		return documentedOperate
	case "job/manage_proc":
		return documentedManage
	case "job/get_proc_result":
		return `{"bk_biz_id": 1, "bk_gse_taskid": "x"}`
	case "job/get_agent_status":
		return `{"bk_biz_id": 1, "ip_list": [{"ip": "10.0.0.1", "bk_cloud_id": 1}]}`
	}
	return ""
}

// TestFieldsAreThoseThatAreSpeltSo: of every call, nothing changes by members that only look like its own.
func TestFieldsAreThoseThatAreSpeltSo(t *testing.T) {
	for _, path := range httpapi.EveryCall() {
		body := bodyOf(strings.TrimPrefix(path, "/api/c/compapi/v2/"))
		if strings.Contains(path, "list_agent") || strings.Contains(path, "upgrade_to") {
			path = strings.Replace(path, "/v2/gse/", map[bool]string{
				true:  "/v2/gse/api/v2/cluster/",
				false: "/v2/gse/api/v2/proc/",
			}[strings.Contains(path, "list_agent")], 1)
		}
		play := func(body string) (string, []store.Request) {
			w := newWorld(t)
			w.answer = succeed
			got := w.post(path, body)
			if *got.Code != 0 && *got.Code != 1000101 { // but for a task that is not known all is well
				t.Errorf("%s answers %s", path, got.Raw)
			}
			var asked []store.Request
			data := string(got.Data)
			for id, task := range w.tasks {
				asked = append(asked, task.Requests...)
				data = strings.ReplaceAll(data, id, "TASK")
			}
			return fmt.Sprint(got.Status, *got.Code, *got.Message, data), asked
		}
		answer, asked := play(body)
		answerWith, askedWith := play(withLookalikes(body))
		if answer != answerWith {
			t.Errorf("%s: with members that look like its own it answers %s, else %s", path, answerWith, answer)
		}
		if diff := cmp.Diff(asked, askedWith); diff != "" {
			t.Errorf("%s: what is asked differs (-without +with):\n%s", path, diff)
		}
	}
}

// TestCredentialsAreThoseThatAreSpeltSo: in the body and in the header.
func TestCredentialsAreThoseThatAreSpeltSo(t *testing.T) {
	w := newWorld(t)
	good := fmt.Sprintf(`"bk_app_code": %q, "bk_app_secret": %q, "bk_username": "admin"`, appCode, appSecret)
	for members, ok := range map[string]bool{
		good: true,
		good + `, "BK_APP_SECRET": "wrong", "Bk_App_Code": "nobody", "b\u212a_username": ""`: true,
		`"Bk_App_Code": "` + appCode + `", "bk_app_secret": "` + appSecret + `"`:             false,
		`"bk_app_secret": "wrong", ` + good:                                                  true, // the last counts
		good + `, "bk_app_secret": "wrong"`:                                                  false,
		good + `, "bk_app_secret": null`:                                                     false,
	} {
		head := httptest.NewRequest(http.MethodPost, esbGSE+"get_agent_status/",
			strings.NewReader(`{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1}]}`))
		head.Header.Set("X-Bkapi-Authorization", "{"+members+"}")
		body := httptest.NewRequest(http.MethodPost, esbGSE+"get_agent_status/",
			strings.NewReader(`{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1}], `+members+`}`))
		for place, r := range map[string]*http.Request{"header": head, "body": body} {
			if got := w.send(r); *got.Result != ok {
				t.Errorf("with %s in the %s it is answered %s", members, place, got.Raw)
			}
		}
	}
}

// TestOfARepeatedFieldTheLastCountsWhole: nothing of an earlier one is mixed into it, and what was wrong with that is
// not told.
func TestOfARepeatedFieldTheLastCountsWhole(t *testing.T) {
	for name, c := range map[string]struct {
		path, body, refused string
		id                  process.ID
	}{
		"meta": {
			path:    "operate_proc_v2/",
			body:    `"meta": {"namespace": "a", "name": "b"}, "meta": {"name": "c"}`,
			refused: "meta.namespace is missing",
		},
		"meta, last": {
			path: "operate_proc_v2/", body: `"meta": 7, "meta": {"namespace": "a", "name": "b"}`,
			id: process.ID{Namespace: "a", Name: "b"},
		},
		"meta, null": {
			path: "operate_proc_v2/", body: `"meta": {"namespace": "a", "name": "b"}, "meta": null`,
			refused: "meta is missing",
		},
		"hosts": {
			path:    "get_proc_status_v2/",
			body:    `"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1}], "hosts": [{"ip": "127.0.0.1"}]`,
			refused: "hosts[0].bk_cloud_id is missing",
		},
		"process_infos": {
			path: "job",
			body: `"bk_biz_id": 2, "op_type": 0, "process_infos": [{"setup_path": "/a", "proc_name": "b", "pid_path": "/p", "ip_list": []}], "process_infos": [{"proc_name": "other"}]`, refused: "process_infos[0].setup_path is missing",
		},
		"a second error": {
			path:    "operate_proc_v2/",
			body:    `"hosts": 1, "meta": 1, "hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 1}]`,
			refused: "meta is of the wrong type: number",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			path := esbGSE + c.path
			if c.path == "job" {
				path = esbJob + "operate_process/"
			}
			got := w.post(path, strings.TrimSuffix(exampleOperate(2), "}")+", "+c.body+"}")
			if c.refused != "" {
				if *got.Result || !strings.HasSuffix(*got.Message, ": "+c.refused) {
					t.Errorf("answer is %s, want %s", got.Raw, c.refused)
				}
				return
			}
			if r := w.onlyTask().Requests[0]; !*got.Result || r.Process != c.id {
				t.Errorf("answer is %s, for %v", got.Raw, r.Process)
			}
		})
	}
}

// TestUnreadableBodiesAreNamed: a caller is told what its body is, not what is missing in it.
func TestUnreadableBodiesAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ body, encoding, want string }{
		"byte order mark": {body: "\ufeff" + `{"task_id": "x"}`, want: "it begins with a byte order mark"},
		"list":            {body: `[{"task_id": "x"}]`, want: "it is not an object"},
		"broken list":     {body: `[{"task_id": "x"`, want: "it is not an object"},
		"text":            {body: `"x"`, want: "it is not an object"},
		"cut":             {body: `{"task_id": "x"`, want: "it ends too early"},
		"comma":           {body: `{"task_id": "x",}`, want: "'}' is not expected at byte 17"},
		"deep":            {body: `{"x":` + strings.Repeat("[", 20_000), want: "it is nested more than 10000 deep"},
		"encoded": {
			body: "\x1f\x8b\x08", encoding: "gzip",
			want: `request body is encoded as "gzip": expected one without Content-Encoding`,
		},
		"identity": {body: `{"task_id": "x"}`, encoding: "identity", want: `task_id "x" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(esbGSE+"get_proc_operate_result/", appCode, appSecret, c.body)
			if c.encoding != "" {
				r.Header.Set("Content-Encoding", c.encoding)
			}
			if got := newWorld(t).send(r); *got.Result || !strings.HasSuffix(*got.Message, c.want) {
				t.Errorf("answer is %s, want %s", got.Raw, c.want)
			}
		})
	}
}
