package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// put sets the groups of namespaces of agent-0.
func (r *rig) put(namespace string, groups ...process.Group) {
	r.t.Helper()
	if err := r.db.PutGroups(r.t.Context(), []store.GroupHost{{Agent: "agent-0", Namespace: namespace}},
		groups); err != nil {
		r.t.Fatal(err)
	}
}

// hello has agent-0 introduce itself with what it says it has, and returns which groups it was sent.
func (r *rig) hello(has map[string]string) map[string][]process.Group {
	r.t.Helper()
	r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0", Groups: has}})
	sent := map[string][]process.Group{}
	for _, m := range r.taken() {
		for _, o := range m.Orders {
			if o.Op != process.SetGroups || o.Process.Name != "" || o.Spec != nil {
				r.t.Errorf("order %+v", o)
			}
			sent[o.Process.Namespace] = o.Groups
			r.progress("agent-0", wire.Progress{Item: o.Item, Outcome: &process.Outcome{Text: process.Success}})
		}
	}
	return sent
}

func TestGroupsAreRestored(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := process.Group{ID: "a", CPULimit: 12.5}, process.Group{ID: "b", MemLimit: 3, MemWeight: 1}
		want := func(what string, want, got map[string][]process.Group) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		none := map[string][]process.Group{}
		want("there are none", none, r.hello(nil))
		r.put("one", a, b)
		r.put("two", b)
		want("it has lost its disk", map[string][]process.Group{"one": {a, b}, "two": {b}}, r.hello(nil))
		two := wire.GroupsDigest([]process.Group{b})
		want("it has all", none,
			r.hello(map[string]string{"one": wire.GroupsDigest([]process.Group{a, b}), "two": two}))
		want(
			"it has old ones and others", map[string][]process.Group{"one": {a, b}, "gone": nil},
			r.hello(map[string]string{
				"one": wire.GroupsDigest([]process.Group{b, a}), "two": two, "gone": two,
				"\n": two,
			}),
		)
	})
}

// TestGroupsOfAMadAgent: what it says of itself causes only so much.
func TestGroupsOfAMadAgent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		has := map[string]string{strings.Repeat("x", 1000): "?", "": "?"}
		for i := range 1500 {
			has[fmt.Sprintf("%04d", i)] = "?"
		}
		if n := len(r.hello(has)); n != 1000 {
			t.Errorf("%d orders, want 1000", n)
		}
	})
}

// TestGroupsAreReadWhenTheyAreSent: whoever asked first, the agent is told what counts.
func TestGroupsAreReadWhenTheyAreSent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.put("ns", process.Group{ID: "old"})
		r.leave()
		request := store.Request{
			Op: process.SetGroups, Process: process.ID{Namespace: "ns"},
			Targets: []store.Target{{ItemKey: "k", Spelling: "agent-0", Agent: "agent-0"}},
		}
		if err := r.Submit(t.Context(), &store.Task{ID: "t", Requests: []store.Request{request}},
			store.AuditRow{}); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		r.put("ns", process.Group{ID: "new"})
		r.taken()
		r.answer(accept)
		r.pass(5 * time.Second)
		if diff := cmp.Diff([]process.Group{{ID: "new"}}, r.takenOne().Groups); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}
