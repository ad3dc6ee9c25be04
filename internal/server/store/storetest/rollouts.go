//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// newRollout is a rollout of a restart over two hosts.
func newRollout(id string, names ...string) *store.Rollout {
	var processes []process.ID
	for _, name := range names {
		processes = append(processes, process.ID{Namespace: "shop", Name: name})
	}
	plan := rollout.Plan{Batch: rollout.Size{Percent: 10}, Canary: 1, Bake: time.Minute, Judged: true}
	return &store.Rollout{
		ID: id, App: "app", User: "anna", RequestID: "r", Created: epoch, Op: process.Restart, Processes: processes,
		HostTimeout: 5 * time.Second, Selector: "role=web", Total: 2, Order: "zone",
		Rollout: rollout.New(plan, []rollout.Host{
			{Agent: "x", Name: "web-1", Processes: processes}, {Agent: "y", Name: "0:10.0.0.2", Processes: processes[:1]},
		}),
	}
}

func rollouts(t *testing.T, s store.Store) {
	for i, id := range []string{"ro-1", "ro-2", "ro-3"} {
		must(t, s.CreateRollout(t.Context(), newRollout(id, "a"+id, "b"+id), store.AuditRow{At: at(time.Duration(i))}))
	}
	want := newRollout("ro-2", "aro-2", "bro-2")
	want.Number = 2
	got, err := s.GetRollout(t.Context(), "ro-2", "app")
	must(t, err)
	same(t, "rollout", want, got)
	if _, err := s.GetRollout(t.Context(), "ro-2", "another"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another app gets %v", err)
	}
	if err := s.CreateRollout(t.Context(), newRollout("ro-2", "c"), store.AuditRow{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a taken id gives %v", err)
	}
	list, err := s.ListRollouts(t.Context(), store.RolloutFilter{App: "app", State: rollout.Running}, 3, 10)
	must(t, err)
	if len(list) != 2 || list[0].ID != "ro-2" || list[1].ID != "ro-1" || len(list[0].Processes) != 2 || list[0].Hosts != nil ||
		list[0].States[rollout.Waiting] != 2 {
		t.Errorf("listed are %+v", list)
	}
	rows, err := s.ListAudit(t.Context(), store.AuditFilter{Limit: 10})
	must(t, err)
	same(t, "audit rows", 3, len(rows))
}

func rolloutsChanged(t *testing.T, s store.Store) {
	must(t, s.CreateRollout(t.Context(), newRollout("ro-1", "a"), store.AuditRow{}))
	refused := errors.New("no")
	if _, err := s.ChangeRollout(t.Context(), "ro-1", "", func(r *rollout.Rollout) error {
		r.State = rollout.Done
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("an error of the change gives %v", err)
	}
	var want rollout.Rollout
	changed, err := s.ChangeRollout(t.Context(), "ro-1", "app", func(r *rollout.Rollout) error {
		*r = rollout.Step(*r, nil, at(time.Second))
		r.Hosts[1].State, r.Hosts[1].Cause, r.Hosts[1].Text, r.Forgiven = rollout.Failed, "failed", "because", 7
		r.State, r.Reason, r.Settled = rollout.Aborted, "reason", at(time.Minute)
		want = *r
		return nil
	})
	must(t, err)
	same(t, "changed", want, changed.Rollout)
	got, err := s.GetRollout(t.Context(), "ro-1", "")
	must(t, err)
	same(t, "stored", want, got.Rollout)
	if _, err := s.ChangeRollout(t.Context(), "ro-1", "another", nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another app gets %v", err)
	}
	open, err := s.OpenRollouts(t.Context()) // its first host is begun
	must(t, err)
	same(t, "open", []string{"ro-1"}, open)
	_, err = s.ChangeRollout(t.Context(), "ro-1", "", func(r *rollout.Rollout) error {
		r.Hosts[0].State = rollout.Skipped
		return nil
	})
	must(t, err)
	open, err = s.OpenRollouts(t.Context())
	must(t, err)
	same(t, "open", 0, len(open))
	n, err := s.PruneRollouts(t.Context(), at(time.Hour), 10)
	must(t, err)
	same(t, "pruned", 1, n)
	if _, err := s.GetRollout(t.Context(), "ro-1", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a removed rollout gives %v", err)
	}
}

func rolloutsApart(t *testing.T, s store.Store) {
	must(t, s.CreateRollout(t.Context(), newRollout("ro-1", "a", "b"), store.AuditRow{}))
	busy := func(err error, id, name string) {
		t.Helper()
		e, ok := errors.AsType[*store.RolloutBusyError](err)
		if !ok || e.ID != id || e.Process.Name != name {
			t.Errorf("the rejection is %v, want one about %s of %s", err, name, id)
		}
	}
	busy(s.CreateRollout(t.Context(), newRollout("ro-2", "b", "c"), store.AuditRow{}), "ro-1", "b")
	end := func(r *rollout.Rollout) error { r.State = rollout.Done; return nil }
	again := func(r *rollout.Rollout) error { r.State = rollout.Running; return nil }
	_, err := s.ChangeRollout(t.Context(), "ro-1", "", end)
	must(t, err)
	must(t, s.CreateRollout(t.Context(), newRollout("ro-2", "b", "c"), store.AuditRow{}))
	_, err = s.ChangeRollout(t.Context(), "ro-1", "", again)
	busy(err, "ro-2", "b")
	// Of many at once one begins.
	results := make(chan error)
	for i := range 8 {
		go func() {
			results <- s.CreateRollout(t.Context(), newRollout("ro-many-"+string(rune('a'+i)), "d"), store.AuditRow{})
		}()
	}
	begun := 0
	for range 8 {
		if err := <-results; err == nil {
			begun++
		}
	}
	same(t, "begun at once", 1, begun)
}
