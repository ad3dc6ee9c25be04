//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"testing"

	"drover/internal/process"
	"drover/internal/server/store"
)

// groupsOf returns the groups of a namespace on the agents, and the agent of each group.
func groupsOf(t *testing.T, s store.Store, namespace string, agents ...string) (out []process.Group, of []string) {
	must(t, s.GetGroups(t.Context(), namespace, agents, func(agent string, g process.Group) error {
		out, of = append(out, g), append(of, agent)
		return nil
	}))
	return out, of
}

func groups(t *testing.T, s store.Store) {
	big := process.Group{ID: "big", CPULimit: 50.5, MemLimit: 40, CPUWeight: 1}
	small := process.Group{ID: "a small one", MemLimit: 1, MemWeight: 1}
	x, y, other := store.GroupHost{Agent: "x", Namespace: "ns"}, store.GroupHost{Agent: "y", Namespace: "ns"},
		store.GroupHost{Agent: "x", Namespace: "other"}
	must(t, s.PutGroups(t.Context(), []store.GroupHost{x, y}, []process.Group{small, big}))
	must(t, s.PutGroups(t.Context(), []store.GroupHost{other}, []process.Group{big}))
	must(t, s.PutGroups(t.Context(), nil, []process.Group{big}))
	got, of := groupsOf(t, s, "ns", "y", "nobody", "x")
	same(t, "groups", []process.Group{small, big, small, big}, got)
	same(t, "agents", []string{"y", "y", "x", "x"}, of)

	must(t, s.PutGroups(t.Context(), []store.GroupHost{x}, []process.Group{big}))
	got, _ = groupsOf(t, s, "ns", "x")
	same(t, "replaced", []process.Group{big}, got)
	must(t, s.PutGroups(t.Context(), []store.GroupHost{x}, nil))
	got, _ = groupsOf(t, s, "ns", "x")
	same(t, "removed", []process.Group(nil), got)
	got, _ = groupsOf(t, s, "other", "x")
	same(t, "of another namespace", []process.Group{big}, got)

	enough := errors.New("enough")
	if err := s.GetGroups(t.Context(), "ns", []string{"y"}, func(string, process.Group) error {
		return enough
	}); !errors.Is(err, enough) {
		t.Errorf("the reader's error became %v", err)
	}
	if s.PutGroups(t.Context(), []store.GroupHost{y}, []process.Group{big, big}) == nil {
		t.Error("one id was stored twice on one host")
	}
	got, _ = groupsOf(t, s, "ns", "y")
	same(t, "after a refused write", []process.Group{small, big}, got)
}

func agentGroups(t *testing.T, s store.Store) {
	a, b := process.Group{ID: "z", CPULimit: 1}, process.Group{ID: "a", MemLimit: 2, MemWeight: 1}
	x, other := store.GroupHost{Agent: "x", Namespace: "ns"}, store.GroupHost{Agent: "x", Namespace: "other"}
	must(t, s.PutGroups(t.Context(), []store.GroupHost{x, {Agent: "y", Namespace: "ns"}}, []process.Group{a, b}))
	must(t, s.PutGroups(t.Context(), []store.GroupHost{other}, []process.Group{b}))
	want := func(agent string, want map[string][]process.Group) {
		t.Helper()
		got, err := s.AgentGroups(t.Context(), agent)
		must(t, err)
		same(t, "groups of "+agent, want, got)
	}
	want("x", map[string][]process.Group{"ns": {a, b}, "other": {b}})
	want("y", map[string][]process.Group{"ns": {a, b}})
	want("nobody", map[string][]process.Group{})
	must(t, s.PutGroups(t.Context(), []store.GroupHost{x}, nil))
	want("x", map[string][]process.Group{"other": {b}})
}

func groupUsage(t *testing.T, s store.Store) {
	row := func(agent, namespace, name string, u *process.Usage) store.Observed {
		return store.Observed{
			Agent: agent, Process: process.ID{Namespace: namespace, Name: name},
			Status: process.Status{Usage: u},
		}
	}
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{
		row("x", "ns", "a", &process.Usage{CPU: 10.5, Mem: 1, Processes: 3, At: 1}),
		row("x", "ns", "b", &process.Usage{CPU: 4, Mem: 2.25, Processes: 1, At: 2}),
		row("x", "ns", "down", nil),
		row("x", "other", "c", &process.Usage{CPU: 50, At: 1}),
		row("y", "ns", "idle", &process.Usage{Processes: 1, At: 1}),
		row("z", "ns", "down", nil),
		row("w", "ns", "not asked for", &process.Usage{CPU: 50, At: 1}),
	}, nil))
	got, err := s.GroupUsage(t.Context(), "ns", []string{"x", "y", "z", "nobody"})
	must(t, err)
	same(t, "usage", map[string]store.GroupUsage{"x": {CPU: 14.5, Mem: 3.25, Processes: 2}, "y": {Processes: 1}}, got)
	got, err = s.GroupUsage(t.Context(), "ns", nil)
	must(t, err)
	same(t, "usage of nobody", map[string]store.GroupUsage{}, got)
}

// inheritedGroups: a reinstalled host is another agent at the same address.
func inheritedGroups(t *testing.T, s store.Store) {
	g, h := []process.Group{{ID: "g", CPULimit: 1}}, []process.Group{{ID: "h", CPULimit: 2}}
	put := func(key string, cloud int, ip string) {
		t.Helper()
		must(t, s.PutAgent(t.Context(), store.Agent{Key: key, Cloud: cloud, IP: ip, Created: epoch}))
	}
	want := func(agent string, want map[string][]process.Group) {
		t.Helper()
		got, err := s.AgentGroups(t.Context(), agent)
		must(t, err)
		same(t, "groups of "+agent, want, got)
	}
	put("old", 1, "10.0.0.1")
	must(t, s.PutGroups(t.Context(), []store.GroupHost{{Agent: "old", Namespace: "a"}, {Agent: "old", Namespace: "b"}},
		g))
	put("elsewhere", 2, "10.0.0.1")
	want("elsewhere", map[string][]process.Group{})
	must(t, s.PutGroups(t.Context(), []store.GroupHost{{Agent: "rich", Namespace: "a"}}, h))
	put("rich", 1, "10.0.0.1")
	want("rich", map[string][]process.Group{"a": h})
	want("old", map[string][]process.Group{"a": g, "b": g})
	must(t, s.PutGroups(t.Context(), []store.GroupHost{{Agent: "rich", Namespace: "a"}}, nil))
	put("new", 1, "10.0.0.1")
	want("new", map[string][]process.Group{"a": g, "b": g})
	want("old", map[string][]process.Group{})
	put("new", 1, "10.0.0.1")
	want("new", map[string][]process.Group{"a": g, "b": g})
}
