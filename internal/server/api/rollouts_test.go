package api_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/api"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

func (r *rig) roll(app string, plan map[string]any, more map[string]any) answer {
	r.t.Helper()
	body := map[string]any{
		"op": "restart", "targets": []any{map[string]any{"namespace": "a", "name": "x"}}, "rollout": plan,
	}
	maps.Copy(body, more)
	return r.call(app, "POST", "/tasks", body)
}

func TestRollout(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "restart on a")
	r.app("one", "restart on a at 0:10.0.0.1")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running", "a/x@"+gone+" running")
	r.must(r.fleet.Label(t.Context(), []string{plain}, map[string]string{"zone": "a"}, nil))
	r.must(r.fleet.Label(t.Context(), []string{gone}, map[string]string{"zone": "b"}, nil))
	r.want(403, r.roll("one", map[string]any{"batch": 1}, nil))
	a := r.want(202, r.roll("shop", map[string]any{
		"batch": "50%", "canary": 1, "bake": "60s", "pause": "30s", "max_failures": "5%", "order": "zone",
		"skip_away": true,
	}, nil))
	id := a.body["id"].(string)
	same(t, "location", "/api/v1/rollouts/"+id, a.header.Get("Location"))
	var order []any
	for _, h := range a.body["hosts"].([]any) {
		host := h.(map[string]any)
		order = append(order, host["host"], host["batch"])
	}
	same(t, "order", []any{"0:10.0.0.2", 0.0, "3:10.0.0.3", 1.0, "web-1", 2.0}, order)
	same(t, "get", a.body, r.want(200, r.call("shop", "GET", "/rollouts/"+id, nil)).body)
	r.want(404, r.call("one", "GET", "/rollouts/"+id, nil))
	for _, verb := range []string{"pause", "resume", "abort"} {
		r.want(404, r.call("one", "POST", "/rollouts/"+id+"/"+verb, nil))
	}
	same(t, "visible to another", 0, len(r.want(200, r.call("one", "GET", "/rollouts", nil)).body["items"].([]any)))

	busy := r.want(409, r.roll("admin", map[string]any{"batch": 1}, map[string]any{"op": "stop"}))
	same(t, "detail", any(notFinished(id, "a/x")), busy.body["detail"])
	dry := func() any {
		return r.want(200, r.call("admin", "POST", "/tasks?dry_run=true", map[string]any{
			"op": "stop", "processes": []any{"a/x"}, "rollout": map[string]any{"batch": 1},
		})).body["reason"]
	}
	same(t, "reason of the dry run", busy.body["detail"], dry())
	r.want(409, r.call("shop", "POST", "/rollouts/"+id+"/resume", nil))
	same(t, "reason", any("paused by anna"), r.want(200, r.call("shop", "POST", "/rollouts/"+id+"/pause", nil)).body["reason"])
	same(t, "reason of the dry run", any("rollout "+id+" over a/x is paused: resume it with 'drover rollout resume "+
		id+"', or end it with 'drover rollout abort "+id+"'"), dry())
	r.want(409, r.call("shop", "POST", "/rollouts/"+id+"/retry", map[string]any{}))
	r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/resume", nil))
	r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/abort", nil))
	list := r.want(200, r.call("admin", "GET", "/rollouts?state=aborted", nil)).body["items"].([]any)
	same(t, "listed", 1, len(list))
	same(t, "skipped", any(3.0), list[0].(map[string]any)["counts"].(map[string]any)["skipped"])
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Action: "rollouts.abort", Limit: 10})
	r.must(err)
	same(t, "audit rows", 2, len(rows))
	r.want(202, r.roll("admin", map[string]any{"batch": 1}, nil))
}

// TestOperationsBesideARollout: a rollout names what somebody does to its processes on its hosts while it goes on.
func TestOperationsBesideARollout(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "restart,stop,query on a")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running", "a/y@"+web+" running")
	targets := func(name string, hosts ...string) []any {
		return []any{map[string]any{"namespace": "a", "name": name, "hosts": hosts}}
	}
	begin := func(app, op, name string, hosts ...string) string {
		t.Helper()
		return r.want(202, r.call(app, "POST", "/tasks", map[string]any{
			"op": op, "targets": targets(name, hosts...),
		})).body["id"].(string)
	}
	begin("admin", "restart", "x", "web-1")
	id := r.want(202, r.roll("shop", map[string]any{"batch": 1}, map[string]any{"targets": targets("x", "web-1")})).body["id"].(string)
	others := func(app string) (ids []string) {
		t.Helper()
		list, _ := r.want(200, r.call(app, "GET", "/rollouts/"+id, nil)).body["others"].([]any)
		for _, o := range list {
			ids = append(ids, o.(map[string]any)["id"].(string))
		}
		return ids
	}
	same(t, "before", []string(nil), others("admin"))
	begin("admin", "stop", "y", "web-1")
	begin("admin", "stop", "x", "0:10.0.0.2")
	stop := begin("admin", "stop", "x", "web-1")
	restart := begin("shop", "restart", "x", "web-1", "0:10.0.0.2")
	same(t, "of all", []string{restart, stop}, others("admin"))
	same(t, "of the app", []string{restart}, others("shop"))
	r.user = "carl" // may query neither of them on the other host
	r.app("person:carl", "query on a at web-1")
	same(t, "of a person of one host", []string{stop}, others("person:carl"))
	r.user = ""
	r.want(200, r.call("shop", "POST", "/rollouts/"+id+"/abort", nil))
	same(t, "of a rollout that never began", []string(nil), others("admin"))
}

// TestWhichHostsComeFirst: the canaries are of the hosts that the plan selects, and hosts of different zones take turns.
// Failed hosts are told by what they alone have in common.
func TestWhichHostsComeFirst(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running", "a/x@"+gone+" running")
	for host, labels := range map[string]map[string]string{
		plain: {"zone": "a", "tier": "x"}, gone: {"zone": "a", "ring": "early", "tier": "x"}, web: {"zone": "b", "tier": "x"},
	} {
		r.must(r.fleet.Label(t.Context(), []string{host}, labels, nil))
	}
	id := ""
	for _, c := range []struct {
		plan map[string]any
		want []any
	}{
		{map[string]any{"batch": 1, "spread": "zone"}, []any{"0:10.0.0.2", 0.0, "web-1", 1.0, "3:10.0.0.3", 2.0}},
		{map[string]any{"batch": 1, "order": "ring", "spread": "zone"}, []any{"3:10.0.0.3", 0.0, "web-1", 1.0, "0:10.0.0.2", 2.0}},
		{
			map[string]any{"batch": 2, "canary": 2, "canary_select": "ring=early"},
			[]any{"3:10.0.0.3", 0.0, "0:10.0.0.2", 1.0, "web-1", 1.0},
		},
		{
			map[string]any{"batch": 1, "canary": 1, "canary_select": "tier=x", "order": "ring", "spread": "zone"},
			[]any{"3:10.0.0.3", 0.0, "0:10.0.0.2", 1.0, "web-1", 2.0},
		},
		{ // an apply may have reached them before
			map[string]any{"batch": 2, "canary": 1, "canary_select": "ring=late"},
			[]any{"0:10.0.0.2", 0.0, "3:10.0.0.3", 1.0, "web-1", 1.0},
		},
	} {
		a := r.want(202, r.roll("admin", c.plan, nil))
		id = a.body["id"].(string)
		var order []any
		for _, h := range a.body["hosts"].([]any) {
			host := h.(map[string]any)
			order = append(order, host["host"], host["batch"])
		}
		same(t, fmt.Sprint(c.plan), c.want, order)
		r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/abort", nil))
	}
	a := r.want(202, r.roll("admin", map[string]any{"batch": 1, "order": "zone"}, nil))
	id = a.body["id"].(string)
	_, err := r.store.ChangeRollout(t.Context(), id, "", store.RolloutChange{}, func(x *rollout.Rollout) error {
		for i := range x.Hosts {
			if x.Hosts[i].State = rollout.Failed; x.Hosts[i].Agent == web {
				x.Hosts[i].State = rollout.Succeeded
			}
			x.Hosts[i].Cause = "backoff"
		}
		return nil
	})
	r.must(err)
	failure := r.want(200, r.call("admin", "GET", "/rollouts/"+id, nil)).body["failures"].([]any)[0].(map[string]any)
	same(t, "common", []any{"zone=a"}, failure["common"].([]any))
	_, err = r.store.ChangeRollout(t.Context(), id, "", store.RolloutChange{}, func(x *rollout.Rollout) error {
		for i := range x.Hosts {
			if x.Hosts[i].Agent == web {
				x.Hosts[i].State = rollout.Waiting
			}
		}
		return nil
	})
	r.must(err)
	failure = r.want(200, r.call("admin", "GET", "/rollouts/"+id, nil)).body["failures"].([]any)[0].(map[string]any)
	same(t, "common without a good host", nil, failure["common"])
}

// TestPaceOfARollout: the plan that is stored is that of the last pace, and what was settled at the beginning is refused.
func TestPaceOfARollout(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("another", "restart on a")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running", "a/x@"+gone+" running")
	id := r.want(202, r.roll("admin", map[string]any{"batch": 1, "bake": "1h"}, nil)).body["id"].(string)
	path := "/rollouts/" + id + "/pace"
	r.refused(r.call("admin", "POST", path+"?batch=0", nil), 422, "batch")
	r.refused(r.call("admin", "POST", path+"?batch=2&order=zone", nil), 422, "order")
	r.want(422, r.call("admin", "POST", path, nil))
	r.want(404, r.call("another", "POST", path+"?batch=2", nil))
	r.want(200, r.call("admin", "POST", path+"?batch=2&bake=5s", nil))
	a := r.want(200, r.call("admin", "GET", "/rollouts/"+id, nil))
	same(t, "plan", map[string]any{"batch": 2.0, "bake": "5s"}, a.body["plan"].(map[string]any))
	var batches []any
	for _, h := range a.body["hosts"].([]any) {
		batches = append(batches, h.(map[string]any)["batch"])
	}
	same(t, "batches", []any{0.0, 0.0, 1.0}, batches)

	r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/abort", nil))
	one := r.want(202, r.call("admin", "POST", "/tasks", map[string]any{
		"op": "restart", "processes": []any{"a/x"}, "hosts": []any{"*"}, "one_of": true,
	})).body["id"].(string)
	r.want(422, r.call("admin", "POST", "/rollouts/"+one+"/pace?batch=100%25", nil))
}

// TestRolloutIsRefused: the answer names every fault of a plan.
func TestRolloutIsRefused(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("a/x@" + web + " running")
	a := r.want(422, r.roll("admin", map[string]any{
		"batch": "0", "canary": -1, "bake": "24h1s", "pause": "500ms", "order": "a b", "max_unavailable": 1,
	}, map[string]any{"op": "stop"}))
	var fields []any
	for _, f := range a.body["errors"].([]any) {
		fields = append(fields, f.(map[string]any)["field"])
	}
	same(t, "fields", []any{
		"rollout.batch", "rollout.canary", "rollout.bake", "rollout.pause", "rollout.order", "rollout.max_unavailable",
	}, fields)
	r.refused(r.roll("admin", map[string]any{"batch": 1, "canary_approval": true}, nil), 422, "rollout.canary_approval")
	r.refused(r.roll("admin", map[string]any{"batch": 1}, map[string]any{"at": "noon"}), 422, "at")
	r.refused(r.roll("admin", map[string]any{"batch": 1}, map[string]any{"at": "2026-01-01T00:00:00Z"}), 422, "at")
	r.refused(r.call("admin", "POST", "/tasks", map[string]any{
		"op": "stop", "targets": []any{map[string]any{"namespace": "a", "name": "x"}}, "at": "03:00",
	}), 422, "at")
	r.want(422, r.roll("admin", map[string]any{"batch": "ten"}, nil))
}

// steps shows the operations of a rollout on each of its hosts, as they are stored.
func (r *rig) steps(id string) string {
	r.t.Helper()
	ro, err := r.store.GetRollout(r.t.Context(), id, "")
	r.must(err)
	full, err := r.store.RolloutSteps(r.t.Context(), id)
	r.must(err)
	var all []string
	for _, h := range ro.Hosts {
		text := fmt.Sprint(h.Name, " in ", h.Batch, ":")
		for _, at := range h.Steps {
			s := full[at]
			text += fmt.Sprint(" ", s.Op, " ", s.Process.Name)
			for i, spec := range []*process.Spec{s.Former, s.Spec} {
				if spec != nil && spec.Environment["A"] != "" {
					text += []string{"<", ">"}[i] + spec.Environment["A"]
				}
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func rolloutsOf(a answer) (ids []string) {
	list, _ := a.body["rollouts"].([]any)
	for _, item := range list {
		ids = append(ids, item.(map[string]any)["id"].(string))
	}
	return ids
}

// step drives a rollout by facts about all of its hosts.
func (r *rig) step(id string, f rollout.Fact) {
	r.t.Helper()
	_, err := r.store.ChangeRollout(r.t.Context(), id, "", store.RolloutChange{}, func(ro *rollout.Rollout) error {
		facts := map[string]rollout.Fact{}
		for _, h := range ro.Hosts {
			f.Batch = h.Batch
			facts[h.Agent] = f
		}
		*ro = rollout.Step(*ro, facts, time.Now())
		return nil
	})
	r.must(err)
}

// TestRolloutOfAnApply: the processes with equal plans go together, flags win over the file, and a dry run begins nothing.
func TestRolloutOfAnApply(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	r.place("x", plain, "running", `{`+daemon+`,"environment":{"A":"1"}}`)
	r.place("old", web, "running", `{`+daemon+`}`)
	file := `{"namespace":"a","processes":{
		"x":{` + daemon + `,"hosts":["web-1","0:10.0.0.2"],"environment":{"A":"2"},"rollout":{"batch":1,"bake":"60s"}},
		"y":{` + daemon + `,"hosts":["web-1"],"rollout":{"batch":1,"bake":"60s"}},
		"z":{` + daemon + `,"hosts":["web-1"]}}}`
	dry := r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", file))
	same(t, "planned rollouts", []string{"", ""}, rolloutsOf(dry))
	same(t, "stored rollouts", 0, len(r.want(200, r.call("admin", "GET", "/rollouts", nil)).body["items"].([]any)))
	a := r.want(202, r.call("admin", "PUT", "/namespaces/a?prune=true&message=why", file))
	ids := rolloutsOf(a)
	if len(ids) != 2 || a.body["operation"] != nil || r.engine.last != nil {
		t.Fatalf("it answers %v", a.body)
	}
	same(t, "those without a rollout", "web-1 in 0: stop old start z", r.steps(ids[0]))
	same(t, "the others", "0:10.0.0.2 in 0: restart x<1>2; web-1 in 1: restart x<1>2 start y", r.steps(ids[1]))
	first := a.body["rollouts"].([]any)[1].(map[string]any)
	same(t, "plan", fmt.Sprint(map[string]any{"batch": 1.0, "bake": "1m"}), fmt.Sprint(first["plan"]))
	same(t, "op", any("apply"), first["op"])
	ro, err := r.store.GetRollout(t.Context(), ids[1], "")
	r.must(err)
	if ro.Message != "why" || ro.Through != "apply" || !ro.Plan.Judged || ro.User != "anna" {
		t.Errorf("stored is %+v", ro)
	}
	r.want(409, r.call("admin", "PUT", "/namespaces/a", file))
	// An apply without a rollout is refused, too, if it would change one of the processes; an operation goes through.
	plain := strings.ReplaceAll(file, `,"rollout":{"batch":1,"bake":"60s"}`, "")
	busy := r.want(409, r.call("admin", "PUT", "/namespaces/a", plain))
	same(t, "detail", any(notFinished(ids[0], "a/z")), busy.body["detail"])
	dry = r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", plain))
	same(t, "reason", true, strings.Contains(fmt.Sprint(dry.body["reason"]), "is not finished: wait for it"))
	r.want(202, r.call("admin", "PUT", "/namespaces/a", `{"namespace":"a","processes":{"w":{`+daemon+`,"hosts":["web-1"]}}}`))
	r.want(202, r.call("admin", "POST", "/tasks", map[string]any{
		"op": "restart", "targets": []any{map[string]any{"namespace": "a", "name": "x"}},
	}))
	for _, id := range ids {
		r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/abort", nil))
	}

	a = r.want(202, r.call("admin", "PUT", "/namespaces/a?batch=50%25&max_failures=3&skip_away=true", file))
	var plans []string
	for _, item := range a.body["rollouts"].([]any) {
		plans = append(plans, fmt.Sprint(item.(map[string]any)["plan"]))
	}
	same(t, "plans by flags", []string{
		"map[bake:1m batch:50% max_failures:3 skip_away:true]", "map[batch:50% max_failures:3 skip_away:true]",
	}, plans)
	r.refused(r.call("admin", "PUT", "/namespaces/a?bake=soon", file), 422, "bake")
	r.refused(r.call("admin", "PUT", "/namespaces/a?canary=2", file), 422, "batch")
	differs := `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1"],"environment":{"A":"9"},"rollout":{"batch":1}}},
		"more":[{"x":{` + daemon + `,"hosts":["0:10.0.0.2"],"environment":{"A":"9"},"rollout":{"batch":2}}}]}`
	r.refused(r.call("admin", "PUT", "/namespaces/a", differs), 422, "processes.x.rollout")
}

// TestSelectionsOfARollout: the selection of a file comes into force with the end of its rollout, and the undo brings the
// one before back.
func TestSelectionsOfARollout(t *testing.T) {
	r := labelled(t)
	file := func(selector string) string {
		return `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":{"select":"` + selector + `"},"rollout":{"batch":1}}}}`
	}
	finish := func(ids []string) {
		t.Helper()
		for _, id := range ids {
			_, err := r.store.ChangeRollout(t.Context(), id, "", store.RolloutChange{}, func(ro *rollout.Rollout) error {
				for i := range ro.Hosts {
					ro.Hosts[i].State, ro.Hosts[i].Begun = rollout.Succeeded, time.Now()
				}
				ro.State = rollout.Done
				return nil
			})
			r.must(err)
		}
	}
	first := rolloutsOf(r.want(202, r.call("admin", "PUT", "/namespaces/a", file("role=web"))))
	same(t, "during the rollout", "", r.standing())
	finish(first)
	same(t, "after it", "x role=web admin", r.standing())
	r.settle()
	r.place("x", web, "running", `{`+daemon+`,"rollout":{"batch":1}}`)

	changed := strings.Replace(file("role"), `"rollout"`, `"environment":{"A":"2"},"rollout"`, 1)
	second := rolloutsOf(r.want(202, r.call("admin", "PUT", "/namespaces/a", changed)))
	same(t, "during the second", "x role=web admin", r.standing())
	finish(second)
	same(t, "after the second", "x role admin", r.standing())
	r.app("one", "* on a at web-1")
	r.want(403, r.call("one", "PUT", "/namespaces/a", `{"namespace":"a","processes":{"x":{`+daemon+`,"hosts":["web-1"]}}}`))
	r.want(403, r.call("one", "PUT", "/namespaces/a?prune=true", `{"namespace":"a","processes":{"y":{`+daemon+
		`,"hosts":["web-1"]}}}`))
	r.want(202, r.call("one", "PUT", "/namespaces/a", `{"namespace":"a","processes":{"y":{`+daemon+`,"hosts":["web-1"]}}}`))
	same(t, "after others have tried to replace it", "x role admin", r.standing())
	r.place("x", web, "running", `{`+daemon+`,"environment":{"A":"2"},"rollout":{"batch":1}}`)
	undo := r.want(202, r.call("admin", "POST", "/rollouts/"+second[0]+"/undo", nil))
	finish([]string{undo.body["id"].(string)})
	same(t, "after the undo", "x role=web admin", r.standing())
}

// TestApplyAtATime: a scheduled rollout exists from now on, and a call without a batch has no rollout to schedule.
func TestApplyAtATime(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	file := `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1"]}}}`
	r.refused(r.call("admin", "PUT", "/namespaces/a?at=03:00", file), 422, "at")
	a := r.want(202, r.call("admin", "PUT", "/namespaces/a?at=03:00&batch=1", file))
	ro, err := r.store.GetRollout(t.Context(), rolloutsOf(a)[0], "")
	r.must(err)
	at := ro.At.Local()
	if ro.State != rollout.Scheduled || at.Hour() != 3 || at.Minute() != 0 || time.Until(at) <= 0 ||
		time.Until(at) > 25*time.Hour {
		t.Errorf("it is %s, at %s", ro.State, ro.At)
	}
	early := r.want(409, r.call("admin", "POST", "/rollouts/"+ro.ID+"/undo", nil))
	same(t, "an undo before the time", any("rollout "+ro.ID+" is scheduled and has changed nothing: end it with "+
		"'drover rollout abort "+ro.ID+"'"), early.body["detail"])
	r.refused(r.call("admin", "PUT", "/namespaces/a?at=2020-01-01T00:00:00Z&batch=1", file), 422, "at")
	r.want(200, r.call("admin", "POST", "/rollouts/"+ro.ID+"/abort", nil))
}

// TestBreadthOfOneApply: the rollouts of one apply share the hosts that one person may change.
func TestBreadthOfOneApply(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	file := func(second string) string {
		return `{"namespace":"a","processes":{
			"x":{` + daemon + `,"hosts":["web-1","0:10.0.0.2"],"rollout":{"batch":2}},
			"y":{` + daemon + `,"hosts":[` + second + `],"rollout":{"batch":1}},
			"z":{` + daemon + `,"hosts":["web-1"],"rollout":{"batch":3}}}}`
	}
	for _, tt := range []struct {
		breadth int
		second  string
		want    []string
	}{
		{3, `"3:10.0.0.3"`, []string{"x 0 of 0", "y 0 of 0", "z 0 of 0"}}, // 3 hosts in all
		{2, `"web-1"`, []string{"x 0 of 0", "y 0 of 0", "z 0 of 0"}},      // 2 hosts in all
		{2, `"3:10.0.0.3"`, []string{"x 0 of 2", "y -1 of 2", "z -1 of 2"}},
		{1, `"3:10.0.0.3"`, []string{"x 1 of 1", "y -1 of 1", "z -1 of 1"}},
	} {
		r.remake(func(c *api.Config) { c.Breadth = tt.breadth })
		var got []string
		for _, id := range rolloutsOf(r.want(202, r.call("admin", "PUT", "/namespaces/a", file(tt.second)))) {
			ro, err := r.store.GetRollout(t.Context(), id, "")
			r.must(err)
			got = append(got, fmt.Sprint(ro.Steps[0].Process.Name, " ", ro.Plan.Breadth, " of ", ro.Plan.Shared))
			if ro.Plan.Breadth < 0 {
				r.step(id, rollout.Fact{})
				held := r.want(200, r.call("admin", "GET", "/rollouts/"+id, nil))
				same(t, "reason", any(fmt.Sprintf("more than %d hosts in all rollouts of the apply: waits for the approval of two "+
					"persons, because an app began it", tt.breadth)), held.body["reason"])
			}
			r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/abort", nil))
		}
		same(t, fmt.Sprint("breadth ", tt.breadth, " with ", tt.second), tt.want, got)
	}
}

// TestEveryOperationRollsOut: only operations that bring a spec have no rollout.
func TestEveryOperationRollsOut(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running")
	for op, judged := range map[string]bool{
		"start": true, "restart": true, "reload": true, "host": true, "retry": true,
		"stop": false, "kill": false, "unhost": false, "unregister": false,
	} {
		plan := map[string]any{"batch": 1, "max_unavailable": 1}
		if !judged {
			r.refused(r.roll("admin", plan, map[string]any{"op": op}), 422, "rollout.max_unavailable")
			delete(plan, "max_unavailable")
		}
		id := r.want(202, r.roll("admin", plan, map[string]any{"op": op})).body["id"].(string)
		ro, err := r.store.GetRollout(t.Context(), id, "")
		r.must(err)
		same(t, op+" is judged", judged, ro.Plan.Judged)
		r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/abort", nil))
	}
	r.refused(r.roll("admin", map[string]any{"batch": 1}, map[string]any{"op": "register", "spec": map[string]any{
		"run": "sleep 1",
	}}), 422, "rollout")
}

// TestApproval: only a person who did not begin the rollout may approve it, and above the breadth of the server there is no
// call without a rollout.
func TestApproval(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.remake(func(c *api.Config) { c.Breadth = 1 })
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running")
	stop := map[string]any{"op": "stop", "targets": []any{map[string]any{"namespace": "a", "name": "x"}}}
	r.want(403, r.call("admin", "POST", "/tasks", stop))
	broad := `{"namespace":"a","processes":{"z":{` + daemon + `,"hosts":["web-1","0:10.0.0.2"]}}}`
	r.want(403, r.call("admin", "PUT", "/namespaces/a", broad))
	for query, want := range map[string]string{"": ": use a rollout", "&batch=1": "waits for the approval of a second person"} {
		dry := r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true"+query, broad))
		if text := fmt.Sprint(dry.body["reason"]); !strings.HasSuffix(text, want) {
			t.Errorf("the dry run %q says %s", query, text)
		}
	}
	for _, op := range []string{"unhost", "host", "retry", "unregister"} {
		refused := r.want(403, r.call("admin", "POST", "/tasks", map[string]any{"op": op, "targets": stop["targets"]}))
		if text := fmt.Sprint(refused.body["detail"]); !strings.HasSuffix(text, ": use a rollout") {
			t.Errorf("%s: %s", op, text)
		}
	}
	register := r.want(403, r.call("admin", "POST", "/tasks", `{"op":"register","targets":[{"namespace":"n","name":"z",
		"hosts":["web-1","0:10.0.0.2"]}],"spec":{"run":"sleep 1"}}`))
	if text := fmt.Sprint(register.body["detail"]); !strings.Contains(text, "use an apply with a rollout") {
		t.Errorf("register: %s", text)
	}
	stop["targets"] = []any{map[string]any{"namespace": "a", "name": "x", "hosts": []any{"web-1"}}}
	r.want(202, r.call("admin", "POST", "/tasks", stop))

	r.user = "carl"
	a := r.want(202, r.roll("admin", map[string]any{"batch": 1, "canary": 1, "canary_approval": true}, nil))
	approve := "/rollouts/" + a.body["id"].(string) + "/approve"
	r.user = "bob"
	r.want(409, r.call("admin", "POST", approve, nil))
	for range 3 {
		r.step(a.body["id"].(string), rollout.Fact{Done: true, Health: rollout.Well})
	}
	r.user = "carl"
	r.want(403, r.call("admin", "POST", approve, nil))
	r.user = ""
	r.want(403, r.call("admin", "POST", approve, nil))
	r.user = "bob"
	approved := r.want(200, r.call("admin", "POST", approve, nil))
	same(t, "state", any("running"), approved.body["state"])
	same(t, "approved by", fmt.Sprint([]any{"bob"}), fmt.Sprint(approved.body["approved_by"]))
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Action: "rollouts.approve", Limit: 10})
	r.must(err)
	var said []string
	for _, row := range rows {
		said = append(said, fmt.Sprint(row.User, " ", row.Code))
	}
	same(t, "audit rows", "bob 0, anna 403, carl 403, bob 409", strings.Join(said, ", "))
}

// TestSecondPerson: a person without an administrator's rights sees and approves the rollout of another person, if the
// person may carry it out on all of its hosts. The person may do nothing else with it.
func TestSecondPerson(t *testing.T) {
	r := newRig(t)
	r.app("person:anna", "restart on a")
	r.app("person:bob", "restart on a")
	r.app("person:carl", "restart on a at 0:10.0.0.1")
	r.app("person:dora", "read on *")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running")
	r.user = "ann"
	id := r.want(202, r.roll("person:anna", map[string]any{"batch": 1, "canary": 1, "canary_approval": true},
		nil)).body["id"].(string)
	for range 3 {
		r.step(id, rollout.Fact{Done: true, Health: rollout.Well})
	}
	path := "/rollouts/" + id
	r.user = "carl"
	r.want(404, r.call("person:carl", "GET", path, nil))
	r.want(404, r.call("person:carl", "POST", path+"/approve", nil))
	r.user = "dora" // who only reads
	r.want(200, r.call("person:dora", "GET", path, nil))
	r.want(403, r.call("person:dora", "POST", path+"/approve", nil))
	r.user = "" // an app only says that bob calls
	r.want(404, r.call("person:bob", "GET", path, nil))
	r.user = "bob"
	same(t, "state", any("held"), r.want(200, r.call("person:bob", "GET", path, nil)).body["state"])
	for _, verb := range []string{"pause", "resume", "abort", "undo"} {
		a := r.want(403, r.call("person:bob", "POST", path+"/"+verb, nil))
		same(t, verb, any("person:anna began rollout "+id+": only person:anna or an administrator may change it"),
			a.body["detail"])
	}
	r.want(403, r.call("person:bob", "POST", path+"/retry", map[string]any{}))
	r.must(r.fleet.Remove(t.Context(), plain, func(ctx context.Context) error { // a host that has left does not count
		return r.store.RemoveAgent(ctx, plain, time.Now(), nil)
	}))
	r.user = "dora"
	r.want(403, r.call("person:dora", "POST", path+"/pause", nil))
	r.user = "bob"
	same(t, "state", any("running"), r.want(200, r.call("person:bob", "POST", path+"/approve", nil)).body["state"])
}

// TestApprovalOfAnApply: who may not start a process may not have it run with another spec either, by an approval.
func TestApprovalOfAnApply(t *testing.T) {
	r := newRig(t)
	r.app("person:anna", "* on a")
	r.app("person:bob", "restart,update,register,query on a")
	r.app("person:eve", "* on a")
	r.place("x", web, "running", `{`+daemon+`}`)
	r.place("x", plain, "running", `{`+daemon+`}`)
	r.user = "anna"
	a := r.want(202, r.call("person:anna", "PUT", "/namespaces/a?batch=1&canary=1&canary_approval=true",
		`{"namespace":"a","processes":{"x":{`+daemon+`,"environment":{"A":"1"},"hosts":["web-1","0:10.0.0.2"]}}}`))
	id := a.body["rollouts"].([]any)[0].(map[string]any)["id"].(string)
	for range 3 {
		r.step(id, rollout.Fact{Done: true, Health: rollout.Well})
	}
	r.user = "bob"
	r.want(403, r.call("person:bob", "POST", "/rollouts/"+id+"/approve", nil))
	r.user = "eve"
	r.want(200, r.call("person:eve", "POST", "/rollouts/"+id+"/approve", nil))
}
