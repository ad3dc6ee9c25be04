package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "drover/api/v1"
)

// TestASpecOfOnesOwn: who brings one needs the right to start, unless it is what is stored there, which counts as none.
func TestASpecOfOnesOwn(t *testing.T) {
	r := newRig(t)
	r.app("narrow", "stop on a", "start on a at 0:10.0.0.2", "register on a")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running")
	stored := v1.Spec{ProcessName: "x", Directory: "/", User: "root", Compat: new(v1.Compat{}.Defaulted())}
	other := stored
	other.ProcessName = "y"
	submit := func(op string, spec any, hosts ...string) answer {
		return r.call("narrow", "POST", "/tasks", map[string]any{
			"op": op, "spec": spec, "targets": []any{map[string]any{"namespace": "a", "name": "x", "hosts": hosts}},
		})
	}
	r.refused(submit("stop", other, "web-1"), 403, "")
	r.refused(submit("register", other, "web-1"), 403, "")
	hidden := stored
	hidden.Environment = map[string]string{"MODE": "***"} // as a caller without the right to start sees it
	r.refused(submit("register", hidden, "web-1"), 403, "")
	r.refused(submit("register", hidden, "0:10.0.0.2"), 422, "spec.environment.MODE")
	for _, c := range []struct {
		op    string
		spec  any
		hosts []string
		// own are how many targets have the spec that was brought, stored how many the stored one.
		own, stored int
	}{
		{"stop", other, []string{"0:10.0.0.2"}, 1, 0},
		{"stop", stored, []string{"web-1", "0:10.0.0.2"}, 1, 1},
		{"register", stored, []string{"web-1"}, 1, 0},
	} {
		r.want(202, submit(c.op, c.spec, c.hosts...))
		own, stored := 0, 0
		for _, req := range r.engine.last.Requests {
			if req.Spec != nil {
				own += len(req.Targets)
			} else if req.ReportedSpec != nil {
				stored += len(req.Targets)
			}
		}
		if own != c.own || stored != c.stored {
			t.Errorf("%s: %d targets with the spec, %d with the stored one, want %d and %d", c.op, own, stored, c.own,
				c.stored)
		}
	}
}

// TestUnreadableValues: a value that its type cannot read hides no other fault of the request, and each fault has a
// field.
func TestUnreadableValues(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	for _, c := range []struct{ method, path, body, fields string }{
		{
			"POST", "/tasks", `{"op":"x","rollout":{"batch":"x","canary":-1},"targets":[],"nope":1}`,
			"nope rollout.batch op targets rollout.canary",
		},
		{"POST", "/tasks", `{"op":"start","rollout":{"batch":1,"bake":-1},"processes":["a/x"]}`, "rollout.bake"},
		{"POST", "/tasks", `{"op":"x","rollout":{"batch":0},"processes":["a/x"]}`, "op rollout.batch"},
		{"POST", "/tasks", `{"op":"start","targets":[{"host":"a"}]}`, "targets[0].host targets[0].namespace"},
		{
			"POST", "/schedules", `{"name":"s","cron":"@daily","request":{"op":"x","rollout":{"batch":0,"canary":-1}}}`,
			"request.processes request.op request.rollout.batch request.rollout.canary",
		},
		{"PUT", "/namespaces/a?bake=x&batch=0&canary=-1", `{}`, "bake batch canary namespace processes"},
	} {
		a := r.call("admin", c.method, c.path, json.RawMessage(c.body))
		if got := strings.Join(a.faults(), " "); got != c.fields {
			t.Errorf("%s %s: faults of %q, want %q: %v", c.path, c.body, got, c.fields, a.body["detail"])
		}
	}
	for body, want := range map[string]string{
		`{"op":"restart","processes":["a/x"],"rollout":{"batch":1,"bake":true}}`: "rollout.bake: is a JSON bool: expected a duration such as 60s",
		`{"op":"restart","processes":["a/x"],"rollout":{"batch":"200%"}}`:        `rollout.batch: "200%" is above 100%: expected a share such as 10%`,
	} {
		same(t, body, any(want), r.want(422, r.call("admin", "POST", "/tasks", json.RawMessage(body))).body["detail"])
	}
	same(t, "no file", any("not valid JSON: expected a value, found none"), r.want(422, r.call("admin", "PUT", "/namespaces/a", " ")).body["detail"])
}
