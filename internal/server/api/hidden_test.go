package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"drover/internal/server/store"
)

// TestARefusalTellsNothing: who may not touch a process is told neither whether it is there nor where, and not which
// hosts there are.
func TestARefusalTellsNothing(t *testing.T) {
	r := newRig(t)
	r.app("reader", "read on mine")
	r.app("narrow", "stop on mine at 0:10.0.0.2")
	r.observe("secret/x@"+web+" running", "mine/x@"+web+" running", "mine/x@"+plain+" running")
	submit := func(app, namespace, name string, hosts ...string) string {
		t.Helper()
		a := r.call(app, "POST", "/tasks", map[string]any{
			"op": "stop", "targets": []any{map[string]any{"namespace": namespace, "name": name, "hosts": hosts}},
		})
		r.refused(a, 403, "")
		detail, _ := a.body["detail"].(string)
		return detail
	}
	there := submit("reader", "secret", "x")
	for _, c := range []struct{ name, host string }{
		{"nothing", ""},
		{"x", "web-1"},
		{"x", "0:10.99.0.1"},
		{"x", "no-such-host"},
	} {
		hosts := []string{c.host}
		if c.host == "" {
			hosts = nil
		}
		if got := strings.Replace(submit("reader", "secret", c.name, hosts...), "nothing", "x", 1); got != there {
			t.Errorf("%s on %q: %q, want as for one that is there: %q", c.name, c.host, got, there)
		}
	}
	if got := submit("narrow", "mine", "x"); got != "not allowed: stop mine/x on every host that knows it" {
		t.Errorf("of a process that is elsewhere, too, it is said %q", got)
	}
	for _, host := range []string{"0:10.99.0.1", "no-such-host", "0:[fe80::1]"} {
		if got := submit("narrow", "mine", "x", host); got != "not allowed: stop mine/x on "+host {
			t.Errorf("of a host that is not there it is said %q", got)
		}
	}
	r.app("area", "stop on mine at 0:10.99.*")
	r.refused(r.call("area", "POST", "/tasks", map[string]any{
		"op":      "stop",
		"targets": []any{map[string]any{"namespace": "mine", "name": "x", "hosts": []string{"0:10.99.0.1"}}},
	}), 422, "targets[0].hosts[0]")
}

// reading is the database, and counts what is read for lists.
type reading struct {
	store.Store
	r *rig
}

func (s reading) ListObserved(ctx context.Context, f store.ObservedFilter, after store.ObservedKey,
	limit int,
) ([]store.Observed, bool, error) {
	rows, more, err := s.Store.ListObserved(ctx, f, after, limit)
	s.r.rows.Add(int64(len(rows)))
	return rows, more, err
}

func (s reading) EventsBefore(ctx context.Context, before store.EventMark, f store.EventFilter,
	limit int,
) ([]store.StoredEvent, store.EventMark, error) {
	events, next, err := s.Store.EventsBefore(ctx, before, f, limit)
	s.r.rows.Add(int64(len(events)))
	return events, next, err
}

// TestWhatIsHiddenIsNotRead: how much there is in other namespaces neither costs a call anything nor shows in how long
// it takes.
func TestWhatIsHiddenIsNotRead(t *testing.T) {
	r := newRig(t)
	r.app("reader", "read on mine,my-*")
	r.app("starter", "start on mine")
	for i := range 20 {
		r.observe(fmt.Sprintf("hidden/p%d@%s running", i, web), fmt.Sprintf("mine-too/p%d@%s running", i, web))
	}
	r.happen("hidden/p1@"+web+" started 1", "hidden/p2@"+web+" started 1", "mine/x@"+web+" started 1")
	r.observe("mine/x@"+web+" running", "my-own/x@"+web+" running")
	for _, path := range []string{
		"/processes", "/processes?name=p*", "/processes?namespace=*", "/processes/counts",
		"/why?all=true", "/events", "/events?name=p*",
	} {
		for app, most := range map[string]int64{"reader": 2, "starter": 0} {
			r.rows.Store(0)
			r.want(200, r.call(app, "GET", path, nil))
			if n := r.rows.Load(); n > most {
				t.Errorf("%s: for %s %d rows are read", path, app, n)
			}
		}
	}
	if got := r.want(200, r.call("reader", "GET", "/processes", nil)).items("namespace"); len(got) != 2 {
		t.Errorf("shown are %v", got)
	}
}
