package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/storetest"
	"drover/internal/spec"
)

// gse stores a task as a call of GSE makes it, with a spec of one contact.
func (r *rig) gse(id string, op process.Op, name, contact, key string) {
	r.t.Helper()
	r.must(storetest.Create(r.t.Context(), r.store, &store.Task{
		ID: id, App: "cmdb", Through: "gse", Created: time.Now(), Requests: []store.Request{{
			Op: op, Process: process.ID{Namespace: "a", Name: name},
			Spec:    &process.Spec{Compat: &spec.Compat{Contact: contact}},
			Targets: []store.Target{{ItemKey: "k", Spelling: "web-1", Agent: key}},
		}},
	}, store.AuditRow{}))
}

// settle ends all open items.
func (r *rig) settle() {
	r.t.Helper()
	items, err := r.store.LeaseItems(r.t.Context(), time.Now().Add(time.Hour), time.Now(), 1000)
	r.must(err)
	for _, it := range items {
		_, err := r.store.Finish(r.t.Context(), storetest.Reported(it.Agent, map[string]process.Outcome{
			it.ID: {Text: process.Success},
		}))
		r.must(err)
	}
}

// revisions shows the revisions that an app sees, newest first: number, caller, way, message and changes.
func (r *rig) revisions(app string) (all []string) {
	r.t.Helper()
	a := r.want(200, r.call(app, "GET", "/namespaces/a/revisions", nil))
	for _, item := range a.body["items"].([]any) {
		v := item.(map[string]any)
		text := fmt.Sprint(v["number"], " ", v["app"], " ", v["through"])
		if v["message"] != nil {
			text += fmt.Sprintf(" %q", v["message"])
		}
		for _, c := range v["changes"].([]any) {
			c := c.(map[string]any)
			text += fmt.Sprint("; ", c["action"], " ", c["process"], " ", c["hosts"])
			if fields, ok := c["fields"].([]any); ok {
				for _, f := range fields {
					f := f.(map[string]any)
					text += fmt.Sprint(" ", f["path"], ":", f["class"])
				}
			}
		}
		all = append(all, text)
	}
	return all
}

// TestRevisions: an apply, an edit, an operation and a call of GSE each make one, and what changes nothing makes none.
func TestRevisions(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("narrow", "query on a at 0:10.0.0.2")
	r.app("reader", "query on a")
	file := func(fields string) string {
		return `{"namespace":"a","revision":7,"processes":{"x":{` + daemon + fields + `,"hosts":["web-1","0:10.0.0.2"]}}}`
	}
	r.want(202, r.call("admin", "PUT", "/namespaces/a?message=first", file(`,"environment":{"A":"topsecret"}`)))
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"topsecret"}}`)
	r.place("x", plain, "running", `{`+daemon+`,"environment":{"A":"topsecret"}}`)
	got := r.want(200, r.call("admin", "GET", "/namespaces/a", nil))
	tag := got.header.Get("ETag")
	if got.body["revision"] != 1.0 || !strings.HasPrefix(tag, `"1-`) {
		t.Errorf("revision %v, ETag %s", got.body["revision"], tag)
	}
	r.want(200, r.call("admin", "PUT", "/namespaces/a", file(`,"environment":{"A":"topsecret"}`))) // nothing to do
	r.settle()

	r.gse("gse", process.Start, "w", "1", web)
	edit := file(`,"environment":{"A":"other"},"labels":{"l":"1"}`)
	for _, match := range []string{tag, `"1"`} { // the call of GSE was first
		r.ifMatch = match
		r.refused(r.call("admin", "PUT", "/namespaces/a?through=edit", edit), 412, "")
	}
	for _, match := range []string{"2", `"2`, `2"`, `"`, `W/"2"`, `"1", "2"`} {
		r.ifMatch = match
		wrong := r.want(400, r.call("admin", "PUT", "/namespaces/a?dry_run=true", edit))
		same(t, match, any(fmt.Sprintf("the header If-Match is %q: expected a tag in quotes as in ETag, or *", match)),
			wrong.body["detail"])
	}
	r.ifMatch = `"2"`
	if a := r.call("admin", "PUT", "/namespaces/a", edit); a.status != 412 ||
		!strings.Contains(fmt.Sprint(a.body["detail"]), "operation gse changes") {
		t.Errorf("beside an open operation: %d %v", a.status, a.body)
	}
	r.settle()
	r.want(202, r.call("admin", "PUT", "/namespaces/a?through=edit&message=why+not", edit))
	r.ifMatch = ""
	r.want(202, r.call("admin", "POST", "/tasks", map[string]any{
		"op": "unregister", "targets": []any{map[string]any{"namespace": "a", "name": "x", "hosts": []string{"0:10.0.0.2"}}},
	}))
	same(t, "revisions", []string{
		"4 admin operation; remove x 1",
		`3 admin edit "why not"; change x 2 environment.A:restart labels.l:live`,
		"2 cmdb gse; create w 1",
		`1 admin apply "first"; create x 2`,
	}, r.revisions("admin"))
	same(t, "of one host", []string{
		"4 admin operation; remove x 1",
		`3 admin edit "why not"; change x 1 environment.A:restart labels.l:live`,
		`1 admin apply "first"; create x 1`,
	}, r.revisions("narrow"))

	at := func(app, revision string) string {
		return fmt.Sprint(r.want(200, r.call(app, "GET", "/namespaces/a?revision="+revision, nil)).body)
	}
	if text := at("admin", "1"); !strings.Contains(text, "topsecret") || !strings.Contains(text, "revision:1]") ||
		strings.Contains(text, "w:map") {
		t.Errorf("revision 1 is %s", text)
	}
	if text := at("reader", "3"); strings.Contains(text, "other") || !strings.Contains(text, "A:***") ||
		!strings.Contains(text, "w:map") {
		t.Errorf("revision 3 is %s for who may not set values", text)
	}
	if text := at("narrow", "4"); strings.Contains(text, "web-1") || strings.Contains(text, "w:map") {
		t.Errorf("revision 4 is %s for who sees another host", text)
	}

	diff := func(app, query string) string {
		return changesOf(r.want(200, r.call(app, "GET", "/namespaces/a/diff?"+query, nil)))
	}
	same(t, "diff", "create w [web-1]; change x [0:10.0.0.2 web-1] environment.A:topsecret→other labels.l:<nil>→1",
		diff("admin", "from=1&to=3"))
	same(t, "back", "remove w [web-1]; change x [0:10.0.0.2 web-1] environment.A:***→*** labels.l:1→<nil>",
		diff("reader", "from=3&to=1"))
	same(t, "equal", "none w [web-1]; none x [0:10.0.0.2 web-1]", diff("reader", "from=3&to=3"))
	same(t, "present", "none x [0:10.0.0.2 web-1]", diff("admin", "from=1"))
	same(t, "present of one host", "create x [0:10.0.0.2]", diff("narrow", "from=4"))
}

// TestRevisionsRefuse: wrong parameters, revisions that are not there, and callers without a right.
func TestRevisionsRefuse(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("other", "query on b")
	r.place("x", web, "running", `{`+daemon+`}`)
	r.gse("gse", process.Start, "w", "1", web)
	file := `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1"]}}}`
	for _, tt := range []struct {
		app, method, path string
		status            int
		field             string
	}{
		{"admin", "GET", "/namespaces/a?revision=2", 404, ""},
		{"admin", "GET", "/namespaces/none?revision=1", 404, ""},
		{"admin", "GET", "/namespaces/a?revision=0", 422, "revision"},
		{"admin", "GET", "/namespaces/a?revision=x", 422, "revision"},
		{"admin", "GET", "/namespaces/a/diff", 422, "from"},
		{"admin", "GET", "/namespaces/a/diff?from=1&to=-1", 422, "to"},
		{"admin", "GET", "/namespaces/a/diff?from=1&to=5", 404, ""},
		{"admin", "GET", "/namespaces/a/diff?from=1&since=5", 422, "since"},
		{"admin", "GET", "/namespaces/a/revisions?limit=0", 422, "limit"},
		{"admin", "PUT", "/namespaces/a?message=a%0Ab", 422, "message"},
		{"admin", "PUT", "/namespaces/a?message=%FF", 422, "message"},
		{"admin", "PUT", "/namespaces/a?message=" + strings.Repeat("x", 501), 422, "message"},
		{"admin", "PUT", "/namespaces/a?through=gse", 422, "through"},
		{"other", "GET", "/namespaces/a?revision=1", 403, ""},
		{"other", "GET", "/namespaces/a/diff?from=1", 403, ""},
		{"other", "GET", "/namespaces/a/revisions", 403, ""},
	} {
		body := any(nil)
		if tt.method == "PUT" {
			body = file
		}
		r.refused(r.call(tt.app, tt.method, tt.path, body), tt.status, tt.field)
	}
	if rows := r.revisions("admin"); len(rows) != 1 {
		t.Errorf("refused calls made revisions: %v", rows)
	}
	if got := r.want(200, r.call("admin", "GET", "/namespaces/none/revisions", nil)); len(got.body["items"].([]any)) != 0 {
		t.Errorf("a namespace without revisions has %v", got.body)
	}
}

// TestPruneIsOneRevision: an apply that stops what is to go, and the next one that unregisters it, are one revision.
func TestPruneIsOneRevision(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	both := `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1"]},"y":{` + daemon + `,"hosts":["web-1"]}}}`
	r.want(202, r.call("admin", "PUT", "/namespaces/a", both))
	r.settle()
	r.place("x", web, "running", `{`+daemon+`}`)
	r.place("y", web, "running", `{`+daemon+`}`)
	one := `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1"]}}}`
	r.want(202, r.call("admin", "PUT", "/namespaces/a?prune=true", one))
	r.settle()
	r.place("y", web, "stopped", `{`+daemon+`}`)
	stopped := store.Observed{
		Agent: web, Process: process.ID{Namespace: "a", Name: "y"},
		Status: process.Status{Known: true, State: "stopped", Want: process.WantStopped, Instance: process.Instance{PID: -1}},
	}
	r.must(r.store.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{stopped}, nil))
	if got := changesOf(r.want(202, r.call("admin", "PUT", "/namespaces/a?prune=true", one))); !strings.HasPrefix(got,
		"none x [web-1]; remove y [web-1] by unregister") {
		t.Errorf("got %s", got)
	}
	same(t, "revisions", []string{"2 admin apply; remove y 1", "1 admin apply; create x 1; create y 1"}, r.revisions("admin"))
}

// TestRevisionsInProcesses: a process shows the revision of its spec, and that of what runs.
func TestRevisionsInProcesses(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.must(r.store.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{{
		Agent: web, Process: process.ID{Namespace: "a", Name: "x"}, Spec: &process.Spec{Revision: 16},
		Status: process.Status{Known: true, State: "running", Instance: process.Instance{PID: 7, Revision: 15}},
	}}, nil))
	got := r.want(200, r.call("admin", "GET", "/processes/a/x", nil))
	same(t, "revisions", []string{"16 15"}, got.items("revision", "instance.revision"))
}

// TestChangesShowTheLatestRevisions: the batches of a rollout are one row with all hosts, and a short list has the
// latest rows.
func TestChangesShowTheLatestRevisions(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	from := time.Now().Add(-time.Minute)
	r.gse("first", process.Register, "x", "old", web)
	r.settle()
	r.gse("second", process.Register, "x", "old", plain)
	r.settle()
	r.gse("ro-roll-0", process.Update, "x", "new", web)
	r.settle()
	r.gse("between", process.Register, "y", "old", web)
	r.settle()
	r.gse("ro-roll-1", process.Update, "x", "new", plain)
	r.settle()
	revisions := func(more string) []string {
		t.Helper()
		a := r.want(200, r.call("admin", "GET", "/changes?from="+from.UTC().Format(time.RFC3339)+more, nil))
		var all []string
		for _, item := range a.body["revisions"].([]any) {
			v := item.(map[string]any)
			text := fmt.Sprint(v["number"])
			for _, c := range v["changes"].([]any) {
				c := c.(map[string]any)
				text += fmt.Sprint(" ", c["action"], " ", c["process"], " ", c["hosts"])
			}
			all = append(all, text)
		}
		return append(all, fmt.Sprint(a.body["incomplete"]))
	}
	same(t, "all", []string{"1 create x 1", "2 create x 1", "4 create y 1", "5 change x 2", "<nil>"}, revisions(""))
	same(t, "the latest", []string{"4 create y 1", "5 change x 2", "[revisions operations]"}, revisions("&limit=2"))
	same(t, "the last", []string{"5 change x 2", "[revisions operations]"}, revisions("&limit=1"))
}
