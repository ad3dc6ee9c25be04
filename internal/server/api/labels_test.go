package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// labelled is a rig whose hosts have labels and facts.
func labelled(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.app("admin")
	for key, host := range map[string]store.Host{
		web: {
			OS: "debian", Version: "12", Arch: "x86_64", Labels: map[string]string{"rack": "1", "self": "made"},
			Full: map[string]int64{"/data": time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC).UnixMilli()},
		},
		plain: {OS: "ubuntu", Version: "24.04", Facts: map[string]string{"bios": "1.2", "os": "mine"}},
	} {
		a, _ := r.fleet.ByKey(key)
		a.Host, a.Build = host, "1.0"
		r.must(r.fleet.Join(t.Context(), a, time.Now()))
	}
	r.must(r.fleet.Label(t.Context(), []string{web, gone}, map[string]string{"role": "web"}, nil))
	r.must(r.fleet.Label(t.Context(), []string{plain}, map[string]string{"role": "db", "zone": "b"}, nil))
	return r
}

// selecting is a path with an expression.
func selecting(path, expression string) string {
	return path + "?selector=" + url.QueryEscape(expression)
}

// TestAgentCounts: hosts are counted as they are listed, with the same filters and rights.
func TestAgentCounts(t *testing.T) {
	r := labelled(t)
	for query, want := range map[string]string{
		"":                              "2 of 3:",
		"group=role":                    "2 of 3: db 1/1, web 1/2",
		"group=zone":                    "2 of 3:  1/2, b 1/1",
		"group=os&selector=role%3Dweb":  "1 of 2:  0/1, debian 1/1",
		"group=fact.bios&search=DEBIAN": "1 of 1:  1/1",
		"state=away&group=role":         "0 of 1: web 0/1",
	} {
		body := r.want(200, r.call("admin", "GET", "/hosts/counts?"+query, nil)).body
		var groups []string
		list, _ := body["groups"].([]any)
		for _, g := range list {
			g, _ := g.(map[string]any)
			groups = append(groups, fmt.Sprintf("%v %v/%v", g["value"], g["online"], g["hosts"]))
		}
		same(t, query, want, strings.TrimSpace(fmt.Sprintf("%v of %v: %s", body["online"], body["hosts"], strings.Join(groups, ", "))))
	}
	r.refused(r.call("admin", "GET", "/hosts/counts?group=a%3Db", nil), 422, "group")
	a := r.call("admin", "GET", "/hosts/counts?group=a,b&state=up", nil)
	if detail := fmt.Sprint(a.body); a.status != 422 || !strings.Contains(detail, "group") || !strings.Contains(detail, "state") {
		t.Errorf("two faults: %d %s", a.status, detail)
	}
}

func TestAgentsBySelector(t *testing.T) {
	r := labelled(t)
	for query, want := range map[string]string{
		"role=web":               "web-1 3:10.0.0.3",
		"role=web,rack":          "web-1",
		"zone!=b":                "web-1 3:10.0.0.3",
		"os in (debian,ubuntu)":  "web-1 0:10.0.0.2",
		"os":                     "web-1 0:10.0.0.2",
		"!os":                    "3:10.0.0.3",
		"fact.bios=1.2":          "0:10.0.0.2",
		"fact.os=mine":           "0:10.0.0.2",
		"os=mine":                "",
		"os_version=12":          "web-1",
		"agent_version=1.0,zone": "0:10.0.0.2",
		"role=cache":             "",
	} {
		got := r.want(200, r.call("admin", "GET", selecting("/hosts", query), nil)).items("id")
		same(t, query, want, strings.Join(got, " "))
	}
	for query, want := range map[string]string{
		"search=DEBIAN":              "web-1",
		"search=role%3Dd":            "0:10.0.0.2",
		"search=fact.bios%3D1":       "0:10.0.0.2",
		"search=10.0.0.3":            "3:10.0.0.3",
		"search=nothing":             "",
		"host=0:*&selector=role=web": "web-1",
		"host=web-1&selector=zone":   "",
	} {
		got := r.want(200, r.call("admin", "GET", "/hosts?"+query, nil)).items("id")
		same(t, query, want, strings.Join(got, " "))
	}
	r.fleet.Loaded(web, fleet.Load{CPU: 125, Memory: 402})
	one := r.want(200, r.call("admin", "GET", selecting("/hosts", "rack"), nil)).body["items"].([]any)[0].(map[string]any)
	same(t, "labels", map[string]any{"rack": "1", "role": "web", "self": "made"}, one["labels"].(map[string]any))
	if notes := fmt.Sprint(one["notes"]); !strings.Contains(notes, "the file system of /data has been full since 2026-11-27T03:00:00Z: ") {
		t.Errorf("notes: %s", notes)
	}
	same(t, "load", map[string]any{"cpu": 12.5, "memory": 40.2}, one["load"].(map[string]any))
	same(t, "sources", map[string]any{"rack": "host", "role": "person", "self": "host"},
		one["label_sources"].(map[string]any))
	for _, query := range []string{"selector=", "selector=role%3D", "selector=a&selector=b", "selector=%20"} {
		r.refused(r.call("admin", "GET", "/hosts?"+query, nil), 422, "selector")
	}
	a := r.call("admin", "GET", selecting("/hosts", "role=web,zone=,a"), nil)
	if detail, _ := a.body["detail"].(string); !strings.Contains(detail, "character 15") {
		t.Errorf("the place of the fault is missing: %s", detail)
	}
}

// TestProcessesBySelector: every list and count of processes, events and findings takes the same expression.
func TestProcessesBySelector(t *testing.T) {
	r := labelled(t)
	r.observe("a/x@"+web+" running", "a/x@"+plain+" stopped", "a/x@"+gone+" running")
	for path, want := range map[string]string{
		selecting("/processes", "role=web"):             "3:10.0.0.3 web-1",
		selecting("/processes/a/x", "role=web,os"):      "web-1",
		selecting("/processes", "role=web") + "&host=*": "3:10.0.0.3 web-1",
	} {
		same(t, path, want, sorted(r.want(200, r.call("admin", "GET", path, nil)).items("host.id")))
	}
	same(t, "counts", 1.0, r.want(200, r.call("admin", "GET", selecting("/processes/counts", "zone"), nil)).body["total"])
	r.happen("a/x@"+web+" started 1", "a/x@"+plain+" started 1")
	got := r.want(200, r.call("admin", "GET", selecting("/events", "zone=b"), nil)).items("host.id")
	same(t, "events", []string{"0:10.0.0.2"}, got)
	why := r.want(200, r.call("admin", "GET", selecting("/why", "!os")+"&all=true", nil))
	same(t, "findings", 1, len(why.body["findings"].([]any)))

	// Labels and versions of the processes themselves.
	for key, tier := range map[string]string{web: "front", plain: "back"} {
		o := store.Observed{
			Agent: key, Process: process.ID{Namespace: "l", Name: "x"},
			Spec:   &process.Spec{Run: "x", Labels: map[string]string{"tier": tier}},
			Status: process.Status{Known: true, State: "running", Instance: process.Instance{PID: 7, Version: "2." + key}},
		}
		r.must(r.store.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{o}, nil))
	}
	for query, want := range map[string]string{
		"process_selector=tier%3Dfront":                      "web-1",
		"process_selector=tier":                              "0:10.0.0.2 web-1",
		"process_selector=tier&selector=zone":                "0:10.0.0.2",
		"version=2.*":                                        "0:10.0.0.2 web-1",
		"version=2.KEYW*":                                    "web-1",
		"process_selector=tier&version=3":                    "",
		"process_selector=%21tier&namespace=l":               "",
		"process_selector=tier%21%3Dfront&namespace=l":       "0:10.0.0.2",
		"process_selector=tier%3Dfront&host=0:10.0.0.2":      "",
		"process_selector=tier%3Dfront&spec=true&name=x":     "web-1",
		"process_selector=tier%3Dfront&state=running&name=x": "web-1",
	} {
		a := r.want(200, r.call("admin", "GET", "/processes?"+query, nil))
		same(t, query, want, sorted(a.items("host.id")))
		for _, item := range a.body["items"].([]any) {
			if _, shown := item.(map[string]any)["spec"]; shown != strings.Contains(query, "spec=true") {
				t.Errorf("%s: spec shown: %v", query, shown)
			}
		}
		n := r.want(200, r.call("admin", "GET", "/processes/counts?"+strings.ReplaceAll(query, "&spec=true", ""), nil))
		same(t, query+", counted", float64(len(a.body["items"].([]any))), n.body["total"])
	}
	for _, path := range []string{"/processes", "/processes/counts", "/processes/l/x", "/why", "/drift", "/processes/l/x/logs"} {
		r.refused(r.call("admin", "GET", path+"?process_selector=", nil), 422, "process_selector")
		r.refused(r.call("admin", "GET", path+"?state=up", nil), 422, "state")
	}
	r.refused(r.call("admin", "GET", "/processes/l/x?state=backoff", nil), 404, "")
}

func sorted(list []string) string {
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestOperationBySelector: the server resolves the expression once, and keeps it with the task.
func TestOperationBySelector(t *testing.T) {
	r := labelled(t)
	r.app("shop", "restart on a at label:role=web")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running", "a/y@"+plain+" running")
	submit := func(app, expression, rest string) answer {
		t.Helper()
		text, _ := json.Marshal(expression)
		return r.call(app, "POST", "/tasks", `{"op":"restart","select":`+string(text)+`,"targets":[`+rest+`]}`)
	}
	const x, y = `{"namespace":"a","name":"x"}`, `{"namespace":"a","name":"y"}`
	a := r.want(202, submit("admin", " role = web ", x))
	same(t, "selector", any("role=web"), a.body["selector"])
	same(t, "requests", []store.Request{{
		Op: process.Restart, Process: process.ID{Namespace: "a", Name: "x"},
		Targets: []store.Target{{ItemKey: "a/x@web-1", Spelling: "web-1", Agent: web}},
	}}, r.engine.last.Requests)
	// What is labelled later does not join a task, and a list shows the expression.
	r.must(r.fleet.Label(t.Context(), []string{plain}, map[string]string{"role": "web"}, nil))
	same(t, "kept", []string{"role=web 1"}, r.want(200, r.call("admin", "GET", "/tasks", nil)).items("selector",
		"counts.targets"))
	same(t, "later", 2.0, r.want(202, submit("shop", "role=web", x)).body["counts"].(map[string]any)["targets"])

	r.must(r.fleet.Label(t.Context(), []string{plain}, map[string]string{"role": "db"}, nil))
	r.refused(submit("admin", "role=cache", x), 422, "select")
	r.refused(submit("admin", "role=web", x+","+y), 422, "select") // y is on no such host
	r.refused(submit("admin", "", x), 422, "select")
	r.refused(submit("admin", "role=", x), 422, "select")
	r.want(202, submit("shop", "role=web", x))
	r.refused(submit("shop", "os", x), 403, "")
	r.want(202, submit("shop", "os", `{"namespace":"a","name":"x","hosts":["web-1"]}`))
	// Of a host beyond its rights an app does not learn the labels.
	r.refused(submit("shop", "role=db", `{"namespace":"a","name":"x","hosts":["0:10.0.0.2"]}`), 403, "")
	r.refused(submit("shop", "role=web", `{"namespace":"a","name":"x","hosts":["0:10.0.0.2"]}`), 403, "")
	register := r.want(202, r.call("admin", "POST", "/tasks", `{"op":"register","select":"role","targets":[
		{"namespace":"n","name":"z"}],"spec":{"run":"sleep 1"}}`))
	same(t, "register", 3.0, register.body["counts"].(map[string]any)["targets"])
}

func TestLabelAgents(t *testing.T) {
	r := labelled(t)
	r.app("labeller", "label-agents on * at area:0")
	r.app("narrow", "* on a")
	r.app("shop", "operate on a at label:role=cache")
	r.observe("a/x@" + plain + " running")
	label := func(app, body string) answer {
		t.Helper()
		return r.call(app, "POST", "/hosts/labels", body)
	}
	const stop = `{"op":"stop","targets":[{"namespace":"a","name":"x"}]}`
	r.refused(r.call("shop", "POST", "/tasks", stop), 403, "")
	a := r.want(200, label("labeller", `{"hosts":["0:10.0.0.2"],"set":{"role":"cache"},"remove":["zone"]}`))
	same(t, "labelled", []any{"0:10.0.0.2"}, a.body["hosts"].([]any))
	r.want(202, r.call("shop", "POST", "/tasks", stop))
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Action: "hosts.label", Limit: 10})
	r.must(err)
	if len(rows) != 1 || rows[0].App != "labeller" || rows[0].Target != "0:10.0.0.2" ||
		!strings.Contains(string(rows[0].Detail), `"role":"cache"`) {
		t.Errorf("the audit rows are %+v", rows)
	}
	// A pattern and an expression choose among the hosts of the right; a name outside it rejects the whole call.
	a = r.want(200, label("labeller", `{"hosts":["*"],"set":{"team":"x"}}`))
	same(t, "by a pattern", 2, len(a.body["hosts"].([]any)))
	a = r.want(200, label("labeller", `{"select":"team,os=debian","set":{"x":"y"}}`))
	same(t, "by an expression", []any{"web-1"}, a.body["hosts"].([]any))
	for _, tt := range []struct {
		app, body string
		status    int
		field     string
	}{
		{"labeller", `{"hosts":["3:10.0.0.3"],"set":{"a":"b"}}`, 403, ""},
		{"labeller", `{"hosts":["3:10.0.0.99"],"set":{"a":"b"}}`, 403, ""},
		{"labeller", `{"hosts":["0:10.0.0.99"],"set":{"a":"b"}}`, 422, "hosts[0]"},
		{"narrow", `{"hosts":["web-1"],"set":{"a":"b"}}`, 403, ""},
		{"shop", `{"hosts":["web-1"],"set":{"a":"b"}}`, 403, ""},
		{"admin", `{"set":{"a":"b"}}`, 422, "hosts"},
		{"admin", `{"hosts":["web-1"]}`, 422, "set"},
		{"admin", `{"hosts":["web-1"],"set":{"os":"b"}}`, 422, "set"},
		{"admin", `{"hosts":["web-1"],"set":{"a":"b"},"remove":["a"]}`, 422, "remove[0]"},
		{"admin", `{"hosts":["web-1"],"remove":["fact.x"]}`, 422, "remove[0]"},
		{"admin", `{"select":"","set":{"a":"b"}}`, 422, "select"},
		{"admin", `{"select":"none=x","set":{"a":"b"}}`, 422, "hosts"},
		{"admin", `{"hosts":["none-*"],"set":{"a":"b"}}`, 422, "hosts"},
	} {
		r.refused(label(tt.app, tt.body), tt.status, tt.field)
	}
	all := label("admin", `{"set":{"a b":"c","x":"`+strings.Repeat("y", 64)+`"},"remove":["os"]}`)
	r.want(422, all)
	same(t, "all faults at once", 4, len(all.body["errors"].([]any)))
	if web, _ := r.fleet.ByKey(web); len(web.SetLabels) != 3 {
		t.Errorf("a refused call has changed labels: %v", web.SetLabels)
	}
	many := map[string]string{}
	for i := range 64 {
		many["l"+string(rune('a'+i/8))+string(rune('a'+i%8))] = "x"
	}
	r.refused(r.call("admin", "POST", "/hosts/labels", map[string]any{"hosts": []string{"web-1"}, "set": many}), 422, "set")
}

// TestTargets: Prometheus gets a bare list.
func TestTargets(t *testing.T) {
	r := labelled(t)
	r.app("reader", "read-agents on * at area:3")
	get := func(app, query string) (status int, list []struct {
		Targets []string
		Labels  map[string]string
	},
	) {
		t.Helper()
		req := httptest.NewRequestWithContext(context.Background(), "GET", "/api/v1/hosts/prometheus?"+query, nil)
		req.Header.Set("X-Bkapi-Authorization", `{"bk_app_code":"`+app+`","bk_app_secret":"s","bk_username":"u"}`)
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		r.described(req, "", w)
		if w.Code == 200 {
			r.must(json.Unmarshal(w.Body.Bytes(), &list))
		}
		return w.Code, list
	}
	_, list := get("admin", "port=9350&selector=zone%3Db")
	if len(list) != 1 || list[0].Targets[0] != "10.0.0.2:9350" {
		t.Fatalf("the targets are %+v", list)
	}
	same(t, "labels", map[string]string{
		"__meta_drover_host": "0:10.0.0.2", "__meta_drover_area": "0", "__meta_drover_online": "true",
		"__meta_drover_fact_os": "ubuntu", "__meta_drover_fact_os_version": "24.04", "__meta_drover_fact_bios": "1.2",
		"__meta_drover_fact_agent_version": "1.0", "__meta_drover_label_role": "db", "__meta_drover_label_zone": "b",
	}, list[0].Labels)
	if _, list = get("reader", "port=1"); len(list) != 1 || list[0].Labels["__meta_drover_online"] != "false" {
		t.Errorf("within its rights an app reads %+v", list)
	}
	if status, list := get("admin", "port=1&selector=none"); status != 200 || list == nil || len(list) != 0 {
		t.Errorf("without a host: %d, %v", status, list)
	}
	for _, query := range []string{"", "port=0", "port=65536", "port=x", "port=1&selector="} {
		if status, _ := get("admin", query); status != 422 {
			t.Errorf("%q: %d", query, status)
		}
	}
}

// TestApplyBySelector: an expression in a file chooses among the hosts that the caller may query.
func TestApplyBySelector(t *testing.T) {
	r := labelled(t)
	r.app("shop", "* on a at label:role=web")
	apply := func(app, hosts string) answer {
		t.Helper()
		return r.call(app, "PUT", "/namespaces/a?dry_run=true", `{"namespace":"a","processes":{"x":{`+daemon+`,"hosts":`+
			hosts+`}}}`)
	}
	for _, tt := range []struct{ app, hosts, want string }{
		{"admin", `{"select":"role=web"}`, "create x [3:10.0.0.3 web-1] by start"},
		{"admin", `{"select":"role,os!=debian"}`, "create x [0:10.0.0.2 3:10.0.0.3] by start"},
		{"shop", `{"select":"role"}`, "create x [3:10.0.0.3 web-1] by start"},
	} {
		if got := changesOf(r.want(200, apply(tt.app, tt.hosts))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.hosts, got, tt.want)
		}
	}
	r.refused(apply("admin", `{"select":"role=none"}`), 422, "processes.x.hosts.select")
	r.refused(apply("shop", `{"select":"role=db"}`), 422, "processes.x.hosts.select")
	r.refused(apply("admin", `{"select":"role="}`), 422, "processes.x.hosts.select")
	r.refused(apply("admin", `{"select":""}`), 422, "processes.x.hosts.select")
}

func TestReceiverBySelector(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	made := r.want(201, r.call("admin", "POST", "/receivers",
		`{"name":"w","url":"http://127.0.0.1:9/","local":true,"select":" role = web "}`))
	same(t, "select", any("role=web"), made.body["select"])
	changed := r.want(200, r.call("admin", "PATCH", "/receivers/w", `{"select":"zone"}`))
	same(t, "changed", any("zone"), changed.body["select"])
	r.refused(r.call("admin", "PATCH", "/receivers/w", `{"select":"zone="}`), 422, "select")
	everywhere := r.want(200, r.call("admin", "PATCH", "/receivers/w", `{"select":""}`))
	if s, there := everywhere.body["select"]; there {
		t.Errorf("for every host the expression is %v", s)
	}
}
