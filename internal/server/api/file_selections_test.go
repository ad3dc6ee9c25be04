package api_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"drover/internal/process"
	"drover/internal/server/api"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// standing shows the selections in force in namespace a.
func (r *rig) standing() string {
	r.t.Helper()
	list, err := r.store.ListSelections(r.t.Context(), "a")
	r.must(err)
	var all []string
	for _, s := range list {
		all = append(all, fmt.Sprintf("%s %s %s", s.Process.Name, s.Selector, s.App))
	}
	return strings.Join(all, "; ")
}

// planned shows a plan: action, process, operation and fields.
func planned(a answer) string {
	var all []string
	for _, item := range a.body["changes"].([]any) {
		c := item.(map[string]any)
		text := fmt.Sprint(c["action"], " ", c["process"])
		if c["op"] != nil {
			text += fmt.Sprint(" ", c["op"])
		}
		if fields, ok := c["fields"].([]any); ok {
			for _, f := range fields {
				f := f.(map[string]any)
				text += fmt.Sprint(" ", f["path"], " ", f["from"], ">", f["to"])
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// TestSelectionsOfAFile: the server keeps the selections of a file, shows them, and drops them with the next file that
// has none.
func TestSelectionsOfAFile(t *testing.T) {
	r := labelled(t)
	r.app("reader", "query on a")
	file := func(hosts string) string {
		return `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":` + hosts + `}}}`
	}
	selected := file(`{"select":"role == web,os"}`)
	same(t, "plan", "create x start",
		planned(r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", selected))))
	same(t, "after a plan", "", r.standing())
	r.want(202, r.call("admin", "PUT", "/namespaces/a", selected))
	same(t, "after the apply", "x role=web,os admin", r.standing())
	r.settle()
	r.place("x", web, "running", `{`+daemon+`}`)

	got := r.want(200, r.call("admin", "GET", "/namespaces/a", nil))
	x := got.body["processes"].(map[string]any)["x"].(map[string]any)
	same(t, "hosts", fmt.Sprint(map[string]any{"select": "role=web,os"}), fmt.Sprint(x["hosts"]))
	r.place("x", web, "running", `{`+daemon+`,"labels":{"by":"hand"}}`)
	got = r.want(200, r.call("admin", "GET", "/namespaces/a", nil))
	if shown := fmt.Sprint(got.body["processes"], got.body["more"]); !strings.Contains(shown, "select:role=web,os") ||
		strings.Contains(shown, "hand") {
		t.Errorf("of a host that differs the file shows %s", shown)
	}
	same(t, "the file that is shown", "change x update labels.by hand><nil>",
		planned(r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", got.body))))
	r.place("x", web, "running", `{`+daemon+`}`)
	same(t, "the same again", "none x", planned(r.want(200, r.call("admin", "PUT", "/namespaces/a", selected))))
	before := r.revisions("admin")
	same(t, "another selection of the same hosts", "change x hosts.select role=web,os>role=web,os,!none",
		planned(r.want(200, r.call("admin", "PUT", "/namespaces/a?message=narrower",
			file(`{"select":"role=web,os,!none"}`)))))
	now := r.revisions("admin")
	same(t, "its revision", []string{`2 admin apply "narrower"`}, now[:len(now)-len(before)])
	r.want(200, r.call("admin", "PUT", "/namespaces/a", selected))

	r.must(r.fleet.Label(t.Context(), []string{plain}, map[string]string{"role": "web"}, nil))
	missed := func() (all []string) {
		t.Helper()
		for _, item := range r.want(200, r.call("admin", "GET", "/drift?live=false", nil)).body["items"].([]any) {
			d := item.(map[string]any)
			all = append(all, fmt.Sprint(d["host"], " ", d["kind"], " ", d["app"], " ", d["mend"]))
		}
		return all
	}
	lacks := []string{"0:10.0.0.2 missed admin drover register a/x --hosts 0:10.0.0.2 --selection && " +
		"drover start a/x --hosts 0:10.0.0.2 --take-over"}
	same(t, "a host that matches and has got nothing", lacks, missed())
	inBatches := `{"namespace":"a","processes":{"x":{` + daemon + `,"labels":{"b":"c"},"hosts":{"select":"role=web,os"},` +
		`"rollout":{"batch":1}}}}`
	id := rolloutsOf(r.want(202, r.call("admin", "PUT", "/namespaces/a", inBatches)))[0]
	same(t, "while a rollout goes on", []string(nil), missed())
	r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/abort", nil))
	same(t, "after the rollout", lacks, missed())
	r.must(r.fleet.Label(t.Context(), []string{plain}, map[string]string{"role": "db"}, nil))

	listed := file(`["web-1"]`)
	same(t, "a list instead", "change x hosts.select role=web,os><nil>",
		planned(r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", listed))))
	r.refused(r.call("reader", "PUT", "/namespaces/a", listed), 403, "")
	same(t, "after a plan and a caller without the right", "x role=web,os admin",
		r.standing())
	r.want(200, r.call("admin", "PUT", "/namespaces/a", listed))
	same(t, "after the list", "", r.standing())
	same(t, "a selection again", "change x hosts.select <nil>>role=web,rack",
		planned(r.want(200, r.call("admin", "PUT", "/namespaces/a", file(`{"select":"role=web,rack"}`)))))
	r.want(202, r.call("admin", "PUT", "/namespaces/a?prune=true", `{"namespace":"a","processes":{"y":{`+daemon+
		`,"hosts":["web-1"]}}}`))
	same(t, "after a file that prunes", "", r.standing())
}

// TestDrift: a difference of a spec, what a person did, and what a host says of its running process, as far as the
// caller may query it.
func TestDrift(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("narrow", "query on a at 0:10.0.0.2")
	r.app("stranger", "query on b")
	var asked atomic.Int64
	var compared atomic.Bool
	r.live = func(agent string, q wire.LiveQuestion) (wire.LiveAnswer, error) {
		asked.Add(1)
		if agent == plain {
			return wire.LiveAnswer{}, errors.New("the host is not connected")
		}
		return wire.LiveAnswer{Processes: []wire.LiveProcess{{
			Process: q.Processes[0], PID: 7, Fields: []process.LiveField{{Path: "executable", Have: "replaced"}},
			Compared: compared.Load(), Config: []process.Drift{{Path: "/now", Want: "1", Have: "2"}},
		}}}, nil
	}
	same(t, "of nothing", 0.0, r.want(200, r.call("admin", "GET", "/drift", nil)).body["total"])
	text := daemon + `,"environment":{"A":"topsecret"}`
	r.want(202, r.call("admin", "PUT", "/namespaces/a",
		`{"namespace":"a","processes":{"x":{`+text+`,"hosts":["web-1","0:10.0.0.2"]}}}`))
	r.settle()
	r.place("x", web, "running", `{`+text+`}`)
	r.place("x", plain, "running", `{`+daemon+`,"environment":{"A":"other"}}`)
	list := func(app, query string) (all []string) {
		t.Helper()
		a := r.want(200, r.call(app, "GET", "/drift"+query, nil))
		for _, item := range a.body["items"].([]any) {
			d := item.(map[string]any)
			all = append(all, fmt.Sprint(d["host"], " ", d["kind"], " ", d["field"], " ", d["want"], ">", d["have"]))
		}
		for _, item := range a.body["unasked"].([]any) {
			all = append(all, fmt.Sprint("unasked ", item.(map[string]any)["host"]))
		}
		if strings.Contains(fmt.Sprint(a.body), "secret") {
			t.Errorf("a value of the environment is shown: %v", a.body)
		}
		return all
	}
	missed, live := "0:10.0.0.2 missed environment.A ***>***", "web-1 process executable <nil>>replaced"
	same(t, "all", []string{missed, live, "unasked 0:10.0.0.2"}, list("admin", ""))
	same(t, "the first", []string{missed, "unasked 0:10.0.0.2"}, list("admin", "?limit=1"))
	asked.Store(0)
	same(t, "stored", []string{missed}, list("admin", "?live=false"))
	same(t, "asked", int64(0), asked.Load())
	same(t, "of a name and a host", []string{live}, list("admin", "?namespace=a&name=x&host=web-1"))
	compared.Store(true)
	same(t, "with files that were compared just now", []string{live, "web-1 config config_files./now 1>2"},
		list("admin", "?namespace=a&name=x&host=web-1"))
	compared.Store(false)
	same(t, "of a state", []string{missed, live, "unasked 0:10.0.0.2"}, list("admin", "?state=running"))
	same(t, "of another state", []string(nil), list("admin", "?state=backoff"))
	same(t, "of labels that none has", []string(nil), list("admin", "?process_selector=tier"))
	same(t, "of another name", []string(nil), list("admin", "?name=y"))
	same(t, "a narrow app", []string{missed, "unasked 0:10.0.0.2"}, list("narrow", ""))
	same(t, "an app of another namespace", []string(nil), list("stranger", ""))
	r.refused(r.call("admin", "GET", "/drift?live=perhaps", nil), 422, "live")

	// What somebody has unhosted.
	r.report("a/x@"+web, process.Status{State: "running", Want: process.WantRunning, Instance: process.Instance{PID: 42}})
	r.put(web, process.Event{
		Stream: "t", Seq: 1, At: morning().UnixMilli(), Kind: process.EventUnhosted,
		Process: process.ID{Namespace: "a", Name: "x"},
		Actor:   process.Actor{Kind: process.ActorCaller, App: "ops", User: "ben"},
	})
	who := func() []string {
		t.Helper()
		return r.want(200, r.call("admin", "GET", "/drift?live=false&host=web-1", nil)).items("kind", "app", "user", "at")
	}
	same(t, "unhosted", []string{"person ops ben 2026-11-20T10:00:00Z"}, who())
	r.happen("a/x@" + web + " hosted 9")
	same(t, "hosted since", []string{"person <nil> <nil> <nil>"}, who())

	// What somebody has removed on a host of a list.
	r.want(202, r.call("admin", "POST", "/tasks",
		`{"op":"unregister","targets":[{"namespace":"a","name":"x","hosts":["web-1"]}]}`))
	r.settle()
	r.must(r.store.PutObserved(t.Context(), r.mark(web), nil, []store.Removal{{
		Agent: web, Process: process.ID{Namespace: "a", Name: "x"}, Revision: 1 << 40,
	}}))
	same(t, "removed", []string{missed, "web-1 person <nil> <nil>><nil>"}, list("admin", "?live=false"))
}

// TestLabelsAndSelections: labels change which processes at most as many hosts have as one person may change.
func TestLabelsAndSelections(t *testing.T) {
	r := labelled(t)
	r.want(202, r.call("admin", "PUT", "/namespaces/a",
		`{"namespace":"a","processes":{"x":{`+daemon+`,"hosts":{"select":"role=web"}}}}`))
	dry := r.want(200, r.call("admin", "POST", "/hosts/labels?dry_run=true", `{"hosts":["*"],"set":{"role":"web"}}`)).body
	want := "map[cease:0 come:1 processes:[a/x] select:role=web]"
	if got := dry["reselected"].([]any); len(got) != 1 || fmt.Sprint(got[0]) != want {
		t.Errorf("the dry run answers %v, want %s", dry, want)
	}
	r.app("labeller", "label-agents on *", "query on b")
	blind := r.want(200, r.call("labeller", "POST", "/hosts/labels?dry_run=true", `{"hosts":["*"],"set":{"role":"web"}}`)).body
	same(t, "for who may not query it", "[map[cease:0 come:1 processes:[] select:]]", fmt.Sprint(blind["reselected"]))
	r.want(202, r.call("admin", "PUT", "/namespaces/a",
		`{"namespace":"a","processes":{"x":{`+daemon+`,"leave":"stop","hosts":{"select":"role=web"}}}}`))
	ends := r.want(200, r.call("admin", "POST", "/hosts/labels?dry_run=true", `{"hosts":["*"],"set":{"role":"x"}}`)).body
	same(t, "hosts where drover stops a process", "[map[cease:2 come:0 ends:2 processes:[a/x] select:role=web]]",
		fmt.Sprint(ends["reselected"]))
	r.remake(func(c *api.Config) { c.Breadth = 1 })
	label := func(status int, body string) answer {
		t.Helper()
		return r.want(status, r.call("admin", "POST", "/hosts/labels", body))
	}
	label(200, `{"hosts":["*"],"set":{"team":"x"}}`)
	for _, host := range []string{"web-1", "0:10.0.0.2", "3:10.0.0.3"} {
		label(200, `{"hosts":["`+host+`"],"set":{"role":"web"}}`)
	}
	before := label(200, `{"hosts":["*"],"set":{"role":"web"}}`).body
	same(t, "labels that change nothing", []any{nil, 3.0}, []any{before["reselected"], before["unchanged"]})
	before = label(200, `{"hosts":["web-1"],"remove":["nosuch"]}`).body
	same(t, "a label that is not there", []any{1.0}, []any{before["unchanged"]})
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 1})
	r.must(err)
	same(t, "targets of the audit row", 0, rows[0].Targets)
	detail := fmt.Sprint(label(403, `{"hosts":["*"],"remove":["role"]}`).body["detail"])
	if !strings.Contains(detail, "3 hosts come to match or cease to match") {
		t.Errorf("the refusal is %s", detail)
	}
	for _, host := range []string{"web-1", "0:10.0.0.2"} {
		label(200, `{"hosts":["`+host+`"],"remove":["role"]}`)
	}
	label(403, `{"hosts":["*"],"set":{"role":"web"}}`)
}

// TestWhoStaysAMember: an apply of a narrower selection lets hosts go that match the former one only. A host that has
// ceased to match before remains a member, because it has yet to give the process up.
func TestWhoStaysAMember(t *testing.T) {
	r := labelled(t)
	apply := func(selector string) {
		t.Helper()
		r.want(202, r.call("admin", "PUT", "/namespaces/a",
			`{"namespace":"a","processes":{"x":{`+daemon+`,"hosts":{"select":"`+selector+`"},"leave":"stop"}}}`))
		r.settle()
	}
	members := func() (all []string) {
		t.Helper()
		rows, err := r.store.UpkeepOn(t.Context(), []string{web, plain, gone})
		r.must(err)
		for _, row := range rows {
			if row.Member != "" {
				all = append(all, row.Agent)
			}
		}
		slices.Sort(all)
		return all
	}
	r.must(r.fleet.Label(t.Context(), []string{web, plain, gone}, map[string]string{"role": "web"}, nil))
	apply("role=web")
	same(t, "all", []string{gone, plain, web}, members())
	r.must(r.fleet.Label(t.Context(), []string{gone}, map[string]string{"role": "db"}, nil))
	apply("role=web,zone!=b")
	same(t, "without the host that only the former selection has", []string{gone, web}, members())
}

// TestGoneWhereNoFileWantsIt: a process that somebody has removed from a host, which its selection no longer matches,
// is no difference.
func TestGoneWhereNoFileWantsIt(t *testing.T) {
	r := labelled(t)
	r.want(202, r.call("admin", "PUT", "/namespaces/a",
		`{"namespace":"a","processes":{"x":{`+daemon+`,"hosts":{"select":"role=web"}}}}`))
	r.settle()
	r.place("x", web, "running", `{`+daemon+`}`)
	r.want(202, r.call("admin", "POST", "/tasks",
		`{"op":"unregister","targets":[{"namespace":"a","name":"x","hosts":["web-1"]}]}`))
	r.settle()
	r.must(r.store.PutObserved(t.Context(), r.mark(web), nil, []store.Removal{{
		Agent: web, Process: process.ID{Namespace: "a", Name: "x"}, Revision: 1 << 40,
	}}))
	on := func() []string {
		t.Helper()
		return r.want(200, r.call("admin", "GET", "/drift?live=false&host=web-1", nil)).items("kind", "name")
	}
	same(t, "while the file wants it", []string{"person x"}, on())
	r.must(r.fleet.Label(t.Context(), []string{web}, map[string]string{"role": "db"}, nil))
	same(t, "on a host of another role", []string(nil), on())
}
