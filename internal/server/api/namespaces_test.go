package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/server/store"
)

// place stores a process with a form of files, given as JSON.
func (r *rig) place(name, key, state, text string) {
	r.t.Helper()
	f, err := processfile.ReadSpecJSON([]byte(text))
	r.must(err)
	spec := processfile.Canonical(*f)
	o := store.Observed{
		Agent: key, Process: process.ID{Namespace: "a", Name: name}, Spec: &spec,
		Status: process.Status{
			Known: true, State: state, Hosted: true, Want: process.WantRunning, Instance: process.Instance{PID: -1},
		},
	}
	if state == "running" {
		o.Status.Instance = process.Instance{PID: 42}
	}
	r.must(r.store.PutObserved(r.t.Context(), store.ReportMark{}, []store.Observed{o}, nil))
}

const daemon = `"start":"x","process_name":"x","user":"u"`

// changesOf shows a plan: the mark of each action, the process, its hosts and fields.
func changesOf(a answer) string {
	var all []string
	list, _ := a.body["changes"].([]any)
	for _, item := range list {
		c := item.(map[string]any)
		text := fmt.Sprint(c["action"], " ", c["process"], " ", c["hosts"])
		if op, ok := c["op"]; ok {
			text += fmt.Sprint(" by ", op)
		}
		if fields, ok := c["fields"].([]any); ok {
			for _, f := range fields {
				f := f.(map[string]any)
				text += fmt.Sprintf(" %v:%v→%v", f["path"], f["from"], f["to"])
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func TestApply(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	r.place("x", plain, "running", `{`+daemon+`}`)
	r.place("old", web, "running", `{`+daemon+`}`)
	r.observe("a/wire@" + web + " running")
	file := `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1","0:10.0.0.2"]},
		"y":{` + daemon + `,"hosts":["web-*"]}}}`

	dry := r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", file))
	want := "none x [0:10.0.0.2]; change x [web-1] by restart environment.A:1→<nil>; create y [web-1] by start"
	if got := changesOf(dry); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if r.engine.last != nil {
		t.Error("a dry run did something")
	}
	pruned := r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true&prune=true", file))
	if got := changesOf(pruned); !strings.HasPrefix(got, "remove old [web-1] by stop; ") {
		t.Errorf("got %s", got)
	}

	// The tag of the plan is that of the file, and another one is refused.
	got := r.want(200, r.call("admin", "GET", "/namespaces/a", nil))
	if tag := got.header.Get("ETag"); tag == "" || tag != dry.header.Get("ETag") {
		t.Errorf("the tags are %q and %q", tag, dry.header.Get("ETag"))
	}
	r.ifMatch = `"other"`
	r.refused(r.call("admin", "PUT", "/namespaces/a", file), 412, "")
	r.ifMatch = got.header.Get("ETag")
	done := r.want(202, r.call("admin", "PUT", "/namespaces/a", file))
	if id := done.body["operation"].(map[string]any)["id"]; !strings.HasSuffix(done.header.Get("Location"), id.(string)) {
		t.Errorf("the location is %s", done.header.Get("Location"))
	}
	var ops []string
	for _, req := range r.engine.last.Requests {
		ops = append(ops, fmt.Sprintf("%s %s %d %v", req.Op, req.Process.Name, len(req.Targets), req.Spec != nil))
	}
	same(t, "operations", []string{"restart x 1 true", "start y 1 true"}, ops)
	r.refused(r.call("admin", "PUT", "/namespaces/a", file), 412, "") // the operation is under way
	r.ifMatch = ""

	// What was got changes nothing.
	text, err := json.Marshal(got.body)
	r.must(err)
	again := r.want(200, r.call("admin", "PUT", "/namespaces/a", string(text)))
	if got := changesOf(again); got != "none old [web-1]; none wire [web-1]; none x [0:10.0.0.2 web-1]" {
		t.Errorf("got %s", got)
	}
}

func TestApplyRefuses(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("reader", "query on a")
	r.app("updater", "query on a", "update on a")
	r.app("starter", "query on a", "start on a", "restart on a")
	r.app("narrow", "query on a at 0:10.0.0.2", "start on a at 0:10.0.0.2")
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	file := func(fields, hosts string) string {
		return `{"namespace":"a","processes":{"x":{` + daemon + fields + `,"hosts":["` + hosts + `"]}}}`
	}
	for _, tt := range []struct {
		app, path, body string
		status          int
		field           string
	}{
		{"admin", "/namespaces/b", file("", "web-1"), 422, "namespace"},
		{"admin", "/namespaces/a?nosuch=1", file("", "web-1"), 422, "nosuch"},
		{"admin", "/namespaces/a?prune=some", file("", "web-1"), 422, "prune"},
		{"admin", "/namespaces/a", file(`,"nicee":1`, "web-1"), 422, "processes.x.nicee"},
		{"admin", "/namespaces/a", file(`,"nice":1,"nice":2`, "web-1"), 422, "processes.x.nice"},
		{"admin", "/namespaces/a", file(`,"after":{"b":"ready"}`, "web-1"), 422, "processes.x.after.b"},
		{"admin", "/namespaces/a", file("", "web-9"), 422, "processes.x.hosts[0]"},
		{"admin", "/namespaces/a", file(`,"limits":{"memory":1}`, "web-1"), 422, "processes.x.limits.memory"},
		{"admin", "/namespaces/a", file(`,"environment":{"A":"***","B":"***"}`, "web-1"), 422, "processes.x.environment.B"},
		{"admin", "/namespaces/a", `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1"]}},"more":[{"x":{` + daemon + `,"hosts":["web-*"]}}]}`, 422, "processes.x.hosts[0]"},
		{"reader", "/namespaces/a", file("", "web-1"), 403, ""},
		{"updater", "/namespaces/a", file(`,"labels":{"a":"b"},"environment":{"A":"1"}`, "web-1"), 403, ""},
		{"starter", "/namespaces/a", file(`,"labels":{"a":"b"},"environment":{"A":"1"}`, "web-1"), 403, ""},
		{"narrow", "/namespaces/a", file("", "web-1"), 422, "processes.x.hosts[0]"}, // as if there was no such host
		{"narrow", "/namespaces/b", strings.Replace(file("", "web-1"), `"a"`, `"b"`, 1), 403, ""},
		{"admin", "/namespaces/a", `[]`, 422, ""},
		{"admin", "/namespaces/a", `{`, 422, ""},
	} {
		r.refused(r.call(tt.app, "PUT", tt.path, tt.body), tt.status, tt.field)
	}
	for path, want := range map[string][]string{ // all faults at once
		"/namespaces/a?dry_run=maybe&nosuch=1&batch=x&at=noon&peer=p&take_over=x": {
			"at", "batch", "dry_run", "nosuch", "peer", "processes.x.hosts[0]", "take_over",
		},
		"/namespaces/b?prune=some": {"namespace", "processes.x.hosts[0]", "prune"},
	} {
		got := r.want(422, r.call("admin", "PUT", path, file("", "web-9"))).faults()
		slices.Sort(got)
		same(t, path, want, got)
	}
	got := r.want(422, r.call("admin", "PUT", "/namespaces/b", file(`,"nicee":1`, "web-1"))).faults()
	slices.Sort(got)
	same(t, "another namespace", []string{"namespace", "processes.x.nicee"}, got)
	r.want(202, r.call("starter", "PUT", "/namespaces/a", file("", "web-1"))) // a restart
	r.refused(r.call("admin", "GET", "/namespaces/none", nil), 404, "")
}

// TestDryRunOfAnApply: it tells the hosts that are away and have a change, and the answer without dry_run if that is a
// refusal.
func TestDryRunOfAnApply(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("reader", "query on a")
	r.place("x", web, "running", `{`+daemon+`}`)
	r.place("x", gone, "running", `{`+daemon+`}`)
	file := func(fields, hosts string) string {
		return `{"namespace":"a","processes":{"x":{` + daemon + fields + `,"hosts":[` + hosts + `]}}}`
	}
	dry := func(app, more, file string) string {
		body := r.want(200, r.call(app, "PUT", "/namespaces/a?dry_run=true"+more, file)).body
		return fmt.Sprint(body["away"], " ", body["refused"], " ", body["reason"])
	}
	same(t, "no change", "<nil> <nil> <nil>", dry("admin", "", file("", `"web-1","3:10.0.0.3"`)))
	same(t, "a change", "[3:10.0.0.3] <nil> <nil>", dry("admin", "", file(`,"nice":1`, `"web-1","3:10.0.0.3"`)))
	same(t, "no right", "[3:10.0.0.3] 403 not allowed: restart a/x, and 3 more", dry("reader", "", file(`,"nice":1`, `"web-1","3:10.0.0.3"`)))
	ro := r.want(202, r.call("admin", "PUT", "/namespaces/a?batch=1", file(`,"nice":1`, `"web-1"`))).body["rollouts"].([]any)[0].(map[string]any)
	same(t, "busy", "<nil> 409 "+notFinished(ro["id"], "a/x"),
		dry("admin", "&batch=1", file(`,"nice":2`, `"web-1"`)))
	r.want(409, r.call("admin", "PUT", "/namespaces/a?batch=1", file(`,"nice":2`, `"web-1"`)))
	busy := r.want(200, r.call("admin", "POST", "/tasks?dry_run=true", map[string]any{
		"op": "restart", "processes": []string{"a/x"}, "rollout": map[string]any{"batch": 1},
	})).body
	same(t, "operation", "409", fmt.Sprint(busy["refused"]))
}

// TestEnvironmentIsHidden from callers who may not set it; what they got changes nothing.
func TestEnvironmentIsHidden(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("reader", "query on a")
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"topsecret"}}`)
	for _, path := range []string{"/namespaces/a", "/processes/a/x", "/processes?spec=true"} {
		for app, shown := range map[string]bool{"admin": true, "reader": false} {
			text, err := json.Marshal(r.want(200, r.call(app, "GET", path, nil)).body)
			r.must(err)
			if strings.Contains(string(text), "topsecret") != shown || strings.Contains(string(text), `"***"`) == shown {
				t.Errorf("%s for %s: %s", path, app, text)
			}
		}
	}
	file, err := json.Marshal(r.want(200, r.call("reader", "GET", "/namespaces/a", nil)).body)
	r.must(err)
	if got := changesOf(r.want(200, r.call("reader", "PUT", "/namespaces/a", string(file)))); got != "none x [web-1]" {
		t.Errorf("got %s", got)
	}
	for _, guess := range []string{"other", "topsecret"} { // a plan does not tell a right guess from a wrong one
		changed := strings.Replace(string(file), "***", guess, 1)
		if got := changesOf(r.want(200, r.call("reader", "PUT", "/namespaces/a?dry_run=true", changed))); got !=
			"change x [web-1] by restart environment.A:***→***" {
			t.Errorf("%s: got %s", guess, got)
		}
	}
}

// TestApplyBeside: take_over and beside reach the hosts with the starts, and exclude each other.
func TestApplyBeside(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	file := `{"namespace":"a","processes":{"y":{` + daemon + `,"hosts":["web-1"]}}}`
	for query, want := range map[string]process.Beside{
		"": process.Refuse, "?take_over=true": process.TakeOver, "?take_over=only": process.Adopt,
		"?take_over=only&pid=y:4711:99":     process.Adopt.WithPID(4711, 99),
		"?take_over=true&pid=other:4711:99": process.TakeOver,
		"?beside=true":                      process.StartBeside, "?beside=false&take_over=false": process.Refuse,
	} {
		r.want(202, r.call("admin", "PUT", "/namespaces/a"+query, file))
		if got := r.engine.last.Requests[0].Spec.Beside; got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	r.refused(r.call("admin", "PUT", "/namespaces/a?take_over=true&beside=true", file), 422, "beside")
	r.refused(r.call("admin", "PUT", "/namespaces/a?take_over=perhaps", file), 422, "take_over")
	for _, query := range []string{
		"?pid=api:4711:99", "?take_over=only&pid=4711:99", "?take_over=only&pid=api:", "?take_over=only&pid=:2:99",
		"?take_over=only&pid=api:1:99", "?take_over=only&pid=api:4194305:99", "?beside=true&pid=api:4711:99",
		"?take_over=only&pid=api:4711", "?take_over=only&pid=api:4711:-1",
	} {
		r.refused(r.call("admin", "PUT", "/namespaces/a"+query, file), 422, "pid")
	}
}

// TestApplyCopies: the number of copies in a file is what hosts have afterwards, and what was got changes nothing.
func TestApplyCopies(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	for n := range 4 {
		r.place(process.CopyName("api", n+1), web, "running", `{"run":"x","runtime_directory":"`+process.CopyName("api", n+1)+`"}`)
	}
	r.place("db", web, "running", `{`+daemon+`}`)
	put := func(dry, file string) answer {
		return r.call("admin", "PUT", "/namespaces/a?dry_run="+dry, `{"namespace":"a","processes":`+file+`}`)
	}
	const api = `"hosts":["web-1"],"run":"x","runtime_directory":"api"`
	got := r.want(200, r.call("admin", "GET", "/namespaces/a", nil))
	entry := got.body["processes"].(map[string]any)["api"].(map[string]any)
	same(t, "copies", any(float64(4)), entry["copies"])
	same(t, "runtime directory", any("api"), entry["runtime_directory"])
	text, err := json.Marshal(got.body["processes"])
	r.must(err)
	same(t, "what was got", "none api [web-1]; none db [web-1]", changesOf(r.want(200, put("false", string(text)))))

	fewer := `{"api":{` + api + `,"copies":2},"web":{"hosts":["web-1"],"run":"x","after":{"api":"ready"}}}`
	same(t, "fewer", "none api [web-1]; remove api [web-1] by stop; create web [web-1] by start",
		changesOf(r.want(200, put("true", fewer))))
	r.want(202, put("false", fewer))
	var ops []string
	for _, req := range r.engine.last.Requests {
		ops = append(ops, fmt.Sprintf("%s %s", req.Op, req.Process.Name))
	}
	same(t, "operations", []string{"stop api@3", "stop api@4", "start web"}, ops)

	for file, field := range map[string]string{
		`{"api":{` + api + `,"copies":0}}`:                                                                                   "processes.api.copies",
		`{"api":{` + api + `,"copies":2},"api@2":{"hosts":["web-1"],"run":"y"}}`:                                             "processes.api@2.hosts[0]",
		`{"api":{` + api + `,"copies":2,"after":{"db":"ready"}},"db":{"hosts":["web-1"],"run":"x","after":{"api":"ready"}}}`: "processes.api.after",
		`{"web":{"hosts":["web-1"],"run":"x","after":{"none":"ready"},"copies":3}}`:                                          "processes.web.after.none",
	} {
		r.refused(put("true", file), 422, field)
	}
	one := `{"op":"start","targets":[{"namespace":"a","name":"%s","hosts":["web-1"]}],"spec":%s}`
	r.refused(r.call("admin", "POST", "/tasks", fmt.Sprintf(one, "api@9", `{`+daemon+`}`)), 422, "targets[0].name")
	r.refused(r.call("admin", "POST", "/tasks", fmt.Sprintf(one, "api", `{"run":"x","copies":2}`)), 422, "spec.copies")
	r.want(202, r.call("admin", "POST", "/tasks", fmt.Sprintf(one, "api@9", `{"run":"x"}`)))
}

// TestNamesOfCopies: the name of a process also selects its copies, and that of a copy the copy alone.
func TestNamesOfCopies(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("a/api@1@"+web+" running", "a/api@2@"+web+" stopped", "a/api@2@"+plain+" running", "a/apix@"+web+" running")
	for path, want := range map[string]int{
		"/processes?name=api": 3, "/processes?name=ap*&namespace=a": 4, "/processes?name=api%402": 2, "/processes/a/api": 3,
		"/processes/a/api@1": 1,
	} {
		items := r.want(200, r.call("admin", "GET", path, nil)).body["items"].([]any)
		if len(items) != want {
			t.Errorf("%s selects %d processes, want %d", path, len(items), want)
		}
	}
	counts := r.want(200, r.call("admin", "GET", "/processes/counts?name=api", nil))
	same(t, "count", any(float64(3)), counts.body["total"])
	found := r.want(200, r.call("admin", "GET", "/why?namespace=a&name=api&all=true", nil))
	same(t, "judged", any(float64(3)), found.body["total"])
}

// TestCircleOverNamespaces: processes of several namespaces that wait for each other are refused with their path.
// Others that wait for each other concern nobody else.
func TestCircleOverNamespaces(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	at := func(id, after string) {
		namespace, name, _ := strings.Cut(id, "/")
		spec := process.Spec{Run: "x", After: map[string]string{after: "ready"}}
		r.must(r.store.PutObserved(t.Context(), r.mark(plain), []store.Observed{{
			Agent: plain, Process: process.ID{Namespace: namespace, Name: name}, Spec: &spec,
			Status: process.Status{Known: true, State: "stopped", Instance: process.Instance{PID: -1}},
		}}, nil))
	}
	at("b/y", "c/z")
	at("c/z", "a/x")
	at("d/p", "d/q")
	at("d/q", "d/p")
	file := func(after string) string {
		return `{"namespace":"a","processes":{"x":{"hosts":["web-1"],"run":"x","after":{"` + after + `":"ready"}}}}`
	}
	a := r.call("admin", "PUT", "/namespaces/a", file("b/y"))
	r.refused(a, 422, "processes.x.after")
	if detail, _ := a.body["detail"].(string); !strings.Contains(detail, "a/x → b/y → c/z → a/x") {
		t.Errorf("the refusal says %q", detail)
	}
	r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", file("d/p")))
}

// TestPeers: after may name a process that no host has if the caller says that it brings the process.
func TestPeers(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	file := `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1"],"after":{"b/y":"ready","b/z":"ready"}}}}`
	call := func(query string) answer { return r.call("admin", "PUT", "/namespaces/a?dry_run=true"+query, file) }
	r.want(200, call("&peer=b/y&peer=b/z"))
	r.want(422, call("&peer=b/y"))
	r.want(422, call(""))
	r.want(422, call("&peer=b/y&peer=z"))
}

// TestFaultsOfAfter: circles, unknown names with those that were meant, and all other faults come together. A circle of
// processes that no host has is one, too.
func TestFaultsOfAfter(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("own", "* on a")
	r.observe("a/database@"+web+" running", "far/cache@"+web+" running")
	file := `{"namespace":"a","processes":{
		"api":{"run":"x","hosts":["web-1"],"after":{"databse":"ready","far/cach":"started","apo":"ready"}},
		"b":{"run":"x","hosts":["web-1"],"after":{"c":"ready"}},
		"c":{"run":"x","hosts":["web-1"],"after":{"b":"ready"}},
		"d":{"run":"x","nice":77,"hosts":{"select":"role=none"},"after":{"d":"ready"}},
		"e":{"run":"x","hosts":["wxb-1"],"after":{"f":"ready"}},
		"f":{"run":"x","hosts":["wxb-1"],"copies":2}}}`
	near := ", did you mean far/cache?"
	for _, app := range []string{"admin", "own"} {
		answer := r.want(422, r.call(app, "PUT", "/namespaces/a?dry_run=true", file))
		got := fmt.Sprint(answer.body["detail"])
		for _, want := range []string{
			"processes.api.after.apo: no file and no host has this process;",
			"processes.api.after.databse: no file and no host has this process, did you mean database?;",
			"processes.api.after.far/cach: no file and no host has this process" + near,
			"processes.b.after: the process waits for itself: a/b → a/c → a/b",
			"processes.d.after: the process waits for itself: a/d → a/d",
			"processes.d.nice: is 77: expected -20 to 19", "processes.d.hosts.select: ", "processes.e.hosts[0]: ", "processes.f.hosts[0]: ",
		} {
			if !strings.Contains(got+";", want) {
				t.Errorf("%s: %q is not in\n%s", app, want, got)
			}
		}
		if n := len(answer.body["errors"].([]any)); n != 9 {
			t.Errorf("%s: %d faults: %s", app, n, got)
		}
		near = "" // which the other app may not see
	}
}
