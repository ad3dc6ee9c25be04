package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// revise posts an update of the process "nginx" of agent-0.
func (r *rig) revise(id string, spec process.Spec) {
	r.t.Helper()
	err := r.Submit(r.t.Context(), &store.Task{ID: id, Requests: []store.Request{{
		Op: process.Update, Process: process.ID{Namespace: "ns", Name: "nginx"}, Spec: &spec,
		Targets: []store.Target{{ItemKey: "k", Spelling: "a", Agent: "agent-0"}},
	}}}, store.AuditRow{})
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestRevisionsAreSent: an order carries the number of the revision that brought its spec, also if the next server
// sends it.
func TestRevisionsAreSent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.revise("1", process.Spec{Compat: &v1.Compat{Contact: "x"}})
		order := r.takenOne()
		if order.Spec.Revision != 1 {
			t.Errorf("the order has revision %d, want 1", order.Spec.Revision)
		}
		r.finish("agent-0", order.Item)
		r.leave("agent-0")
		r.revise("2", process.Spec{Compat: &v1.Compat{Contact: "y"}})
		r.stop()
		r.left = map[string]bool{}
		r.start()
		r.pass(10 * time.Second)
		revisions := map[int64]bool{}
		for _, m := range r.taken() {
			for _, o := range m.Orders {
				revisions[o.Spec.Revision] = true
			}
		}
		if got := slices.Collect(maps.Keys(revisions)); !slices.Equal(got, []int64{2}) {
			t.Errorf("the next server sends revisions %v, want 2", got)
		}
	})
}

// TestFieldsOfRevisions: the server adds to the event of a changed spec the fields that its revision has changed. What
// an agent says of the fields does not count, nor does a revision that never was.
func TestFieldsOfRevisions(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		many := map[string]string{}
		for i := range 30 {
			many[fmt.Sprintf("V%02d", i)] = "secret"
		}
		for i, s := range []process.Spec{
			{Compat: &v1.Compat{Contact: "x"}},
			{Environment: map[string]string{"TOKEN": "secret"}, Compat: &v1.Compat{Contact: "y"}},
			{Environment: many, Compat: &v1.Compat{}},
		} {
			r.revise(fmt.Sprint(i), s)
			r.finish("agent-0", r.takenOne().Item)
		}
		event := func(seq uint64, former, revision int64) process.Event {
			return process.Event{
				Stream: "s", Seq: seq, At: time.Now().UnixMilli(), Process: process.ID{Namespace: "ns", Name: "nginx"},
				Kind: process.EventUpdated, Former: former, Revision: revision, Fields: []string{"invented"},
			}
		}
		events := []process.Event{event(1, 1, 2), event(2, 2, 3), event(3, 0, 2), event(4, 2, 9), event(5, -1, -2)}
		if ack := r.report("agent-0", wire.Report{Events: lines(events...)}); ack.Error != "" {
			t.Fatal(ack.Error)
		}
		if ack := r.report("agent-1", wire.Report{Events: lines(event(1, 1, 2))}); ack.Error != "" {
			t.Fatal(ack.Error)
		}
		stored, _, err := r.db.EventsAfter(t.Context(), 0, store.EventFilter{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range stored {
			fields := e.Event.Fields
			if n := len(fields); n > 3 {
				fields = append([]string{fmt.Sprint(n)}, fields[n-1])
			}
			got = append(got, fmt.Sprintf("%d %s", e.Event.Revision, strings.Join(fields, " ")))
		}
		want := []string{"2 compat.contact environment.TOKEN", "3 21 12 more", "2 ", "9 ", "0 ", "2 "}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

// TestRevisionsArePruned: the cleaner removes what is old and not among the latest.
func TestRevisionsArePruned(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range store.KeptRevisions + 10 {
			r.revise(fmt.Sprint(i), process.Spec{Compat: &v1.Compat{Contact: fmt.Sprint(i)}})
			r.finish("agent-0", r.takenOne().Item)
		}
		r.pass(29 * 24 * time.Hour)
		count := func() int {
			rows, _, err := r.db.ListRevisions(t.Context(), store.RevisionFilter{Namespace: "ns"}, 1000)
			if err != nil {
				t.Fatal(err)
			}
			return len(rows)
		}
		if n := count(); n != store.KeptRevisions+10 {
			t.Errorf("%d revisions after 29 days", n)
		}
		r.pass(2 * 24 * time.Hour)
		if n := count(); n != store.KeptRevisions {
			t.Errorf("%d revisions after 31 days, want %d", n, store.KeptRevisions)
		}
	})
}
