package apiv1_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/server/apiv1"
	"drover/internal/server/fleet"
)

// TestPlanAfterARestoration: a plan waits for connected hosts that have not told a restored database what they have.
// What the copy says of the others is no reason to do nothing there.
func TestPlanAfterARestoration(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.place("x", web, "running", `{`+daemon+`}`)
	file := `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1"]}}}`
	var asked atomic.Int64
	var asks func(n int64)
	r.remake(func(c *apiv1.Config) {
		now := c.Now
		c.Now = func() time.Time {
			asks(asked.Add(1))
			return now()
		}
	})
	plan := func() string {
		t.Helper()
		asked.Store(0)
		a := r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", file))
		reason := a.body["changes"].([]any)[0].(map[string]any)["reason"]
		return strings.TrimSpace(changesOf(a) + "; " + reason.(string))
	}
	want := func(when, want string) {
		t.Helper()
		if got := plan(); got != want {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	r.ahead.Store(int64(fleet.SettleTime))
	r.fleet.SetIncarnation("two")
	told := false
	asks = func(n int64) {
		if n == 30 && !told { // the host that is gone tells nothing, and nobody waits for it
			r.must(r.fleet.Told(t.Context(), web, "two"))
			r.must(r.fleet.Told(t.Context(), plain, "two"))
			told = true
		}
	}
	want("the hosts tell what they have", "none x [web-1]; nothing to do")
	if !told {
		t.Error("the plan has not waited")
	}
	r.fleet.SetIncarnation("three")
	asks = func(int64) { r.ahead.Add(int64(time.Second)) }
	want("the hosts tell nothing", "change x [web-1] by start; "+
		"the host has not told what it has since the database was restored from a copy")
}
