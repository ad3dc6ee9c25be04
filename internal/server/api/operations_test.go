package api_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

func TestOperationIsSubmitted(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running")
	a := r.want(202, r.call("admin", "POST", "/tasks", map[string]any{
		"op": "restart", "targets": []any{
			map[string]any{"namespace": "a", "name": "x"},
			// the same host twice more
			map[string]any{"namespace": "a", "name": "x", "hosts": []string{"0:10.0.0.1", "web-1"}},
			map[string]any{"namespace": "b", "name": "n@w/", "hosts": []string{"3:10.0.0.3"}},
		},
	}))
	id := a.body["id"].(string)
	same(t, "location", "/api/v1/tasks/"+id, a.header.Get("Location"))
	same(t, "counts", map[string]any{"targets": 3.0, "ok": 0.0, "failed": 0.0, "pending": 3.0},
		a.body["counts"].(map[string]any))
	same(t, "requests", []store.Request{
		{Op: process.Restart, Process: process.ID{Namespace: "a", Name: "x"}, Targets: []store.Target{
			{ItemKey: "a/x@0:10.0.0.2", Spelling: "0:10.0.0.2", Agent: plain}, {ItemKey: "a/x@web-1", Spelling: "web-1", Agent: web},
		}},
		{Op: process.Restart, Process: process.ID{Namespace: "b", Name: "n@w/"}, Targets: []store.Target{
			{ItemKey: "b/n%40w%2F@3:10.0.0.3", Spelling: "3:10.0.0.3", Agent: gone},
		}},
	}, r.engine.last.Requests)
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 10})
	r.must(err)
	if len(rows) != 1 || rows[0].Action != "tasks.create" || rows[0].Targets != 3 || !rows[0].Allowed ||
		!strings.Contains(string(rows[0].Detail), id) {
		t.Errorf("audit rows %+v", rows)
	}
	same(t, "get", a.body, r.want(200, r.call("admin", "GET", "/tasks/"+id, nil)).body)
}

// TestDryRunOfAnOperation: it checks what the call checks, tells targets, batches and the approval, and stores nothing.
func TestDryRunOfAnOperation(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("narrow", "query,restart on a at web-1")
	r.remake(func(c *api.Config) { c.Breadth = 1 })
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running")
	dry := func(app, more string) answer {
		return r.call(app, "POST", "/tasks?dry_run=true", `{"op":"restart","processes":["a/*"]`+more+`}`)
	}
	same(t, "within the limit", any(nil), r.want(200, dry("narrow", "")).body["reason"])
	r.refused(dry("admin", `,"colour":1`), 422, "colour")
	r.refused(dry("admin", `,"rollout":{"batch":1},"at":"2030-01-01T00:00:00Z"`), 422, "at")
	r.want(403, r.call("narrow", "POST", "/tasks?dry_run=true",
		`{"op":"stop","targets":[{"namespace":"a","name":"x","hosts":["web-1"]}]}`))
	for more, want := range map[string][]any{
		"":                       {0, "the call is for 2 hosts, and above 1 this server demands the approval of a second person: use a rollout"},
		`,"rollout":{"batch":1}`: {2, "a rollout of more than 1 hosts waits for the approval of a second person"},
		`,"one_of":true`:         {2, nil},
	} {
		plan := r.want(200, dry("admin", more)).body
		same(t, more, "[map[hosts:[0:10.0.0.2 web-1] name:x namespace:a]]", fmt.Sprint(plan["targets"]))
		batches := 0
		if planned, rolls := plan["rollout"].(map[string]any); rolls {
			same(t, more+": id", any(""), planned["id"])
			batches = len(planned["hosts"].([]any))
		}
		same(t, more, want, []any{batches, plan["reason"]})
		if more == "" {
			same(t, "refused", any(403.0), plan["refused"])
		} else {
			same(t, more+": refused", nil, plan["refused"]) // a second person may let it begin
		}
		same(t, more+": away", nil, plan["away"])
	}
	r.observe("a/x@" + gone + " running")
	same(t, "away", any([]any{"3:10.0.0.3"}), r.want(200, dry("admin", "")).body["away"])
	if n := len(r.want(200, r.call("admin", "GET", "/tasks", nil)).items("id")) +
		len(r.want(200, r.call("admin", "GET", "/rollouts", nil)).items("id")); n > 0 {
		t.Errorf("dry runs have stored %d operations", n)
	}
}

func TestNoRoomForAnOperation(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("a/x@" + web + " running")
	r.engine.full = &task.BusyError{Open: 9, Most: 10, Retry: 2 * time.Second}
	a := r.call("admin", "POST", "/tasks",
		`{"op":"start","targets":[{"namespace":"a","name":"x","hosts":["web-1"]}]}`)
	r.refused(a, 429, "")
	same(t, "retry", "2", a.header.Get("Retry-After"))
	same(t, "detail", any("9 operations are under way, of at most 10: try again in 2 s"), a.body["detail"])
}

func TestOperationIsRefused(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("narrow", "restart on a at area:0")
	r.observe("a/x@"+web+" running", "a/x@"+gone+" running", "b/x@"+web+" running")
	one := `"targets":[{"namespace":"a","name":"x"}]`
	for _, tt := range []struct {
		app, body string
		status    int
		field     string
	}{
		{"admin", `{"op":"query",` + one + `}`, 422, "op"},
		{"admin", `{` + one + `}`, 422, "op"},
		{"admin", `{"op":"start"}`, 422, "targets"},
		{"admin", `{"op":"start","targets":[{"namespace":"a"}]}`, 422, "targets[0].name"},
		{"admin", `{"op":"start","targets":[{"namespace":"a","name":"\u0007"}]}`, 422, "targets[0].name"},
		{"admin", `{"op":"start","targets":[{"namespace":"a","name":"none"}]}`, 422, "targets[0]"},
		{
			"admin", `{"op":"start","targets":[{"namespace":"a","name":"x","hosts":["9:9.9.9.9"]}]}`, 422,
			"targets[0].hosts[0]",
		},
		{"admin", `{"op":"start","targets":[{"namespace":"a","name":"x","hosts":[""]}]}`, 422, "targets[0].hosts[0]"},
		{"admin", `{"op":"register",` + one + `}`, 422, "spec"},
		{
			"admin", `{"op":"register",` + one +
				`,"spec":{"start":"x","process_name":"x","directory":"rel","user":"root"}}`, 422,
			"spec.directory",
		},
		{
			"admin", `{"op":"register",` + one +
				`,"spec":{"start":"\u0000","process_name":"x","user":"root"}}`, 422,
			"spec.start",
		},
		{"admin", `{"op":"register",` + one +
			`,"spec":{"start":"x","process_name":"x","user":"root","schedule":{"cron":"61 * * * *"}}}`, 422, "spec.schedule.cron"},
		{
			"admin", `{"op":"register",` + one +
				`,"spec":{"start":"x","process_name":"x","user":"root","restart":{"when":"sometimes"}}}`, 422,
			"spec.restart.when",
		},
		{"admin", `{"op":"start",` + one + `,"host":"x"}`, 422, "host"},
		{"admin", `{"op":"start","targets":"x"}`, 422, "targets"},
		{"admin", `{"op":"start",` + one + `} {}`, 400, ""},
		{"admin", `{"op":`, 400, ""},
		{"admin", `[]`, 400, ""},
		{"admin", ``, 400, ""},
		{"narrow", `{"op":"restart",` + one + `}`, 403, ""}, // one of the two hosts is out of reach
		{"narrow", `{"op":"stop",` + one + `}`, 403, ""},
		{"narrow", `{"op":"restart","targets":[{"namespace":"b","name":"none"}]}`, 403, ""},
	} {
		r.refused(r.call(tt.app, "POST", "/tasks", tt.body), tt.status, tt.field)
	}
	if r.engine.last != nil {
		t.Errorf("a refused operation was submitted: %+v", r.engine.last)
	}
	r.want(202,
		r.call("narrow", "POST", "/tasks",
			`{"op":"restart","targets":[{"namespace":"a","name":"x","hosts":["web-1"]}]}`))
}

// TestWrongOperationHidesNoFault: of an operation that the API does not know, the values of all fields are checked.
func TestWrongOperationHidesNoFault(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	for body, want := range map[string][]string{
		`{"op":"dance","targets":[{"namespace":"a"}],"select":"(","at":"x","host_timeout_seconds":0,"signal":"x",
			"scope":"y","one_of":true,"rollout":{"batch":1,"canary":-1},"take_over":true,"beside":true}`: {
			"op", "targets[0].name", "select", "host_timeout_seconds", "signal", "scope", "one_of", "at",
			"rollout.canary", "take_over",
		},
		`{"op":"stop","targets":[{"namespace":"a","name":"x"}],"at":"x","signal":"HUP","scope":"tree"}`: {
			"signal", "scope", "at", "at",
		},
		`{"op":"register","targets":[{"namespace":"a","name":"x"}],"at":"x","rollout":{"batch":0}}`: {
			"spec", "at", "rollout", "rollout.batch",
		},
	} {
		answer := r.call("admin", "POST", "/tasks", body)
		r.want(422, answer)
		if got := answer.faults(); !slices.Equal(got, want) {
			t.Errorf("%s: the faults are of %q, want %q", body, got, want)
		}
	}
}

func TestResults(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("mine", "* on *")
	r.app("theirs", "* on *")
	targets := []any{map[string]any{
		"namespace": "a", "name": "x",
		"hosts": []string{"web-1", "0:10.0.0.2", "3:10.0.0.3"},
	}}
	id := r.want(202,
		r.call("mine", "POST", "/tasks", map[string]any{"op": "start", "targets": targets})).body["id"].(string)
	r.engine.finish(t, web, process.Outcome{Text: process.Success, Hosted: true})
	results := func(query string) []string {
		return r.want(200, r.call("mine", "GET", "/tasks/"+id+"/results"+query, nil)).items("host", "outcome",
			"hosted")
	}
	all := []string{"web-1 ok true", "0:10.0.0.2 pending false", "3:10.0.0.3 pending false"}
	same(t, "all", all, results(""))
	same(t, "ok", all[:1], results("?outcome=ok"))
	same(t, "pending", all[1:], results("?outcome=pending"))
	same(t, "failed", []string(nil), results("?outcome=failed"))
	first := r.want(200, r.call("mine", "GET", "/tasks/"+id+"/results?limit=2", nil))
	same(t, "first page", all[:2], first.items("host", "outcome", "hosted"))
	same(t, "second page", all[2:], results("?limit=2&cursor="+first.cursor()))

	withdrawn := func(rights ...access.Grant) {
		_, err := r.store.ChangeApp(t.Context(), "mine", func(a *store.App) error {
			a.Admin, a.Grants = false, rights
			return nil
		})
		r.must(err)
	}
	some := access.Grant{Operations: []string{"read"}, Namespaces: []string{"b"}}
	for _, rights := range [][]access.Grant{nil, {some}} {
		withdrawn(rights...)
		r.refused(r.call("mine", "GET", "/tasks/"+id+"/results", nil), 403, "")
	}
	some.Namespaces = []string{"a"}
	withdrawn(some)
	before := r.taskReads.Load()
	same(t, "of who may still read", all, results(""))
	same(t, "readings of the task", before+1, r.taskReads.Load())

	for _, path := range []string{"/tasks/" + id, "/tasks/" + id + "/results", "/tasks/none"} {
		r.refused(r.call("theirs", "GET", path, nil), 404, "")
	}
	for app, want := range map[string]int{"mine": 1, "theirs": 0, "admin": 1} {
		for query, n := range map[string]int{
			"": want, "?state=running": want, "?state=done": 0, "?app=mine": want,
			"?app=other": 0,
		} {
			if got := len(r.want(200, r.call(app, "GET", "/tasks"+query, nil)).items("id")); got != n {
				t.Errorf("%s sees %d operations with %q, want %d", app, got, query, n)
			}
		}
	}
}

// TestWhatWasSoAlready: an operation that finds the process as it was to be is no failure, in its results and in what
// is counted; the same answer to another operation is one.
func TestWhatWasSoAlready(t *testing.T) {
	for _, tt := range []struct {
		op    process.Op
		fault process.Fault
		want  string
	}{
		{process.Start, process.AlreadyRunning, "ok was already running"},
		{process.Stop, process.NotRunning, "ok was already stopped"},
		{process.Kill, process.NotRunning, "ok was already stopped"},
		{process.Reload, process.NotRunning, "not-running pid 17"},
		{process.Unregister, process.NotRunning, "not-running pid 17"},
		{process.Start, process.Failed, "failed pid 17"},
	} {
		r := newRig(t)
		r.app("admin")
		targets := []any{map[string]any{"namespace": "a", "name": "x", "hosts": []string{"web-1", "0:10.0.0.2"}}}
		id := r.want(202,
			r.call("admin", "POST", "/tasks", map[string]any{"op": tt.op, "targets": targets})).body["id"].(string)
		r.engine.finish(t, web, process.Outcome{Fault: tt.fault, Text: "pid 17"})
		ok, failed, of := 0, 1, "failed"
		if strings.HasPrefix(tt.want, "ok") {
			ok, failed, of = 1, 0, "ok"
		}
		page := r.want(200, r.call("admin", "GET", "/tasks/"+id+"/results?outcome="+of, nil))
		same(t, string(tt.op), tt.want, page.items("outcome", "message")[0])
		counts := r.want(200, r.call("admin", "GET", "/tasks/"+id, nil)).body["counts"]
		same(t, string(tt.op)+" counts", map[string]any{
			"targets": 2.0, "ok": float64(ok), "failed": float64(failed),
			"pending": 1.0,
		}, counts.(map[string]any))
	}
}

// TestHostTimeout: it is handed on, and has bounds.
func TestHostTimeout(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	submit := func(seconds any) answer {
		targets := []any{map[string]any{"namespace": "a", "name": "x", "hosts": []string{"web-1"}}}
		return r.call("admin", "POST", "/tasks", map[string]any{
			"op": "start", "targets": targets,
			"host_timeout_seconds": seconds,
		})
	}
	for seconds, want := range map[any]time.Duration{nil: 0, 1: time.Second, 600: 10 * time.Minute} {
		r.want(202, submit(seconds))
		if got := r.engine.last.HostTimeout; got != want {
			t.Errorf("%v: the engine is told %v", seconds, got)
		}
	}
	for _, seconds := range []int{0, -1, 601} {
		r.refused(submit(seconds), 422, "host_timeout_seconds")
	}
}

func TestLongPoll(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	id := r.want(202,
		r.call("admin", "POST", "/tasks",
			`{"op":"start","targets":[{"namespace":"a","name":"x","hosts":["web-1"]}]}`)).body["id"].(string)

	begun := time.Now()
	a := r.want(200, r.call("admin", "GET", "/tasks/"+id+"?wait=0.05", nil))
	if a.body["state"] != "running" || time.Since(begun) < 50*time.Millisecond {
		t.Errorf("after %s: %v", time.Since(begun), a.body["state"])
	}
	answers := make(chan answer, 1)
	go func() { answers <- r.call("admin", "GET", "/tasks/"+id+"?wait=60", nil) }()
	r.engine.finish(t, web, process.Outcome{Text: process.Success})
	close(r.engine.woken)
	if a := <-answers; a.body["state"] != "done" {
		t.Errorf("after the end: %v", a.body)
	}

	r.engine.woken = make(chan struct{})
	id = r.want(202,
		r.call("admin", "POST", "/tasks",
			`{"op":"start","targets":[{"namespace":"a","name":"x","hosts":["web-1"]}]}`)).body["id"].(string)
	go func() { answers <- r.call("admin", "GET", "/tasks/"+id+"?wait=60", nil) }()
	r.handler.Stop()
	if a := <-answers; a.status != 200 || a.body["state"] != "running" {
		t.Errorf("of a server that stops: HTTP %d, %v", a.status, a.body)
	}
}

// deadlines is the reply of a connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read time.Time
}

// SetReadDeadline is that of a connection: after it, net/http ends the call.
func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = at
	return nil
}

// TestLongestPoll: a call without a body has no time limit for the body, because that would end a long call.
func TestLongestPoll(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	id := r.want(202,
		r.call("admin", "POST", "/tasks",
			`{"op":"start","targets":[{"namespace":"a","name":"x","hosts":["web-1"]}]}`)).body["id"].(string)
	w := &deadlines{ResponseRecorder: httptest.NewRecorder(), read: time.Now()}
	req := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/tasks/"+id+"?wait=0.05", nil)
	req.Header.Set("X-Bkapi-Authorization", `{"bk_app_code":"admin","bk_app_secret":"s","bk_username":"anna"}`)
	r.handler.ServeHTTP(w, req)
	if w.Code != 200 || !w.read.IsZero() {
		t.Errorf("HTTP %d, read until %v", w.Code, w.read)
	}
}

// TestOperationIsCancelled: an app cancels its own operations, and learns nothing of others.
func TestOperationIsCancelled(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "restart on a")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running")
	restart := map[string]any{"op": "restart", "targets": []any{map[string]any{"namespace": "a", "name": "x"}}}
	id := r.want(202, r.call("admin", "POST", "/tasks", restart)).body["id"].(string)
	r.want(404, r.call("shop", "POST", "/tasks/"+id+"/cancel", nil))
	r.want(404, r.call("admin", "POST", "/tasks/none/cancel", nil))
	a := r.want(200, r.call("admin", "POST", "/tasks/"+id+"/cancel", nil))
	same(t, "cancelled", []any{2.0, 0.0, 0.0}, []any{a.body["cancelled"], a.body["asked"], a.body["begun"]})
	same(t, "state", any("done"), a.body["operation"].(map[string]any)["state"])
	results := r.want(200, r.call("admin", "GET", "/tasks/"+id+"/results", nil)).body["items"].([]any)
	for _, row := range results {
		same(t, "outcome", any("cancelled"), row.(map[string]any)["outcome"])
	}
	again := r.want(200, r.call("admin", "POST", "/tasks/"+id+"/cancel", nil))
	same(t, "again", any(0.0), again.body["cancelled"])
	own := r.want(202, r.call("shop", "POST", "/tasks", restart)).body["id"].(string)
	same(t, "own", any(2.0), r.want(200, r.call("shop", "POST", "/tasks/"+own+"/cancel", nil)).body["cancelled"])
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Action: "tasks.cancel", Limit: 10})
	r.must(err)
	same(t, "audit rows", 5, len(rows))
	same(t, "targets", 2, rows[0].Targets)

	sent := r.want(202, r.call("admin", "POST", "/tasks", restart)).body["id"].(string)
	_, err = r.store.LeaseItems(t.Context(), time.Now(), time.Now().Add(time.Minute), 10)
	r.must(err)
	for range 2 {
		asked := r.want(200, r.call("admin", "POST", "/tasks/"+sent+"/cancel", nil))
		same(t, "asked", []any{0.0, 2.0, 0.0}, []any{asked.body["cancelled"], asked.body["asked"], asked.body["begun"]})
	}
	for _, row := range r.want(200, r.call("admin", "GET", "/tasks/"+sent+"/results", nil)).body["items"].([]any) {
		same(t, "message", any("the host was asked to cancel, and has not answered"), row.(map[string]any)["message"])
	}
}
