package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/storetest"
)

// report stores the status of a process, given as "namespace/name@KEY".
func (r *rig) report(where string, s process.Status) {
	r.t.Helper()
	id, key, _ := strings.Cut(where, "@")
	namespace, name, _ := strings.Cut(id, "/")
	s.Known = true
	if s.Instance.PID == 0 {
		s.Instance.PID = -1
	}
	r.must(r.store.PutObserved(r.t.Context(), store.ReportMark{},
		[]store.Observed{{Agent: key, Process: process.ID{Namespace: namespace, Name: name}, Status: s}}, nil))
}

// asked stores an operation that was asked for so long ago.
func (r *rig) asked(where string, op process.Op, ago time.Duration) {
	r.t.Helper()
	id, key, _ := strings.Cut(where, "@")
	namespace, name, _ := strings.Cut(id, "/")
	r.must(storetest.Create(r.t.Context(), r.store, &store.Task{
		ID: fmt.Sprintf("op-%s-%s-%s", op, namespace, name), App: "other", User: "bob", Created: time.Now().Add(-ago),
		Requests: []store.Request{{
			Op: op, Process: process.ID{Namespace: namespace, Name: name},
			Targets: []store.Target{{ItemKey: where, Agent: key}},
		}},
	}, store.AuditRow{At: time.Now()}))
}

// why asks, and returns "namespace/name on HOST: ID" of each finding, with "!" before what is wrong.
func (r *rig) why(app, query string) []string {
	r.t.Helper()
	a := r.want(200, r.call(app, "GET", "/why"+query, nil))
	var all []string
	for _, f := range a.body["findings"].([]any) {
		f := f.(map[string]any)
		mark := ""
		if f["wrong"] == true {
			mark = "!"
		}
		all = append(all, fmt.Sprintf("%s%s/%s on %s: %s", mark, f["namespace"], f["name"],
			f["host"].(map[string]any)["id"], f["cause"].(map[string]any)["id"]))
	}
	return all
}

func crashing() process.Status {
	return process.Status{
		State: "given-up", Hosted: true, Want: process.WantRunning, LastExit: &process.Exit{Known: true, Code: 3},
		Cause: process.Cause{
			ID: process.CauseExitStatus, Text: "given up after 4 starts",
			Evidence: []string{"exit status 3"}, Since: 1_700_000_000_000,
		},
	}
}

func TestWhy(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.report("a/bad@"+web, crashing())
	r.report("a/bad@"+plain, crashing())
	r.report("a/fine@"+web, process.Status{State: "running", Hosted: true, Instance: process.Instance{PID: 7}})
	r.report("a/idle@"+web,
		process.Status{State: "stopped", Cause: process.Cause{ID: process.CauseStopped, Text: "stopped by anna"}})
	r.report("b/far@"+gone, process.Status{State: "running", Hosted: true, Instance: process.Instance{PID: 7}})
	r.report("b/off@"+gone, process.Status{State: "stopped", Cause: process.Cause{ID: process.CauseStopped}})
	r.report("b/sick@"+plain, process.Status{
		State: "unhealthy", Hosted: true, Instance: process.Instance{PID: 7},
		Cause:   process.Cause{ID: process.CauseUnhealthy, Text: "no"},
		Further: []process.Cause{{ID: process.CauseDrift, Text: "some.conf", Since: 1_700_000_000_000}},
	})
	bad := []string{"!a/bad on 0:10.0.0.2: exit-status", "!a/bad on web-1: exit-status"}
	far, sick := "!b/far on 3:10.0.0.3: agent-away", "!b/sick on 0:10.0.0.2: unhealthy"
	for query, want := range map[string][]string{
		"":                               {bad[0], bad[1], far, sick},
		"?namespace=b":                   {far, sick},
		"?host=web-1":                    {bad[1]},
		"?cause=unhealthy":               {sick},
		"?cause=config-drift":            {sick},
		"?limit=1":                       {bad[0]},
		"?state=unhealthy&state=running": {far, sick},
		"?state=given-up&host=web-1":     {bad[1]},
		"?state=running&host=web-1":      nil,
		"?version=7":                     nil,
		"?namespace=a&name=idle&state=stopped&host=0:10.0.0.2": nil,
		"?namespace=a&name=fine&all=1":                         nil,
		"?namespace=a&name=idle":                               nil,
		"?name=idle&all=true":                                  {"a/idle on web-1: stopped-by-operation"},
		"?namespace=b&name=off&all=true":                       {"b/off on 3:10.0.0.3: agent-away"},
		"?namespace=a&name=idle&host=0:10.0.0.2":               {"!a/idle on 0:10.0.0.2: process-unknown"},
		"?namespace=a&name=idle&host=web-1&host=0:10.0.0.2":    {"!a/idle on 0:10.0.0.2: process-unknown"},
		"?namespace=a&name=idle&host=9:1.2.3.4":                {"!a/idle on 9:1.2.3.4: agent-unknown"},
		"?namespace=a&name=i*&host=9:1.2.3.4":                  nil,
	} {
		if strings.HasSuffix(query, "all=1") {
			r.refused(r.call("admin", "GET", "/why"+query, nil), 422, "all")
			continue
		}
		same(t, query, want, r.why("admin", query))
	}
	r.refused(r.call("admin", "GET", "/why?cause=weather", nil), 422, "cause")

	a := r.call("admin", "GET", "/why?limit=1", nil)
	same(t, "counts", []any{4.0, 7.0}, []any{a.body["wrong"], a.body["total"]})
	var causes []string
	for _, c := range a.body["causes"].([]any) {
		c := c.(map[string]any)
		causes = append(causes, fmt.Sprintf("%s %s %v %s", c["severity"], c["id"], c["count"], c["page"]))
	}
	same(t, "causes", []string{
		"critical exit-status 2 docs/why/exit-status.md", "critical agent-away 1 docs/why/agent-away.md",
		"warning unhealthy 1 docs/why/unhealthy.md",
	}, causes)
	a = r.call("admin", "GET", "/why?cause=exited", nil)
	same(t, "counts of another cause", []any{0.0, 7.0}, []any{a.body["wrong"], a.body["total"]})
	a = r.call("admin", "GET", "/why?cause=config-drift", nil)
	same(t, "further causes",
		any([]any{map[string]any{"id": "config-drift", "text": "some.conf", "since": "2023-11-14T22:13:20Z"}}),
		a.body["findings"].([]any)[0].(map[string]any)["further"])
	a = r.call("admin", "GET", "/why?limit=1", nil)
	first := a.body["findings"].([]any)[0].(map[string]any)
	same(t, "cause", any(map[string]any{
		"id": "exit-status", "text": "given up after 4 starts", "evidence": []any{"exit status 3"},
		"since": "2023-11-14T22:13:20Z",
	}), first["cause"])
}

func TestWhyOfOperations(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	fine := process.Status{State: "running", Hosted: true, Instance: process.Instance{PID: 7}}
	r.report("a/now@"+web, fine)
	r.report("a/late@"+web, fine)
	r.asked("a/now@"+web, process.Restart, time.Second)
	r.asked("a/late@"+web, process.Restart, time.Minute)
	r.asked("a/new@"+plain, process.Start, time.Minute)
	r.asked("c/new@"+gone, process.Start, time.Second)
	same(t, "what waits for long", []string{
		"!a/late on web-1: operation-queued",
		"!a/new on 0:10.0.0.2: operation-queued",
	}, r.why("admin", ""))
	same(t, "what waits for a moment", []string{"a/now on web-1: operation-queued"},
		r.why("admin", "?namespace=a&name=now&all=true"))
	same(t, "one that no host knows yet", []string{"!c/new on 3:10.0.0.3: agent-away"},
		r.why("admin", "?namespace=c&name=new"))
	same(t, "on another host", []string(nil), r.why("admin", "?namespace=a&host=3:*"))
}

func TestWhyHidesWhatIsOfOthers(t *testing.T) {
	r := newRig(t)
	r.app("narrow", "read on a at area:0")
	r.report("a/bad@"+web, crashing())
	r.report("a/bad@"+gone, crashing())
	r.report("b/bad@"+web, crashing())
	r.asked("b/new@"+web, process.Start, time.Minute)
	same(t, "findings", []string{"!a/bad on web-1: exit-status"}, r.why("narrow", ""))
	a := r.call("narrow", "GET", "/why", nil)
	same(t, "counts", []any{1.0, 1.0}, []any{a.body["wrong"], a.body["total"]})
	same(t, "a host that is not there", []string(nil), r.why("narrow", "?namespace=a&name=x&host=9:1.2.3.4"))
	same(t, "another's process", []string(nil), r.why("narrow", "?namespace=b&name=x&host=web-1"))
}

// TestWhyOfMany: of many findings the worst are kept, and all are counted.
func TestWhyOfMany(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	for i := range 30 {
		s := crashing()
		s.State, s.Instance.PID = "unhealthy", 7
		if i == 17 {
			s.State, s.Instance.PID = "given-up", -1
		}
		r.report(fmt.Sprintf("a/p%02d@%s", i, web), s)
	}
	same(t, "the worst", []string{"!a/p17 on web-1: exit-status", "!a/p00 on web-1: exit-status"},
		r.why("admin", "?limit=2"))
	a := r.call("admin", "GET", "/why?limit=2", nil)
	same(t, "all", 30.0, a.body["causes"].([]any)[0].(map[string]any)["count"])
}

func TestCounts(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("narrow", "read on a at area:0")
	r.observe("a/x@"+web+" running", "a/y@"+web+" running", "a/z@"+plain+" given-up", "b/x@"+web+" flapping",
		"b/y@"+gone+" running")
	count := func(app, query string) string {
		a := r.want(200, r.call(app, "GET", "/processes/counts"+query, nil))
		var states []string
		for state, n := range a.body["states"].(map[string]any) {
			states = append(states, fmt.Sprintf("%s %v", state, n))
		}
		slices.Sort(states)
		return fmt.Sprintf("%s; stale %v of %v", strings.Join(states, ", "), a.body["stale"], a.body["total"])
	}
	same(t, "all", "flapping 1, given-up 1, running 2; stale 1 of 5", count("admin", ""))
	same(t, "some", "given-up 1; stale 0 of 1", count("admin", "?namespace=a&host=0:10.0.0.2"))
	same(t, "what may be seen", "given-up 1, running 2; stale 0 of 3", count("narrow", ""))
}

// TestRetry: it is asked for like any operation, and is a right of those who operate.
func TestRetry(t *testing.T) {
	r := newRig(t)
	r.app("operator", "read,operate on a")
	r.app("reader", "read on a")
	r.observe("a/x@" + web + " given-up")
	body := map[string]any{"op": "retry", "targets": []any{map[string]any{"namespace": "a", "name": "x"}}}
	r.want(202, r.call("operator", "POST", "/tasks", body))
	same(t, "operation", process.Retry, r.engine.last.Requests[0].Op)
	r.refused(r.call("reader", "POST", "/tasks", body), 403, "")
}

func TestProcessSaysWhy(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	s := crashing()
	s.Flapping, s.Restarts, s.NextRun = true, 9, 1_700_000_000_000
	s.Health = &process.Answer{Text: "no", At: 1_700_000_000_000, Failures: 3, Bad: true}
	s.Config = []process.Drift{{Path: "/etc/x", Want: "a", Have: "b", Since: 1_700_000_000_000}}
	s.Usage = &process.Usage{CPU: 1, Mem: 2, Processes: 3, Files: 4, At: 1_700_000_000_000}
	s.Runs = []process.Run{{
		Started: 1_700_000_000_000, PID: 4, Exit: &process.Exit{Known: true, Signal: 9},
		Output: "bye",
	}}
	r.report("a/x@"+web, s)
	a := r.want(200, r.call("admin", "GET", "/processes/a/x", nil))
	same(t, "detail", []string{"exit-status true 9 3 3 true /etc/x b 3 4"}, a.items(
		"cause.id", "flapping", "restarts", "last_exit.code", "health.failures", "health.bad", "config.0.path",
		"config.0.have", "usage.processes", "usage.open_files"))
	same(t, "runs", []string{"2023-11-14T22:13:20Z 9 bye 2023-11-14T22:13:20Z"},
		a.items("runs.0.started_at", "runs.0.exit.signal", "runs.0.output", "next_run"))
}
