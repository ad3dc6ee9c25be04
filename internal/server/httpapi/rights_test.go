package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/httpapi"
	"drover/internal/server/store"
)

// grant makes the app "limited", which has the given grants and no others.
func (w *world) grant(grants ...string) {
	w.t.Helper()
	app := store.App{Code: "limited", Secrets: storedSecret("limited-secret"), MayNameUsers: true}
	for _, text := range grants {
		g, err := access.ParseGrant(text)
		if err != nil {
			w.t.Fatal(err)
		}
		app.Grants = append(app.Grants, g)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apps["limited"] = app
}

// limited sends a body as the app "limited".
func (w *world) limited(path, body string) reply {
	w.t.Helper()
	return w.postAs("limited", "limited-secret", path, body)
}

// operation is a body of operate_proc_v2 for the named process on some hosts, which are all of cloud 0 or 1.
func operation(op int, namespace string, agents string) string {
	return fmt.Sprintf(`{"meta": {"namespace": %q, "name": "p"}, "op_type": %d, "agent_id_list": %s, "spec": %s}`,
		namespace, op, agents, exampleSpec)
}

func TestRightsOfASubmit(t *testing.T) {
	const (
		here  = `["0:10.0.0.1"]`
		both  = `["0:10.0.0.1", "02000000024201"]` // the second one is 1:10.0.0.1
		gone  = `["0:10.9.9.9"]`
		noone = `["nobody"]`
	)
	for name, tt := range map[string]struct {
		grant, body string
		missing     string // empty: it is let in
	}{
		"all":                        {"* on *", operation(0, "ns", both), ""},
		"another operation":          {"stop on ns", operation(0, "ns", here), "start ns/p"},
		"restart is its own right":   {"start,stop on ns", operation(7, "ns", here), "restart ns/p"},
		"a query needs one too":      {"start on ns", operation(2, "ns", here), "query ns/p"},
		"a spec of its own":          {"stop on ns", operation(1, "ns", here), "start ns/p"},
		"a spec of its own, allowed": {"start,stop on ns", operation(1, "ns", here), ""},
		"a query with a spec":        {"query on ns", operation(2, "ns", here), ""},
		"another namespace":          {"start on ns", operation(0, "other", here), "start other/p"},
		"a business":                 {"start on biz:7", operation(0, "GSEKIT_BIZ_7", here), ""},
		"another business":           {"start on biz:7", operation(0, "GSEKIT_BIZ_8", here), "start GSEKIT_BIZ_8/p"},
		"an area":                    {"start on ns at area:0", operation(0, "ns", here), ""},
		"one host of two":            {"start on ns at area:0", operation(0, "ns", both), "start ns/p on 1:10.0.0.1"},
		"the area behind an id":      {"start on ns at area:1", operation(0, "ns", `["02000000024201"]`), ""},
		"by id, asked by address":    {"start on ns at 0200*", operation(0, "ns", `["1:10.0.0.1"]`), ""},
		"an absent host, allowed":    {"start on ns at 0:10.9.*", operation(0, "ns", gone), ""},
		"an absent host":             {"start on ns at 0:10.0.*", operation(0, "ns", gone), "start ns/p on 0:10.9.9.9"},
		"an unknown id": {
			"start on ns at area:0,area:1", operation(0, "ns", noone),
			"start ns/p on nobody",
		},
		"a host by its other name": {
			"start on ns at 0:10.0.0.1", operation(0, "ns", `["1:10.0.0.1"]`),
			"start ns/p on 1:10.0.0.1",
		},
		"an operation that is none": {"query on ns", operation(99, "ns", here), ""}, // answered per key, and never run
		"and no right to look":      {"stop on ns", operation(99, "ns", here), "query ns/p"},
		"a spec that says nothing": {
			"stop on ns",
			`{"meta": {"namespace": "ns", "name": "p"}, "op_type": 0, "agent_id_list": ["0:10.0.0.1"], "spec": {}}`,
			"start ns/p",
		},
		"as many as the limit": {"start on ns max-targets 2", operation(0, "ns", both), ""},
		"more than the limit": {
			"start on ns max-targets 1", operation(0, "ns", both),
			"start ns/p: the call has 2 targets, and the right allows at most 1 in one call",
		},
		"a query of more than the limit": {"query on ns max-targets 1", operation(2, "ns", both), ""},
		"what two grants do not say":     {"start on ns at area:1", operation(1, "ns", here), "stop ns/p"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{
				esbGSE + "operate_proc_v2/", gatewayV2 + "operate_proc_v2",
				"/procapi/v2/proc/operate",
			} {
				w := newWorld(t)
				w.grant()
				if tt.grant != "" {
					w.grant(tt.grant)
				}
				got := w.limited(path, tt.body)
				if tt.missing == "" {
					var data map[string]string
					got.ok(t, &data)
					continue
				}
				status, code := 200, 1306403
				if path == gatewayV2+"operate_proc_v2" {
					status, code = 403, 1640301
					if got.CodeName != "APP_NO_PERMISSION" || got.Header.Get("X-Bkapi-Error-Code") != "1640301" {
						t.Errorf("gateway answers %v %s", got.Header, got.Raw)
					}
				}
				got.refused(t, status, code)
				if want := "app limited has no right to " + tt.missing; *got.Message != want {
					t.Errorf("message is %q, want %q", *got.Message, want)
				}
				if len(w.tasks) != 0 {
					t.Errorf("%d tasks were made", len(w.tasks))
				}
				row := w.lastAudit()
				if row.Allowed || row.Code != code || row.App != "limited" || row.User != "admin" || row.Targets == 0 ||
					len(w.audit) != 1 {
					t.Errorf("the denial is audited as %+v", w.audit)
				}
			}
		})
	}
}

// TestNothingGranted: an app without any right is refused before its body is read, or else parsed.
func TestNothingGranted(t *testing.T) {
	w := newWorld(t)
	w.grant()
	for _, path := range []string{
		esbGSE + "operate_proc_v2/", gatewayV2 + "operate_proc_v2",
		"/procapi/v2/proc/operate", esbGSE + "get_proc_operate_result_v2/",
	} {
		r := httptest.NewRequest(http.MethodPost, path, unreadable{t})
		r.ContentLength = 1 << 20
		r.Header.Set("X-Bkapi-Authorization",
			`{"bk_app_code": "limited", "bk_app_secret": "limited-secret", "bk_username": "admin"}`)
		if got := w.send(r); *got.Result ||
			*got.Message != "app limited has no rights: grant rights with 'drover app grant'" {
			t.Errorf("%s: answer is %s", path, got.Raw)
		}
		if got := w.limited(path, operation(0, "ns", `["0:10.0.0.1"]`)); *got.Result ||
			!strings.Contains(*got.Message, "has no rights") {
			t.Errorf("%s: answer is %s", path, got.Raw)
		}
	}
	if row := w.lastAudit(); row.Allowed || row.App != "limited" || len(w.tasks) != 0 {
		t.Errorf("%d tasks; the denial is audited as %+v", len(w.tasks), row)
	}
}

func TestADeniedTargetRefusesTheWholeCall(t *testing.T) {
	w := newWorld(t)
	w.grant("start on ns at area:0")
	body := `{"proc_operate_req": [` + operation(0, "ns", `["0:10.0.0.1"]`) + "," +
		operation(0, "ns", `["1:10.0.0.1", "9:10.0.0.1"]`) + "," + operation(1, "ns", `["0:10.0.0.1"]`) + `]}`
	got := w.limited(esbGSE+"operate_proc_multi/", body)
	got.refused(t, 200, 1306403)
	if *got.Message != "app limited has no right to start ns/p on 1:10.0.0.1 (and 2 more)" || len(w.tasks) != 0 {
		t.Errorf("%d tasks were made; message is %q", len(w.tasks), *got.Message)
	}
}

func TestRightsOfOtherCalls(t *testing.T) {
	const targets = `"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0}], "agent_id_list": ["0:10.0.0.1"]`
	meta := func(namespace string) string {
		return fmt.Sprintf(`{"meta": {"namespace": %q, "name": "p", "labels": {"proc_name": "p"}}, %s`, namespace,
			targets)
	}
	group := fmt.Sprintf(
		`{"meta": {"namespace": "ns", "name": "p"}, %s, "spec": {"process_group": [{"group_id": "g", "resource": {}}]}}`, targets)
	page := `{"meta": {"namespace": "ns"}, "page": {"start": 0, "limit": 10}}`
	rename := `{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "new-id"}]}`
	for _, tt := range []struct {
		call, body, grant, missing string
	}{
		{"get_proc_status_v2/", meta("ns") + "}", "start on ns", "query ns/p"},
		{"get_proc_status_v2/", meta("ns") + "}", "query on ns at area:1", "query ns/p on 0:10.0.0.1"},
		{"get_proc_status_v2/", meta("ns") + "}", "query on ns at area:0", ""},
		{"sync_proc_status/", page, "query on other", "query ns on every host"},
		{"sync_proc_status/", page, "query on ns at area:0", "query ns on every host"},
		{"sync_proc_status/", page, "query on ns", ""},
		{"register_proc_info/", meta("ns") + `, "spec": ` + exampleSpec + "}", "operate on ns", "register ns/p"},
		{"register_proc_info/", meta("ns") + `, "spec": ` + exampleSpec + "}", "register on ns", "start ns/p"},
		{"register_proc_info/", meta("ns") + `, "spec": ` + exampleSpec + "}", "register,start on ns", ""},
		{"update_proc_info/", meta("ns") + `, "spec": ` + exampleSpec + "}", "setup on ns", "start ns/p"},
		{"unregister_proc_info/", meta("ns") + "}", "register,update on ns", "unregister ns/p"},
		{"set_process_group_info/", group, "read on ns", "set-group ns"},
		{"get_process_group_info/", group, "set-group on ns", "get-group ns"},
		{"get_process_group_info/", group, "get-group on ns at area:1", "get-group ns on 0:10.0.0.1"},
		{"get_process_group_info/", group, "read on ns", ""},
		{"get_agent_status/", "{" + targets + "}", "start on ns", "read-agents"},
		{"get_agent_status/", "{" + targets + "}", "read on ns at area:1", "read-agents on 0:10.0.0.1"},
		{"get_agent_status/", "{" + targets + "}", "read on ns", ""},
		{"api/v2/cluster/list_agent_state/", "{" + targets + "}", "start on ns", "read-agents"},
		{"api/v2/proc/upgrade_to_agent_id/", rename, "* on ns", "rename-agents"},
		{"api/v2/proc/upgrade_to_agent_id/", rename, "* on * at area:1", "rename-agents on 0:10.0.0.1"},
		{"api/v2/proc/upgrade_to_agent_id/", rename, "* on *", ""},
	} {
		w := newWorld(t)
		w.grant(tt.grant)
		got := w.limited(esbGSE+tt.call, tt.body)
		switch {
		case tt.missing == "":
			if !*got.Result {
				t.Errorf("%s under %q answers %s", tt.call, tt.grant, got.Raw)
			}
		case *got.Code != 1306403 || *got.Message != "app limited has no right to "+tt.missing:
			t.Errorf("%s under %q answers %s", tt.call, tt.grant, got.Raw)
		case w.lastAudit().Allowed || w.noted != 0:
			t.Errorf("%s: the denial is audited as %+v, and %d rows may wait", tt.call, w.lastAudit(), w.noted)
		}
	}
}

// TestEveryCallNeedsARight: an app that was granted nothing gets nothing from any call in the table, whatever it asks
// for.
func TestEveryCallNeedsARight(t *testing.T) {
	meant := `{"meta": {"namespace": "ns", "name": "p", "labels": {"proc_name": "p"}}, "hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "x"}],
		"agent_id_list": ["0:10.0.0.1"], "op_type": 1, "spec": ` + strings.Replace(exampleSpec, "{", `{"process_group": [{"group_id": "g", "resource": {}}], `, 1) + `, "page": {"start": 0, "limit": 1},
		"bk_biz_id": 7, "ip_list": [{"ip": "10.0.0.1", "bk_cloud_id": 0}], "proc_name": "p", "setup_path": "/p", "pid_path": "/p/pid", "proc_owner": "me",
		"process_infos": [{"setup_path": "/p", "proc_name": "p", "pid_path": "/p/pid", "proc_owner": "me", "ip_list": [{"ip": "10.0.0.1", "bk_cloud_id": 0}], "start_cmd": "x"}],
		"task_id": "TASK", "bk_gse_taskid": "TASK"`
	for _, path := range httpapi.EveryCall() {
		w := newWorld(t)
		w.grant()
		w.tasks["TASK"] = &store.Task{ID: "TASK", App: "limited", Requests: []store.Request{{
			Op: process.Start, Process: process.ID{Namespace: "ns", Name: "p"},
			Targets: []store.Target{{ItemKey: "k", Spelling: "0:10.0.0.1", Agent: "UAGENT2"}},
		}}}
		body := meant + `}`
		if strings.Contains(path, "multi") {
			body = `{"proc_operate_req": [` + body + `]}`
		}
		got := w.limited(path, body)
		if *got.Result || *got.Code != 1306403 {
			t.Errorf("%s is answered %s", path, got.Raw)
		}
	}
}

func TestAPollNeedsTheRightsOfItsTask(t *testing.T) {
	for name, path := range map[string]string{"gse": esbGSE + "get_proc_operate_result_v2/", "gateway": gatewayV2 +
		"get_proc_operate_result_v2"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.grant("start on ns at area:0,area:1")
			var data map[string]string
			w.limited(esbGSE+"operate_proc_v2/", operation(0, "ns", `["0:10.0.0.1", "02000000024201"]`)).ok(t, &data)
			poll := func() reply { return w.limited(path, fmt.Sprintf(`{"task_id": %q}`, data["task_id"])) }
			var entries map[string]entry
			if poll().ok(t, &entries); len(entries) != 2 {
				t.Errorf("entries are %v", entries)
			}
			w.grant("query on ns") // enough to ask about it by another call
			poll().ok(t, &entries)
			w.grant("start on ns at area:0")
			got := poll()
			if *got.Result || *got.Message != "app limited has no right to query ns/p" || string(got.Data) != "null" {
				t.Errorf("with a right withdrawn, the poll is answered %s", got.Raw)
			}
			if row := w.lastAudit(); row.Allowed || row.Target != data["task_id"] {
				t.Errorf("the denial is audited as %+v", row)
			}
			// Another app's task is unknown, whatever that app may do.
			w.post(esbGSE+"get_proc_operate_result_v2/", fmt.Sprintf(`{"task_id": %q}`, data["task_id"])).refused(t,
				200, 1000101)
		})
	}
}

// TestAPollReadsItsTaskOnce: also one whose rights are checked. Only results that are too large to be held until the
// check is over are read again.
func TestAPollReadsItsTaskOnce(t *testing.T) {
	const targets = 40
	for _, tt := range []struct {
		name     string
		text     string
		grant    string
		readings int
	}{
		{"short", "x", "start on ns", 1},
		{"long", strings.Repeat("x", 128<<10), "start on ns", 1},
		{"too long", strings.Repeat("x", 1<<20), "start on ns", 2},
		{"denied", "x", "start on other", 1},
		{"too long and denied", strings.Repeat("x", 1<<20), "start on ns at area:7,start on other", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			task := &store.Task{ID: "t", App: "limited"}
			for i := range targets {
				r := store.Request{Op: process.Start, Process: process.ID{Namespace: "ns", Name: "p"}}
				if tt.name == "denied" && i < targets-1 { // only the last one is out of reach
					r.Process.Namespace = "other"
				}
				key := fmt.Sprintf("0:10.0.0.1:ns:p%d", i)
				r.Targets = []store.Target{{ItemKey: key, Spelling: "0:10.0.0.1", Agent: "UAGENT2"}}
				task.Requests = append(task.Requests, r)
				w.outcomes["t"+key] = process.Outcome{Fault: process.Failed, Text: tt.text}
			}
			w.tasks["t"] = task
			w.grant(strings.Split(tt.grant, ",")...)
			got := w.limited(esbGSE+"get_proc_operate_result_v2/", `{"task_id": "t"}`)
			if strings.Contains(tt.name, "denied") {
				if *got.Result || string(got.Data) != "null" {
					t.Errorf("it is answered %.200s", got.Raw)
				}
			} else {
				var entries map[string]entry
				if got.ok(t, &entries); len(entries) != targets {
					t.Errorf("%d entries, want %d", len(entries), targets)
				}
			}
			if w.readings != tt.readings {
				t.Errorf("%d readings, want %d", w.readings, tt.readings)
			}
			want := targets
			if strings.Contains(tt.name, "denied") {
				want = 0
			}
			if row := w.lastAudit(); row.Targets != want {
				t.Errorf("the audit row has %d targets, want %d", row.Targets, want)
			}
		})
	}
}

func TestPollsMayWaitForTheirAuditRow(t *testing.T) {
	w := newWorld(t)
	task := w.taskID(esbGSE+"operate_proc_v2/", exampleOperate(0))
	w.poll(task)
	w.post(esbGSE+"sync_proc_status/", `{"meta": {"namespace": "gse"}}`)
	w.post(esbGSE+"get_proc_operate_result/", `{"task_id": "unknown"}`)
	if w.noted != 3 {
		t.Errorf("%d rows may wait, want those of the 3 reads", w.noted)
	}
	w.postAs(appCode, "wrong", esbGSE+"get_proc_operate_result/", `{"task_id": "unknown"}`)
	w.post(esbGSE+"operate_proc_v2/", `{}`)
	w.post(esbGSE+"upgrade_to_agent_id/", `{"hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0, "bk_agent_id": "new-id"}]}`)
	if w.noted != 3 || w.denials != 1 || len(w.audit) != 7 {
		t.Errorf("%d of %d rows may wait, and %d are denials: no denial and no change may wait", w.noted, len(w.audit),
			w.denials)
	}
}

// TestMessagesInChinese: every message of our own has Chinese words for it that take the same arguments.
func TestMessagesInChinese(t *testing.T) {
	formats := httpapi.RefusalFormats(t)
	chinese := httpapi.ChineseWords()
	verbs := func(format string) []string {
		var out []string
		for i := strings.IndexByte(format, '%'); i >= 0; i = strings.IndexByte(format, '%') {
			end := i + 1 + strings.IndexFunc(format[i+1:], func(r rune) bool {
				return strings.ContainsRune("sdvqTx%", r)
			})
			out = append(out, format[i:end+1])
			format = format[end+1:]
		}
		return out
	}
	for _, f := range formats {
		if words, ok := chinese[f]; !ok {
			t.Errorf("no Chinese words for %q", f)
		} else if !slices.Equal(verbs(f), verbs(words)) {
			t.Errorf("%q takes other arguments than %q", words, f)
		}
	}
	for f := range chinese {
		if !slices.Contains(formats, f) {
			t.Errorf("there are Chinese words for %q, which nobody says", f)
		}
	}
	if len(formats) < 20 {
		t.Errorf("only %d messages were found", len(formats))
	}
}

func TestLanguageOfRefusals(t *testing.T) {
	for language, want := range map[string]string{
		"": "task_id \"x\" does not exist", "en": "task_id \"x\" does not exist", "fr": "task_id \"x\" does not exist",
		"zh-hans": "任务 task_id \"x\" 不存在", "zh-cn": "任务 task_id \"x\" 不存在", "zh_CN": "任务 task_id \"x\" 不存在",
		"ZH": "任务 task_id \"x\" 不存在",
	} {
		w := newWorld(t)
		r := request(esbGSE+"get_proc_operate_result_v2/", appCode, appSecret, `{"task_id": "x"}`)
		r.Header.Set("Blueking-Language", language)
		r.Header.Set("X-Bk-Tenant-Id", "tenant") // taken, and without a meaning here
		got := w.send(r)
		got.refused(t, 200, 1000101)
		if *got.Message != want {
			t.Errorf("%q: message is %q, want %q", language, *got.Message, want)
		}
		if row := w.lastAudit(); row.Message != `task_id "x" does not exist` {
			t.Errorf("%q: recorded is %q", language, row.Message)
		}
	}
	t.Run("behind a gateway the header stays English", func(t *testing.T) {
		w := newWorld(t)
		r := request(gatewayV2+"get_proc_operate_result_v2", "", "", `{"task_id": "x"}`)
		r.Header.Set("Blueking-Language", "zh-hans")
		got := w.send(r)
		got.refused(t, http.StatusBadRequest, 1640001)
		if *got.Message != `参数错误 [reason="应用编码不能为空"]` ||
			got.Header.Get("X-Bkapi-Error-Message") != "app code cannot be empty" {
			t.Errorf("answer is %v %s", got.Header, got.Raw)
		}
	})
}
