//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// fullToken is a token with every field set.
func fullToken() store.JoinToken {
	return store.JoinToken{
		ID: "b", Hash: "hash", Role: store.RoleProxy, Cloud: 3, Labels: map[string]string{"role": `w"e'b`, "x": ""},
		Business: 7, Note: "for tests", Uses: 2, Used: 1,
		Created: epoch, Expires: at(time.Hour), Revoked: at(time.Minute),
	}
}

func joinTokens(t *testing.T, s store.Store) {
	bare := store.JoinToken{ID: "a", Uses: 1, Created: epoch, Expires: at(time.Hour)}
	must(t, s.CreateJoinToken(t.Context(), bare))
	must(t, s.CreateJoinToken(t.Context(), fullToken()))
	if err := s.CreateJoinToken(t.Context(), store.JoinToken{ID: "b", Expires: at(time.Hour)}); !errors.Is(err,
		store.ErrExists) {
		t.Errorf("a taken id: %v", err)
	}
	got, err := s.GetJoinToken(t.Context(), "b")
	must(t, err)
	same(t, "token", fullToken(), got)
	if _, err := s.GetJoinToken(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown token: %v", err)
	}
	for _, c := range []struct {
		before string
		limit  int
		want   []store.JoinToken
	}{
		{"", 10, []store.JoinToken{fullToken(), bare}},
		{"", 1, []store.JoinToken{fullToken()}},
		{"b", 10, []store.JoinToken{bare}},
		{"a", 10, nil},
		{"", 0, nil},
	} {
		list, err := s.ListJoinTokens(t.Context(), c.before, c.limit)
		must(t, err)
		same(t, fmt.Sprintf("%d before %q", c.limit, c.before), c.want, list)
	}

	revoked, err := s.RevokeJoinToken(t.Context(), "a", at(time.Second))
	must(t, err)
	bare.Revoked = at(time.Second)
	same(t, "revoked", bare, revoked)
	revoked, err = s.RevokeJoinToken(t.Context(), "a", at(time.Minute))
	must(t, err)
	same(t, "revoked twice", bare, revoked)
	if _, err := s.RevokeJoinToken(t.Context(), "none", epoch); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown token revoked: %v", err)
	}

	must(t, s.CreateJoinToken(t.Context(), store.JoinToken{
		ID: "c", Created: at(time.Hour + store.KeepJoinTokens),
		Expires: at(2 * store.KeepJoinTokens),
	}))
	list, err := s.ListJoinTokens(t.Context(), "", 10)
	must(t, err)
	if len(list) != 3 {
		t.Errorf("%d tokens are left at the end of the time for which they are kept, want 3", len(list))
	}
	must(t, s.CreateJoinToken(t.Context(), store.JoinToken{
		ID: "d", Created: at(time.Hour + store.KeepJoinTokens + 1),
		Expires: at(2 * store.KeepJoinTokens),
	}))
	list, err = s.ListJoinTokens(t.Context(), "", 10)
	must(t, err)
	if len(list) != 2 || list[0].ID != "d" || list[1].ID != "c" {
		t.Errorf("left are %+v, want d and c", list)
	}
}

func joinTokensUsed(t *testing.T, s store.Store) {
	must(t, s.CreateJoinToken(t.Context(), store.JoinToken{ID: "a", Uses: 9, Created: epoch, Expires: at(time.Hour)}))
	var seen []string
	use := func(key string, refusal error) error {
		a := store.Agent{
			Key: key, Cloud: 3, IP: "10.0.0." + key, Created: epoch, Token: "a",
			Labels: map[string]string{"role": "web"}, Business: 7,
		}
		return s.UseJoinToken(t.Context(), a, func(token store.JoinToken, again bool) error {
			seen = append(seen, fmt.Sprintf("%s %d %v", key, token.Used, again))
			return refusal
		})
	}
	no := errors.New("no")
	if err := use("1", no); !errors.Is(err, no) {
		t.Errorf("the refusal became %v", err)
	}
	must(t, use("1", nil))
	must(t, use("1", nil)) // the answer was lost
	must(t, use("2", nil))
	same(t, "what was checked", []string{"1 0 false", "1 0 false", "1 1 true", "2 1 false"}, seen)
	for _, other := range []store.Agent{{IP: "10.0.0.9"}, {IP: "10.0.0.1", ID: "x"}} {
		other.Key, other.Cloud, other.Token = "1", 3, "a"
		err := s.UseJoinToken(t.Context(), other, func(_ store.JoinToken, again bool) error {
			if again {
				t.Errorf("%+v has not joined before", other)
			}
			return no
		})
		if !errors.Is(err, no) {
			t.Error(err)
		}
	}
	token, err := s.GetJoinToken(t.Context(), "a")
	must(t, err)
	if token.Used != 2 {
		t.Errorf("used %d times, want 2", token.Used)
	}
	list, err := s.ListAgents(t.Context())
	must(t, err)
	agent := store.Agent{
		Key: "1", Cloud: 3, IP: "10.0.0.1", Created: epoch, Token: "a",
		Labels: map[string]string{"role": "web"}, Business: 7,
	}
	second := agent
	second.Key, second.IP = "2", "10.0.0.2"
	same(t, "agents", []store.Agent{agent, second}, list)
	err = s.UseJoinToken(t.Context(), store.Agent{Key: "3", Token: "none"}, func(store.JoinToken, bool) error {
		return nil
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown token: %v", err)
	}
}

// joinTokensRaced lets more agents join at the same time than the token has uses.
func joinTokensRaced(t *testing.T, s store.Store) {
	must(t, s.CreateJoinToken(t.Context(), store.JoinToken{ID: "a", Uses: 3, Created: epoch, Expires: at(time.Hour)}))
	spent := errors.New("spent")
	var joined atomic.Int32
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			a := store.Agent{Key: fmt.Sprint(i), IP: fmt.Sprintf("10.0.0.%d", i), Token: "a"}
			err := s.UseJoinToken(t.Context(), a, func(token store.JoinToken, _ bool) error {
				if token.Used >= token.Uses {
					return spent
				}
				return nil
			})
			if err == nil {
				joined.Add(1)
			} else if !errors.Is(err, spent) {
				t.Errorf("agent %d: %v", i, err)
			}
		})
	}
	all.Wait()
	list, err := s.ListAgents(t.Context())
	must(t, err)
	if joined.Load() != 3 || len(list) != 3 {
		t.Errorf("%d joined, %d are stored, want 3", joined.Load(), len(list))
	}
}

func agentsRemoved(t *testing.T, s store.Store) {
	if err := s.RemoveAgent(t.Context(), "x", epoch, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown agent removed: %v", err)
	}
	for i, key := range []string{"x", "y"} {
		must(t, s.PutAgent(t.Context(), store.Agent{
			Key: key, IP: fmt.Sprintf("10.0.0.%d", i), ID: map[string]string{"x": "web"}[key], Created: epoch,
			Labels: map[string]string{"role": "web"},
		}))
	}
	must(t, s.LabelAgents(t.Context(), []string{"x"}, func(store.Agent) (map[string]*string, error) {
		return map[string]*string{"rack": nil}, nil
	}))
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{
		observed("x", "ns", "a", 1),
		observed("y", "ns", "a", 2),
	}, nil))
	must(t, s.PutGroups(t.Context(), []store.GroupHost{{Agent: "x", Namespace: "ns"}, {Agent: "y", Namespace: "ns"}},
		[]process.Group{{ID: "g"}}))
	member := store.Upkeep{Process: process.ID{Namespace: "ns", Name: "a"}, Agent: "x", Serial: 1}
	must(t, s.PutUpkeep(t.Context(), []store.Upkeep{member}))
	last := event("removal", 7, 0, process.EventHostRemoved, "")
	must(t, s.RemoveAgent(t.Context(), "x", epoch, []store.NewEvent{{Event: last, Body: "{}"}}))
	told, _, err := s.EventsAfter(t.Context(), 0, store.EventFilter{Kinds: []process.EventKind{last.Kind}}, 10)
	must(t, err)
	if len(told) != 1 || told[0].Agent != "x" {
		t.Errorf("the last events of the removed agent are %+v", told)
	}
	must(t, s.PutUpkeep(t.Context(), []store.Upkeep{member})) // as for a new host: nothing is remembered of the former
	list, err := s.ListAgents(t.Context())
	must(t, err)
	if len(list) != 1 || list[0].Key != "y" {
		t.Errorf("agents are %+v", list)
	}
	same(t, "observed", []store.Observed{observed("y", "ns", "a", 2)}, get(t, s, "x", "y"))
	for key, want := range map[string]int{"x": 0, "y": 1} {
		groups, err := s.AgentGroups(t.Context(), key)
		must(t, err)
		if len(groups) != want {
			t.Errorf("%s has groups %v", key, groups)
		}
	}
	removed, err := s.ListRemoved(t.Context())
	must(t, err)
	same(t, "removed", []string{"x"}, removed)
	former, err := s.ListFormer(t.Context(), 10)
	must(t, err)
	same(t, "former", []store.FormerAgent{{
		Agent: store.Agent{
			Key: "x", IP: "10.0.0.0", ID: "web", Created: epoch, Labels: map[string]string{"role": "web"},
			SetLabels: map[string]*string{"rack": nil},
		}, Removed: epoch,
	}}, former)
	must(t, s.PutAgent(t.Context(), store.Agent{Key: "z", IP: "10.0.0.3", Created: epoch}))
	must(t, s.RemoveAgent(t.Context(), "z", at(time.Hour), nil))
	former, err = s.ListFormer(t.Context(), 1)
	must(t, err)
	same(t, "the latest", "z", former[0].Key)

	must(t, s.CreateJoinToken(t.Context(), store.JoinToken{ID: "a", Uses: 1, Created: epoch, Expires: at(time.Hour)}))
	must(t, s.UseJoinToken(t.Context(), store.Agent{Key: "x", IP: "10.0.0.9", Token: "a"},
		func(store.JoinToken, bool) error { return nil }))
	removed, err = s.ListRemoved(t.Context())
	must(t, err)
	same(t, "removed, after it has joined again", []string{"z"}, removed)
	for _, tt := range []struct{ from, to, want int }{{-2, -1, 0}, {-1, 0, 1}, {0, 1, 0}} {
		stays, err := s.StaysBetween(t.Context(), at(time.Duration(tt.from)), at(time.Duration(tt.to)), 10)
		must(t, err)
		if len(stays) != tt.want || tt.want > 0 && stays[0] != (store.Stay{Agent: "x", Joined: epoch, Removed: epoch}) {
			t.Errorf("between %d and %d ns there are the stays %+v", tt.from, tt.to, stays)
		}
	}
	// x has joined again under another address; n gets an id, and then joins again under another address.
	must(t, s.CreateJoinToken(t.Context(), store.JoinToken{ID: "b", Uses: 9, Created: epoch, Expires: at(time.Hour)}))
	n := store.Agent{Key: "n", IP: "10.0.0.5", Token: "b", Created: at(time.Minute)}
	join := func() {
		t.Helper()
		must(t, s.UseJoinToken(t.Context(), n, func(store.JoinToken, bool) error { return nil }))
	}
	join()
	n.Assigned = "db-1"
	for range 2 {
		must(t, s.ChangeAgent(t.Context(), n, at(2*time.Minute)))
	}
	n.IP, n.Created = "10.0.0.6", at(3*time.Minute)
	join()
	names, err := s.FormerNames(t.Context(), 10)
	must(t, err)
	same(t, "earlier names", []store.FormerName{
		{Agent: store.Agent{Key: "n", IP: "10.0.0.5", Assigned: "db-1"}, Until: at(3 * time.Minute)},
		{Agent: store.Agent{Key: "n", IP: "10.0.0.5"}, Until: at(2 * time.Minute)},
		{Agent: store.Agent{Key: "x", IP: "10.0.0.0", ID: "web"}},
	}, names)
	names, err = s.FormerNames(t.Context(), 1)
	must(t, err)
	same(t, "the latest name", 1, len(names))
	for range 2 {
		_, err = s.PruneEvents(t.Context(), epoch.Add(time.Hour), 10)
		must(t, err)
	}
	names, err = s.FormerNames(t.Context(), 10)
	must(t, err)
	same(t, "earlier names that are too old", 0, len(names))
	stays, err := s.StaysBetween(t.Context(), at(-time.Hour), at(time.Hour), 10)
	must(t, err)
	same(t, "stays that are too old", 0, len(stays))
}

// agentsReplaced: an agent that replaces another gets its confirmed records, process groups and events. The other agent
// is removed; third agents keep theirs.
func agentsReplaced(t *testing.T, s store.Store) {
	for i, key := range []string{"x", "y"} {
		must(t, s.PutAgent(t.Context(), store.Agent{
			Key: key, IP: fmt.Sprintf("10.0.0.%d", i), Created: epoch,
			Name: "host-" + key, Place: "here",
		}))
	}
	web := "web"
	must(t, s.LabelAgents(t.Context(), []string{"x"}, func(store.Agent) (map[string]*string, error) {
		return map[string]*string{"role": &web, "zone": nil}, nil
	}))
	a, other := told("x", "a", 3, true), told("y", "a", 4, true)
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{a, other}, nil))
	must(t, s.PutGroups(t.Context(), []store.GroupHost{{Agent: "x", Namespace: "ns"}}, []process.Group{{ID: "g"}}))
	for _, agent := range []string{"x", "y"} {
		_, err := s.PutEvents(t.Context(), agent, epoch, NewEvents(event("s", 1, 1, process.EventStarted, "a")))
		must(t, err)
	}
	must(t, s.CreateJoinToken(t.Context(), store.JoinToken{ID: "a", Uses: 2, Created: epoch, Expires: at(time.Hour)}))
	free := func(store.JoinToken, bool) error { return nil }
	must(t, s.UseJoinToken(t.Context(), store.Agent{
		Key: "z", IP: "10.0.0.0", Token: "a", Name: "host-x",
		Created: at(time.Minute), Replaces: "x",
	}, free))

	same(t, "confirmed by the new one", []store.Confirmed{confirmedBy(a)}, allConfirmed(t, s, "z"))
	same(t, "confirmed by the old one", []store.Confirmed{}, append([]store.Confirmed{}, allConfirmed(t, s, "x")...))
	same(t, "confirmed by another", []store.Confirmed{confirmedBy(other)}, allConfirmed(t, s, "y"))
	same(t, "observed", []store.Observed{other}, get(t, s, "x", "y", "z"))
	groups, err := s.AgentGroups(t.Context(), "z")
	must(t, err)
	if len(groups) != 1 {
		t.Errorf("the new one has groups %v", groups)
	}
	list, err := s.ListAgents(t.Context())
	must(t, err)
	if len(list) != 2 || list[0].Key != "z" || list[0].Name != "host-x" || list[1].Place != "here" {
		t.Errorf("agents are %+v", list)
	}
	same(t, "labels of people", map[string]*string{"role": &web, "zone": nil}, list[0].SetLabels)
	removed, err := s.ListRemoved(t.Context())
	must(t, err)
	same(t, "removed", []string{"x"}, removed)
	hosts := map[string]int{}
	for _, e := range upwards(t, s, store.EventFilter{}, 5) {
		hosts[e.Agent]++
	}
	same(t, "events", map[string]int{"z": 1, "y": 1}, hosts)
	again, err := s.PutEvents(t.Context(), "z", epoch, NewEvents(event("s", 1, 1, process.EventStarted, "a")))
	must(t, err)
	if again != 0 {
		t.Error("an event that the old one has told is new when the new one tells it")
	}
	err = s.UseJoinToken(t.Context(), store.Agent{Key: "w", IP: "10.0.0.5", Token: "a", Created: epoch, Replaces: "x"},
		free)
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("one that is gone is replaced: %v", err)
	}
	if token, err := s.GetJoinToken(t.Context(), "a"); err != nil || token.Used != 1 {
		t.Errorf("the token is %+v, %v", token, err)
	}
}
