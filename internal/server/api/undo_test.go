package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// TestUndo: an undo brings back the specs of the hosts that were reached, removes what is new, and needs the rights to
// that.
func TestUndo(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "restart on a", "read on a")
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	r.place("x", plain, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	file := `{"namespace":"a","processes":{
		"x":{` + daemon + `,"hosts":["web-1","0:10.0.0.2"],"environment":{"A":"2"}},"y":{` + daemon + `,"hosts":["web-1"]}}}`
	id := rolloutsOf(r.want(202, r.call("admin", "PUT", "/namespaces/a?batch=1&order=agent_version&bake=60s", file)))[0]
	undo := "/rollouts/" + id + "/undo"
	r.want(409, r.call("admin", "POST", undo, nil)) // it runs
	r.step(id, rollout.Fact{})
	r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/pause", nil))
	r.want(409, r.call("admin", "POST", undo, nil)) // a host is under way
	r.step(id, rollout.Fact{Done: true, Health: rollout.Well})
	_, err := r.store.ChangeRollout(t.Context(), id, "", store.RolloutChange{}, func(ro *rollout.Rollout) error {
		for i := range ro.Hosts { // web-1 is the host that was reached
			ro.Hosts[i].State, ro.Hosts[i].Begun = rollout.Waiting, time.Time{}
			if ro.Hosts[i].Name == "web-1" {
				ro.Hosts[i].State, ro.Hosts[i].Begun = rollout.Failed, time.Now()
			}
		}
		return nil
	})
	r.must(err)
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"2"}}`)
	r.place("y", web, "running", `{`+daemon+`}`)
	r.want(404, r.call("shop", "POST", undo, nil))
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"3"}}`)
	r.want(409, r.call("admin", "POST", undo, nil)) // somebody has changed it since
	r.must(r.store.PutObserved(t.Context(), store.ReportMark{}, nil,
		[]store.Removal{{Agent: web, Process: process.ID{Namespace: "a", Name: "x"}}}))
	removed := r.want(409, r.call("admin", "POST", undo, nil))
	if text := fmt.Sprint(removed.body["detail"]); !strings.HasPrefix(text, "1 process was removed since") ||
		!strings.Contains(text, "such as a/x on web-1") {
		t.Errorf("an undo after a removal says %s", text)
	}
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"2"}}`)
	a := r.want(202, r.call("admin", "POST", undo, nil))
	back := a.body["id"].(string)
	same(t, "undoes", any(id), a.body["undoes"])
	same(t, "location", "/api/v1/rollouts/"+back, a.header.Get("Location"))
	same(t, "undo", "web-1 in 0: stop y restart x<2>1", r.steps(back))
	same(t, "the plan of the undo", fmt.Sprint(map[string]any{"batch": "100%", "skip_away": true}), fmt.Sprint(a.body["plan"]))
	ended := r.want(200, r.call("admin", "GET", "/rollouts/"+id, nil)).body
	same(t, "the rollout", "aborted: undone by anna", fmt.Sprint(ended["state"], ": ", ended["reason"]))
	r.want(409, r.call("admin", "POST", undo, nil)) // the undo is under way
	r.want(200, r.call("admin", "POST", "/rollouts/"+back+"/abort", nil))

	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	r.must(r.store.PutObserved(t.Context(), store.ReportMark{}, nil,
		[]store.Removal{{Agent: web, Process: process.ID{Namespace: "a", Name: "y"}}}))
	left := r.want(409, r.call("admin", "POST", undo, nil)) // there is nothing left
	if text := fmt.Sprint(left.body["detail"]); !strings.Contains(text, "is undone already: by rollout "+back) {
		t.Errorf("the second undo says %s", text)
	}

	restart := r.want(202, r.roll("admin", map[string]any{"batch": 1}, nil)).body["id"].(string)
	r.want(200, r.call("admin", "POST", "/rollouts/"+restart+"/abort", nil))
	r.want(422, r.call("admin", "POST", "/rollouts/"+restart+"/undo", nil))
}

// TestUndoByItself: a rollout whose plan says so is undone with the rights of its person, and ends with that. What
// keeps it from being undone is said.
func TestUndoByItself(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	who := access.Principal{User: "anna", Admin: true}
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	file := func(a string) string {
		return `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1"],"environment":{"A":"` + a + `"}}}}`
	}
	failing := func(a string) (id string) {
		path := "/namespaces/a?batch=1&undo_on_failure=true"
		id = rolloutsOf(r.want(202, r.call("admin", "PUT", path, file(a))))[0]
		r.step(id, rollout.Fact{})
		r.step(id, rollout.Fact{Done: true, Fault: process.CheckFailed})
		same(t, "undoing", any(true), r.want(200, r.call("admin", "GET", "/rollouts/"+id, nil)).body["undoing"])
		return id
	}
	id := failing("2")
	if refused, err := r.handler.Operations.UndoFailed(t.Context(), access.Principal{User: "ben"}, id); err != nil || refused == "" {
		t.Errorf("a person without rights gets %q, %v", refused, err)
	}
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"3"}}`)
	if refused, err := r.handler.Operations.UndoFailed(t.Context(), who, id); err != nil || !strings.Contains(refused, "a/x on web-1") {
		t.Errorf("after a change by hand the undo gets %q, %v", refused, err)
	}
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"2"}}`)
	if refused, err := r.handler.Operations.UndoFailed(t.Context(), who, id); err != nil || refused != "" {
		t.Fatalf("the undo gets %q, %v", refused, err)
	}
	ended := r.want(200, r.call("admin", "GET", "/rollouts/"+id, nil)).body
	if text := fmt.Sprint(ended["state"], ": ", ended["reason"]); !strings.HasPrefix(text,
		"aborted: 1 of 1 hosts failed, and at most 0 may fail: undone by rollout ro-") {
		t.Errorf("the rollout is %s", text)
	}
	if refused, err := r.handler.Operations.UndoFailed(t.Context(), who, id); err != nil || refused == "" {
		t.Errorf("a second undo gets %q, %v", refused, err)
	}
	r.want(422, r.call("admin", "POST", "/rollouts/"+id+"/undo?undo_on_failure=true", nil))
	r.want(422, r.roll("admin", map[string]any{"batch": 1, "undo_on_failure": true}, nil))
}

// TestUndoLeavesWhatWasLeft: a host that kept what somebody had placed there by hand has nothing to take back, and does
// not keep the others from that.
func TestUndoLeavesWhatWasLeft(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	r.place("x", plain, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	file := `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1","0:10.0.0.2"],"environment":{"A":"2"}}}}`
	id := rolloutsOf(r.want(202, r.call("admin", "PUT", "/namespaces/a?batch=2", file)))[0]
	_, err := r.store.ChangeRollout(t.Context(), id, "", store.RolloutChange{}, func(ro *rollout.Rollout) error {
		for i := range ro.Hosts {
			ro.Hosts[i].State, ro.Hosts[i].Begun = rollout.Succeeded, time.Now()
		}
		ro.Hosts[0].State, ro.Hosts[0].Cause = rollout.Skipped, rollout.CauseChanged
		ro.State = rollout.Done
		return nil
	})
	r.must(err)
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"2"}}`)
	r.place("x", plain, "running", `{`+daemon+`,"environment":{"A":"hand"}}`)
	back := r.want(202, r.call("admin", "POST", "/rollouts/"+id+"/undo", nil))
	same(t, "undo", "web-1 in 0: restart x<2>1", r.steps(back.body["id"].(string)))
}

// TestUndoOfHostsThatMissedIt: by the revision of their batch hosts that were away should have the new specs, so the
// undo takes that back. So do hosts whose steps were cancelled.
func TestUndoOfHostsThatMissedIt(t *testing.T) {
	for _, fault := range []process.Fault{process.AgentUnavailable, process.Cancelled} {
		t.Run(string(fault), func(t *testing.T) { undoOfMissed(t, fault) })
	}
}

func undoOfMissed(t *testing.T, fault process.Fault) {
	t.Helper()
	r := newRig(t)
	r.app("admin")
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	r.place("old", web, "running", `{`+daemon+`,"environment":{"A":"0"}}`)
	file := `{"namespace":"a","processes":{
		"x":{` + daemon + `,"hosts":["web-1"],"environment":{"A":"2"}},"y":{` + daemon + `,"hosts":["web-1"]}}}`
	id := rolloutsOf(r.want(202, r.call("admin", "PUT", "/namespaces/a?batch=1&prune=true", file)))[0]
	r.step(id, rollout.Fact{})
	r.step(id, rollout.Fact{Done: true, Fault: fault, Untouched: true})
	back := r.want(202, r.call("admin", "POST", "/rollouts/"+id+"/undo", nil))
	same(t, "undo", "web-1 in 0: update old>0 update x>1 stop y", r.steps(back.body["id"].(string)))
	same(t, "skips hosts that are away", any(true), back.body["plan"].(map[string]any)["skip_away"])
}

// TestUndoOfWhatIsGone: somebody may have removed what the apply has brought. The undo says so to the store, once.
func TestUndoOfWhatIsGone(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	id := rolloutsOf(r.want(202, r.call("admin", "PUT", "/namespaces/a?batch=1",
		`{"namespace":"a","processes":{"y":{`+daemon+`,"hosts":["web-1"]}}}`)))[0]
	r.step(id, rollout.Fact{})
	for range 3 {
		r.step(id, rollout.Fact{Done: true, Health: rollout.Well})
	}
	task := func(through string, op process.Op, outcome *process.Outcome) {
		t.Helper()
		now := time.Now()
		_, err := r.store.CreateTask(t.Context(), &store.Task{
			ID: through, App: "admin", Created: now, Through: through, Requests: []store.Request{{
				Op: op, Process: process.ID{Namespace: "a", Name: "y"}, Spec: &process.Spec{}, Removes: outcome != nil,
				Targets: []store.Target{{ItemKey: "y", Agent: web, Outcome: outcome}},
			}},
		}, store.AuditRow{At: now}, now, 10)
		r.must(err)
	}
	task("apply", process.Start, nil)
	task("operation", process.Unregister, nil)
	undo := "/rollouts/" + id + "/undo"
	back := r.want(202, r.call("admin", "POST", undo, nil)).body["id"].(string)
	same(t, "undo", "web-1 in 0: stop y", r.steps(back))
	r.want(200, r.call("admin", "POST", "/rollouts/"+back+"/abort", nil))
	task("undo", process.Stop, &process.Outcome{Text: "was already removed"})
	left := r.want(409, r.call("admin", "POST", undo, nil))
	if text := fmt.Sprint(left.body["detail"]); !strings.Contains(text, "is undone already: by rollout "+back) {
		t.Errorf("the second undo says %s", text)
	}
}
