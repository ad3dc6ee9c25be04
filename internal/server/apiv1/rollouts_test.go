package apiv1_test

import (
	"maps"
	"testing"

	"drover/internal/server/store"
)

func (r *rig) roll(app string, plan map[string]any, more map[string]any) answer {
	r.t.Helper()
	body := map[string]any{
		"op": "restart", "targets": []any{map[string]any{"namespace": "a", "name": "x"}}, "rollout": plan,
	}
	maps.Copy(body, more)
	return r.call(app, "POST", "/operations", body)
}

func TestRollout(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "restart on a")
	r.app("one", "restart on a at 0:10.0.0.1")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running", "a/x@"+gone+" running")
	r.must(r.fleet.Label(t.Context(), []string{plain}, map[string]string{"zone": "a"}, nil))
	r.must(r.fleet.Label(t.Context(), []string{gone}, map[string]string{"zone": "b"}, nil))
	r.want(403, r.roll("one", map[string]any{"batch": "1"}, nil))
	a := r.want(202, r.roll("shop", map[string]any{
		"batch": "50%", "canary": 1, "bake_seconds": 60, "pause_seconds": 30, "max_failures": "5%", "order": "zone",
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

	busy := r.want(409, r.roll("admin", map[string]any{"batch": "1"}, map[string]any{"op": "stop"}))
	same(t, "detail", any("rollout "+id+" over a/x is not finished: wait for it, or abort it"), busy.body["detail"])
	r.want(409, r.call("shop", "POST", "/rollouts/"+id+"/resume", nil))
	same(t, "reason", any("paused by anna"), r.want(200, r.call("shop", "POST", "/rollouts/"+id+"/pause", nil)).body["reason"])
	r.want(409, r.call("shop", "POST", "/rollouts/"+id+"/retry", map[string]any{}))
	r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/resume", nil))
	r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/abort", nil))
	list := r.want(200, r.call("admin", "GET", "/rollouts?state=aborted", nil)).body["items"].([]any)
	same(t, "listed", 1, len(list))
	same(t, "waiting", any(3.0), list[0].(map[string]any)["counts"].(map[string]any)["waiting"])
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Action: "rollouts.abort", Limit: 10})
	r.must(err)
	same(t, "audit rows", 2, len(rows))
	r.want(202, r.roll("admin", map[string]any{"batch": "1"}, nil))
}

// TestRolloutIsRefused: the answer names every fault of a plan.
func TestRolloutIsRefused(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("a/x@" + web + " running")
	a := r.want(422, r.roll("admin", map[string]any{
		"batch": "0", "canary": -1, "bake_seconds": 86401, "pause_seconds": -1, "max_failures": "101%", "order": "a b",
	}, nil))
	var fields []any
	for _, f := range a.body["errors"].([]any) {
		fields = append(fields, f.(map[string]any)["field"])
	}
	same(t, "fields", []any{
		"rollout.batch", "rollout.max_failures", "rollout.canary", "rollout.bake_seconds", "rollout.pause_seconds",
		"rollout.order",
	}, fields)
	r.refused(r.roll("admin", map[string]any{"batch": "1"}, map[string]any{"op": "host"}), 422, "rollout")
	r.refused(r.roll("admin", map[string]any{"batch": "ten"}, nil), 422, "rollout.batch")
}
