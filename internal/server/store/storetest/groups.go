//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"testing"

	"drover/internal/server/store"
)

// groupsOf reads groups as "agent/id" with their values.
func groupsOf(t *testing.T, s store.Store, namespace string, agents ...string) (out []store.Group, of []string) {
	must(t, s.GetGroups(t.Context(), namespace, agents, func(agent string, g store.Group) error {
		out, of = append(out, g), append(of, agent)
		return nil
	}))
	return out, of
}

func groups(t *testing.T, s store.Store) {
	big := store.Group{ID: "big", CPULimit: 50.5, MemLimit: 40, CPUWeight: 1}
	small := store.Group{ID: "a small one", MemLimit: 1, MemWeight: 1}
	x, y, other := store.GroupHost{Agent: "x", Namespace: "ns"}, store.GroupHost{Agent: "y", Namespace: "ns"}, store.GroupHost{Agent: "x", Namespace: "other"}
	must(t, s.PutGroups(t.Context(), []store.GroupHost{x, y}, []store.Group{small, big}))
	must(t, s.PutGroups(t.Context(), []store.GroupHost{other}, []store.Group{big}))
	must(t, s.PutGroups(t.Context(), nil, []store.Group{big}))
	got, of := groupsOf(t, s, "ns", "y", "nobody", "x")
	same(t, "groups", []store.Group{small, big, small, big}, got)
	same(t, "agents", []string{"y", "y", "x", "x"}, of)

	must(t, s.PutGroups(t.Context(), []store.GroupHost{x}, []store.Group{big}))
	got, _ = groupsOf(t, s, "ns", "x")
	same(t, "replaced", []store.Group{big}, got)
	must(t, s.PutGroups(t.Context(), []store.GroupHost{x}, nil))
	got, _ = groupsOf(t, s, "ns", "x")
	same(t, "removed", []store.Group(nil), got)
	got, _ = groupsOf(t, s, "other", "x")
	same(t, "of another namespace", []store.Group{big}, got)

	enough := errors.New("enough")
	if err := s.GetGroups(t.Context(), "ns", []string{"y"}, func(string, store.Group) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("the reader's error became %v", err)
	}
	if s.PutGroups(t.Context(), []store.GroupHost{y}, []store.Group{big, big}) == nil {
		t.Error("one id was stored twice on one host")
	}
	got, _ = groupsOf(t, s, "ns", "y")
	same(t, "after a refused write", []store.Group{small, big}, got)
}
