//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// told returns an agent's report about a process with a revision.
func told(agent, name string, revision uint64, hosted bool) store.Observed {
	o := observed(agent, "ns", name, 1)
	o.Status.Revision, o.Status.Hosted, o.Status.RegisteredAt = revision, hosted, 1234
	o.Status.Want = process.WantStopped
	if hosted {
		o.Status.Want = process.WantRunning
	}
	return o
}

// confirmedBy returns the record that the store should derive.
func confirmedBy(o store.Observed) store.Confirmed {
	return store.Confirmed{
		Process: o.Process, Revision: o.Status.Revision, Hosted: o.Status.Hosted, Want: o.Status.Want,
		RegisteredAt: o.Status.RegisteredAt, Spec: o.Spec,
	}
}

// allConfirmed reads the confirmed records of an agent in both ways, which must agree, and sorts them by name.
func allConfirmed(t *testing.T, s store.Store, agent string) []store.Confirmed {
	t.Helper()
	brief, err := s.AgentConfirmed(t.Context(), agent)
	must(t, err)
	slices.SortFunc(brief, func(a, b store.Confirmed) int { return strings.Compare(a.Process.Name, b.Process.Name) })
	names := []process.ID{{Namespace: "nowhere", Name: "a"}}
	for _, c := range brief {
		names = append(names, c.Process)
	}
	whole, err := s.GetConfirmed(t.Context(), agent, names)
	must(t, err)
	bare := slices.Clone(whole)
	for i := range bare {
		bare[i].Spec = nil
	}
	same(t, "without specs", bare, brief)
	return whole
}

func confirmed(t *testing.T, s store.Store) {
	a, b := told("x", "a", 3, true), told("x", "b", 4, false)
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{a}, nil))
	must(t, replaced(s.ReplaceObserved(t.Context(), store.ReportMark{Agent: "x"}, []store.Observed{a, b}, nil)))
	must(t, s.PutObserved(t.Context(), store.ReportMark{},
		[]store.Observed{told("y", "a", 9, true), observed("x", "ns", "of an agent that cannot tell", 1)}, nil))
	same(t, "told", []store.Confirmed{confirmedBy(a), confirmedBy(b)}, allConfirmed(t, s, "x"))

	newer, older, unchanged := told("x", "a", 7, false), told("x", "b", 2, true), told("x", "a", 8, true)
	newer.Spec = &process.Spec{User: "another"}
	unchanged.Spec = nil
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{newer, older}, nil))
	same(t, "a newer one, and an older", []store.Confirmed{confirmedBy(newer), confirmedBy(b)}, allConfirmed(t, s, "x"))
	same(t, "the present state is what was told last", []string{"b true"}, states(t, s))
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{unchanged}, nil))
	same(t, "one without a spec", []store.Confirmed{confirmedBy(newer), confirmedBy(b)}, allConfirmed(t, s, "x"))

	// An introduction with an old disk removes no record.
	must(t, replaced(s.ReplaceObserved(t.Context(), store.ReportMark{Agent: "x"}, nil, nil)))
	same(t, "after an empty introduction", []store.Confirmed{confirmedBy(newer), confirmedBy(b)},
		allConfirmed(t, s, "x"))
	same(t, "of an unknown agent", []store.Confirmed(nil), allConfirmed(t, s, "nobody"))
}

// states lists the observed processes of agent x that are hosted.
func states(t *testing.T, s store.Store) []string {
	t.Helper()
	var list []string
	rows, _, err := s.PageObserved(t.Context(), "ns", 0, 100)
	must(t, err)
	for _, o := range rows {
		if o.Agent == "x" && o.Status.Hosted {
			list = append(list, o.Process.Name+" true")
		}
	}
	return list
}

func confirmedRemovals(t *testing.T, s store.Store) {
	a, b := told("x", "a", 3, true), told("x", "b", 4, false)
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{a, b}, nil))
	removal := func(name string, revision uint64, after time.Duration) {
		t.Helper()
		r := store.Removal{
			Agent: "x", Process: process.ID{Namespace: "ns", Name: name}, Revision: revision,
			At: at(after),
		}
		must(t, s.PutObserved(t.Context(), store.ReportMark{}, nil, []store.Removal{r}))
	}
	gone := func(name string, revision uint64) store.Confirmed {
		return store.Confirmed{Process: process.ID{Namespace: "ns", Name: name}, Revision: revision, Gone: true}
	}
	removal("a", 2, 0)
	removal("b", 0, 0)
	same(t, "removed before, and who knows when", []store.Confirmed{confirmedBy(a), confirmedBy(b)},
		allConfirmed(t, s, "x"))
	removal("a", 5, 0)
	removal("b", 4, time.Hour)
	removal("never heard of", 6, 2*time.Hour)
	want := []store.Confirmed{gone("a", 5), gone("b", 4), gone("never heard of", 6)}
	same(t, "removed", want, allConfirmed(t, s, "x"))
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{a, b}, nil))
	same(t, "an old disk", want, allConfirmed(t, s, "x"))
	again := told("x", "a", 7, true)
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{again}, nil))
	want[0] = confirmedBy(again)
	same(t, "registered again", want, allConfirmed(t, s, "x"))

	prune := func(before time.Duration, limit, want int) {
		t.Helper()
		n, err := s.PruneConfirmed(t.Context(), at(before), limit)
		must(t, err)
		same(t, "removals pruned", want, n)
	}
	prune(time.Hour, 10, 0)
	prune(24*time.Hour, 1, 1)
	same(t, "the oldest removal is forgotten", []store.Confirmed{want[0], want[2]}, allConfirmed(t, s, "x"))
	prune(24*time.Hour, 10, 1)
	same(t, "what is there stays", want[:1], allConfirmed(t, s, "x"))
}
