package storetest

import (
	"errors"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

func leases(t *testing.T, s store.Store) {
	take := func(name, holder string, hold time.Duration, want bool) {
		t.Helper()
		got, err := s.TakeLease(t.Context(), name, holder, hold)
		must(t, err)
		if got != want {
			t.Errorf("%s takes %s: %t", holder, name, got)
		}
	}
	take("alarms", "a", time.Hour, true)
	take("alarms", "b", time.Hour, false)
	take("alarms", "a", time.Hour, true) // a renewal
	take("other", "b", time.Hour, true)
	must(t, s.DropLease(t.Context(), "alarms", "b")) // another holder's lease
	take("alarms", "b", time.Hour, false)
	must(t, s.DropLease(t.Context(), "alarms", "a"))
	take("alarms", "b", -time.Second, true)
	take("alarms", "a", time.Hour, true) // the lease had ended
	take("alarms", "b", time.Hour, false)
}

// servers are online while they report it.
func servers(t *testing.T, s store.Store) {
	beat := func(within time.Duration, one store.Server, want ...store.Server) {
		t.Helper()
		got, err := s.BeatServer(t.Context(), one, within)
		must(t, err)
		same(t, "there", want, got)
	}
	a := store.Server{ID: "a", Name: "one", Started: epoch.Add(time.Hour), Keys: []string{"k"}}
	b := store.Server{ID: "b", Name: "two", Started: epoch, Agents: []string{}}
	beat(time.Minute, a, a)
	beat(time.Minute, b, b, a)
	beat(0, a) // both have reported before
	a.Keys, a.Agents, b.Agents = nil, []string{"x", "y"}, nil
	beat(time.Minute, b, b, store.Server{ID: "a", Name: "one", Started: a.Started, Keys: []string{"k"}})
	beat(time.Minute, a, b, a)
	must(t, s.DropServer(t.Context(), "b"))
	must(t, s.DropServer(t.Context(), "none"))
	beat(time.Minute, a, a)
}

func identity(t *testing.T, s store.Store) {
	first, err := s.Identify(t.Context(), map[string]string{"id": "1", "account": "A"})
	must(t, err)
	same(t, "first", map[string]string{"id": "1", "account": "A"}, first)
	second, err := s.Identify(t.Context(), map[string]string{"id": "2", "account": "B", "authority": "C"})
	must(t, err)
	same(t, "second", map[string]string{"id": "1", "account": "A", "authority": "C"}, second)
	must(t, s.SetFact(t.Context(), "account", "B"))
	must(t, s.SetFact(t.Context(), "new", "N"))
	for before, want := range map[string]bool{"M": false, "N": true} {
		swapped, err := s.SwapFact(t.Context(), "new", before, "N")
		must(t, err)
		if swapped != want {
			t.Errorf("a fact that has not %q is replaced: %t", before, swapped)
		}
	}
	third, err := s.Identify(t.Context(), nil)
	must(t, err)
	same(t, "third", map[string]string{"id": "1", "account": "B", "authority": "C", "new": "N"}, third)
}

// clock must only advance: the database decides which clock it is.
func clock(t *testing.T, s store.Store) {
	first, err := s.Clock(t.Context())
	must(t, err)
	second, err := s.Clock(t.Context())
	must(t, err)
	if first.IsZero() || second.Before(first) {
		t.Errorf("the clock shows %v and then %v", first, second)
	}
}

func agentsChanged(t *testing.T, s store.Store) {
	a, b := store.Agent{Key: "a", IP: "10.0.0.1", Created: epoch}, store.Agent{
		Key: "b", IP: "10.0.0.2", Created: epoch,
		Labels: map[string]string{"x": "y"},
	}
	must(t, s.PutAgent(t.Context(), a))
	must(t, s.PutAgent(t.Context(), b))
	a.Build, a.Assigned, a.Labels = "2", "web-1", map[string]string{"rack": "3"}
	must(t, s.ChangeAgent(t.Context(), a))
	got, err := s.GetAgents(t.Context(), []string{"a", "none"})
	must(t, err)
	same(t, "changed", []store.Agent{a}, got)
	all, err := s.GetAgents(t.Context(), []string{"b", "a"})
	must(t, err)
	if len(all) != 2 {
		t.Errorf("got %v", all)
	}
	must(t, s.RemoveAgent(t.Context(), "a", at(time.Hour)))
	if err := s.ChangeAgent(t.Context(), a); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a removed agent is changed: %v", err)
	}
	if got, err := s.GetAgents(t.Context(), []string{"a"}); err != nil || len(got) != 0 {
		t.Errorf("it is back: %v, %v", got, err)
	}
}

// reportsInTurn: the store rejects a report once it has a later one.
func reportsInTurn(t *testing.T, s store.Store) {
	row := func(revision uint64) []store.Observed {
		return []store.Observed{{
			Agent: "x", Process: process.ID{Namespace: "n", Name: "p"},
			Status: process.Status{Revision: revision},
		}}
	}
	of := func(session string, number int64, hello bool) store.ReportMark {
		return store.ReportMark{Agent: "x", Session: session, Number: number, Hello: hello}
	}
	shows := func(what string, revision uint64) {
		t.Helper()
		var got uint64
		must(t, s.GetObserved(t.Context(), process.ID{Namespace: "n", Name: "p"}, []string{"x"},
			func(o store.Observed) error {
				got = o.Status.Revision
				return nil
			}))
		if got != revision {
			t.Errorf("%s: revision %d is shown, want %d", what, got, revision)
		}
	}
	refused := func(what string, want, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	must(t, s.PutObserved(t.Context(), of("one", 5, false), row(5), nil)) // the first report
	refused("an older report", store.ErrOvertaken, s.PutObserved(t.Context(), of("one", 4, false), row(4), nil))
	shows("after an older report", 5)
	must(t, s.PutObserved(t.Context(), of("one", 5, false), row(6), nil)) // more of the same report
	must(t, s.ReplaceObserved(t.Context(), of("one", 7, true), nil, []process.ID{{Namespace: "n", Name: "p"}}))
	shows("after an introduction", 6)
	refused("an older introduction", store.ErrOvertaken, s.ReplaceObserved(t.Context(), of("one", 3, true), nil, nil))
	shows("after an older introduction", 6)

	refused("another session", store.ErrOtherSession, s.PutObserved(t.Context(), of("two", 9, false), row(9), nil))
	must(t, s.ReplaceObserved(t.Context(), of("two", 1, true), row(10), nil))
	shows("after a new introduction", 10)
	refused("an introduction of an earlier session", store.ErrEarlierSession,
		s.ReplaceObserved(t.Context(), of("one", 100, true), nil, nil))
	shows("after an introduction of an earlier session", 10)
	session, err := s.LastSession(t.Context(), "x")
	same(t, "session", "two", session)
	must(t, err)
	if none, err := s.LastSession(t.Context(), "unheard of"); none != "" || err != nil {
		t.Errorf("the session of an agent that was never heard is %q, %v", none, err)
	}
	refused("what the last session said last", store.ErrOtherSession, s.PutObserved(t.Context(), of("one", 99, false),
		row(99), nil))
	shows("at the end", 10)
	other := of("one", 1, false)
	other.Agent = "y"
	// the numbers of each agent are independent
	must(t,
		s.PutObserved(t.Context(), other, nil,
			[]store.Removal{{Agent: "y", Process: process.ID{Namespace: "n", Name: "p"}}}))
	// an agent without numbers
	must(t, s.PutObserved(t.Context(), store.ReportMark{Agent: "x"}, row(11), nil))
	shows("without a number", 11)
}
