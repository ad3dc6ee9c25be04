package api_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/server/api"
	"drover/internal/server/api/processes"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
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
	r.remake(func(c *api.Config) {
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
			r.must(r.fleet.RecordSynced(t.Context(), web, "two"))
			r.must(r.fleet.RecordSynced(t.Context(), plain, "two"))
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

// meanwhile has something happen while rows are read, after the database has chosen them.
type meanwhile struct {
	processes.Timeline
	store.Listing
	happens func()
}

func (m *meanwhile) StatesAt(ctx context.Context, f store.ObservedFilter, at time.Time, after store.ObservedKey, limit int) (
	[]store.RecordedState, bool, error,
) {
	rows, more, err := m.Timeline.StatesAt(ctx, f, at, after, limit)
	m.happens()
	return rows, more, err
}

func (m *meanwhile) ListObserved(ctx context.Context, f store.ObservedFilter, after store.ObservedKey, limit int) (
	[]store.Observed, bool, error,
) {
	rows, more, err := m.Listing.ListObserved(ctx, f, after, limit)
	m.happens()
	return rows, more, err
}

// TestToldWhileRowsAreRead: a host may tell a restored database what it has while a call reads what the copy says of
// it. The call does not take that for what there is.
func TestToldWhileRowsAreRead(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.place("x", web, "running", `{`+daemon+`}`)
	r.record(web, "run1", "/ 0 running 0 1.0", "shop/x 1 running 11")
	m := &meanwhile{Timeline: r.store, Listing: r.store, happens: func() {}}
	r.remake(func(c *api.Config) {
		c.Timeline, c.Listing = m, m
		now := c.Now
		c.Now = func() time.Time {
			r.ahead.Add(int64(time.Second)) // a plan waits for hosts, but not for ever
			return now()
		}
	})
	r.fleet.RecordMessage(web, time.Now().Add(time.Hour))
	calls := []func() string{
		func() string {
			a := r.want(200, r.call("admin", "GET", "/processes?namespace=shop&at="+clock(20), nil))
			return strings.Join(a.lines("items", "name", "state"), ", ")
		},
		func() string {
			file := `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":["web-1"]}}}`
			return changesOf(r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", file)))
		},
	}
	for i, want := range [][2]string{
		{"x unknown", "x running"},
		{"change x [web-1] by start", "none x [web-1]"},
	} {
		incarnation := fmt.Sprint("restored", i)
		r.fleet.SetIncarnation(incarnation)
		m.happens = func() { r.must(r.fleet.RecordSynced(t.Context(), web, incarnation)) }
		for n, when := range []string{"told while rows are read", "told before"} {
			if got := calls[i](); strings.TrimSpace(got) != want[n] {
				t.Errorf("%s: got %q, want %q", when, got, want[n])
			}
		}
	}
	m.happens = func() { r.fleet.SetIncarnation("restored again") }
	if got, want := strings.TrimSpace(calls[1]()), "change x [web-1] by start"; got != want {
		t.Errorf("restored while rows are read: got %q, want %q", got, want)
	}
}
