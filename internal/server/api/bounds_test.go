package api_test

import (
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// TestRightsWithBounds: a right may have an end to come and a limit of targets, and the audit row has both. A right that
// has ended may stay.
func TestRightsWithBounds(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	right := `{"operations":["operator"],"namespaces":["a"],"until":"` + until.Format(time.RFC3339) + `","max_targets":200}`
	r.want(201, r.call("admin", "POST", "/users", `{"name":"ann","grants":[`+right+`]}`))
	u, err := r.store.GetUser(t.Context(), "ann")
	r.must(err)
	if g := u.Grants[0]; !g.Until.Equal(until) || g.MaxTargets != 200 {
		t.Errorf("the right is kept as %s", g)
	}
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Action: "users.create", Limit: 1})
	r.must(err)
	if detail := string(rows[0].Detail); !strings.Contains(detail, until.Format(time.RFC3339)) ||
		!strings.Contains(detail, `"max_targets":200`) {
		t.Errorf("the audit row has %s", detail)
	}
	shown := r.want(200, r.call("admin", "GET", "/users/ann", nil)).body["grants"].([]any)[0].(map[string]any)
	same(t, "end", any(until.Format(time.RFC3339)), shown["until"])
	same(t, "limit", any(200.0), shown["max_targets"])

	const ended = `{"operations":["stop"],"namespaces":["a"],"until":"2020-01-01T00:00:00Z"}`
	for _, call := range [][3]string{
		{"POST", "/users", `{"name":"ben","grants":[` + right + `,` + ended + `]}`},
		{"PATCH", "/users/ann", `{"grants":[` + right + `,` + ended + `]}`},
		{"POST", "/apps", `{"code":"ben","grants":[` + right + `,` + ended + `]}`},
	} {
		r.refused(r.call("admin", call[0], call[1], call[2]), 422, "grants[1].until")
	}
	_, err = r.store.ChangeUser(t.Context(), "ann", func(u *store.User) error {
		u.Grants[0].Until = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		return nil
	})
	r.must(err)
	kept := `{"operations":["operator"],"namespaces":["a"],"until":"2020-01-01T00:00:00Z","max_targets":200}`
	r.want(200, r.call("admin", "PATCH", "/users/ann", `{"grants":[`+kept+`,`+right+`]}`))
}

// TestLimitOfTargets: a call with more targets than the limit of its right is rejected as a whole, and names the limit.
func TestLimitOfTargets(t *testing.T) {
	r := labelled(t)
	r.app("two", "read,restart,start on a max-targets 2", "label-agents on * max-targets 2")
	r.app("more", "read,restart on a max-targets 2", "restart on a at area:0,area:3")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running", "a/y@"+web+" running")
	const (
		both    = `{"op":"restart","targets":[{"namespace":"a","name":"x"}]}`
		all     = `{"op":"restart","processes":["a/*"]}`
		ownSpec = `{"op":"start","targets":[{"namespace":"a","name":"x"},{"namespace":"a","name":"y"}]}`
	)
	names := func(a answer, subject string) {
		t.Helper()
		r.refused(a, 403, "")
		same(t, "detail", any("not allowed: "+subject+
			": the call has 3 targets, and the right allows at most 2 in one call"), a.body["detail"])
	}
	r.want(202, r.call("two", "POST", "/tasks", both))
	names(r.call("two", "POST", "/tasks", all), "restart a/x")
	names(r.call("two", "POST", "/tasks", ownSpec), "start a/x")
	r.want(202, r.call("more", "POST", "/tasks", all))
	same(t, "reads have no limit", 3, len(r.want(200, r.call("two", "GET", "/processes?namespace=a", nil)).items("name")))

	r.want(200, r.call("two", "POST", "/hosts/labels", `{"hosts":["0:*"],"set":{"k":"v"}}`))
	names(r.call("two", "POST", "/hosts/labels", `{"hosts":["*"],"set":{"k":"v"}}`), "label-agents")

	selected := r.want(201, r.call("two", "POST", "/selections?namespace=a", `{"op":"restart"}`))
	same(t, "denied", any(3.0), selected.body["denied_count"])

	file := `{"namespace":"a","processes":{"new":{` + daemon + `,"hosts":["web-1","0:10.0.0.2","3:10.0.0.3"]}}}`
	names(r.call("two", "PUT", "/namespaces/a", file), "start a/new")
	r.want(202, r.call("two", "PUT", "/namespaces/a", strings.Replace(file, `,"3:10.0.0.3"`, "", 1)))
	if op := r.engine.last.Requests[0].Op; op != process.Start {
		t.Errorf("the apply has become %v", op)
	}
}
