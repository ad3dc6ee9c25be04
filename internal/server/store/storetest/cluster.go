package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/task"
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
		for i := range got {
			if got[i].Beat.IsZero() {
				t.Errorf("it is not told when %s was there last", got[i].ID)
			}
			got[i].Beat = time.Time{}
		}
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
	all, err := s.ListServers(t.Context())
	must(t, err)
	if len(all) != 2 || all[0].ID != "b" || all[0].Beat.IsZero() {
		t.Errorf("the servers that ran are %+v", all)
	}
	beat(time.Minute, a, a)
}

// hubs are shared by all servers, and forgotten when no server has had them for long.
func hubs(t *testing.T, s store.Store) {
	share := func(within time.Duration, own []string, want ...string) {
		t.Helper()
		got, err := s.ShareHubs(t.Context(), own, within)
		must(t, err)
		same(t, "hubs", want, got)
	}
	share(time.Hour, []string{"b:7352", "c:7352"}, "b:7352", "c:7352")
	share(time.Hour, []string{"a:7352"}, "a:7352", "b:7352", "c:7352")
	share(time.Hour, []string{"b:7352"}, "a:7352", "b:7352", "c:7352")
	share(time.Hour, nil, "a:7352", "b:7352", "c:7352")
	share(-time.Second, []string{"b:7352"})
	share(time.Hour, []string{"d:7352"}, "b:7352", "d:7352")
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
	must(t, s.ChangeAgent(t.Context(), a, epoch))
	got, err := s.GetAgents(t.Context(), []string{"a", "none"})
	must(t, err)
	same(t, "changed", []store.Agent{a}, got)
	all, err := s.GetAgents(t.Context(), []string{"b", "a"})
	must(t, err)
	if len(all) != 2 {
		t.Errorf("got %v", all)
	}
	must(t, s.RemoveAgent(t.Context(), "a", at(time.Hour), nil))
	if err := s.ChangeAgent(t.Context(), a, epoch); !errors.Is(err, store.ErrNotFound) {
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
	must(t, replaced(s.ReplaceObserved(t.Context(), of("one", 7, true), nil, []process.ID{{Namespace: "n", Name: "p"}})))
	shows("after an introduction", 6)
	refused("an older introduction", store.ErrOvertaken, replaced(s.ReplaceObserved(t.Context(), of("one", 3, true), nil, nil)))
	shows("after an older introduction", 6)

	refused("another session", store.ErrOtherSession, s.PutObserved(t.Context(), of("two", 9, false), row(9), nil))
	must(t, replaced(s.ReplaceObserved(t.Context(), of("two", 1, true), row(10), nil)))
	shows("after a new introduction", 10)
	refused("an introduction of an earlier session", store.ErrEarlierSession,
		replaced(s.ReplaceObserved(t.Context(), of("one", 100, true), nil, nil)))
	shows("after an introduction of an earlier session", 10)
	session, err := s.LastSession(t.Context(), "x")
	same(t, "session", "two", session)
	must(t, err)
	if none, err := s.LastSession(t.Context(), "unheard of"); none != "" || err != nil {
		t.Errorf("the session of an agent that was never heard is %q, %v", none, err)
	}
	knows := func(what string, number, told int64, want bool) {
		t.Helper()
		from := of("two", number, true)
		from.LastStates = told
		known, err := s.ReplaceObserved(t.Context(), from, nil, []process.ID{{Namespace: "n", Name: "p"}})
		if known != want || err != nil {
			t.Errorf("%s: known is %v, %v, want %v", what, known, err, want)
		}
	}
	must(t, s.PutObserved(t.Context(), of("two", 2, false), row(11), nil))
	knows("an introduction that has told nothing", 3, 0, false)
	knows("an introduction after the last states", 4, 2, true)
	knows("another after the same", 5, 2, true)
	must(t, s.PutObserved(t.Context(), of("two", 6, false), row(10), nil))
	knows("an introduction that lacks an answer", 7, 2, false)
	knows("an introduction of states that the store has lost", 9, 8, false)
	session3 := of("two3", 2, true)
	session3.LastStates = 1
	known, err := s.ReplaceObserved(t.Context(), session3, nil, []process.ID{{Namespace: "n", Name: "p"}})
	if known || err != nil {
		t.Errorf("an introduction of a new session is known: %v", err)
	}
	session3.Number = 3 // the answer to the one before was lost
	if known, err := s.ReplaceObserved(t.Context(), session3, nil, []process.ID{{Namespace: "n", Name: "p"}}); known ||
		err != nil {
		t.Errorf("a repeated introduction of a new session is known: %v", err)
	}
	must(t, s.PutObserved(t.Context(), of("two3", 4, false), row(10), nil))
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

// reportsAtOnce stores the reports of many agents that come at the same time. A report that is not in its turn fails,
// and only that one.
func reportsAtOnce(t *testing.T, s store.Store) {
	const agents, rounds, processes = 40, 5, 3
	name := func(n int) string { return fmt.Sprintf("agent-%02d", n) }
	bad := func(n, round int) bool { return n%10 == 7 && round%2 == 1 }
	var many []string
	for n := range agents {
		many = append(many, name(n))
	}
	create(t, s, "t", request(process.Start, "a", many...))
	items := map[string]string{}
	for _, it := range lease(t, s, epoch, agents) {
		items[it.Agent] = it.ID
	}
	report := func(n, round int) {
		agent := name(n)
		mark := store.ReportMark{Agent: agent, Session: "one", Number: int64(round + 1), Hello: round == 0}
		if bad(n, round) {
			mark.Session = "another"
		}
		rows := []store.Observed{observed(agent, "ns", "a", -1)} // the later row of a process counts
		for p := range processes {
			o := observed(agent, "ns", string(rune('a'+p)), 100*round+p)
			o.Status.Revision = uint64(round + 1)
			rows = append(rows, o)
		}
		if err := s.PutObserved(t.Context(), mark, rows, nil); bad(n, round) != errors.Is(err, store.ErrOtherSession) ||
			!bad(n, round) && err != nil {
			t.Errorf("%s, round %d: %v", agent, round, err)
		}
		stream := "run of " + agent
		told := NewEvents(event(stream, uint64(2*round+1), round, process.EventExited, "ns/a"),
			recorded(stream, uint64(2*round+2), 1000*round, "ns/a", running(round+1)))
		for again := range 2 { // the second time they are known
			stored, err := s.PutEvents(t.Context(), agent, at(time.Duration(n)*time.Second), told)
			if want := len(told) * (1 - again); err != nil || stored != want {
				t.Errorf("%s, round %d: %d events were new, want %d: %v", agent, round, stored, want, err)
			}
		}
		deadline := at(time.Duration(n+1) * time.Minute)
		if err := s.Begin(t.Context(), agent, map[string]time.Time{items[agent]: deadline}); err != nil {
			t.Errorf("%s, round %d: %v", agent, round, err)
		}
	}
	for round := range rounds {
		var reports sync.WaitGroup
		for n := range agents {
			reports.Go(func() { report(n, round) })
		}
		reports.Wait()
	}
	for n := range agents {
		last := rounds - 1
		for bad(n, last) {
			last--
		}
		same(t, name(n), []int{100 * last}, pids(get(t, s, name(n))))
		confirmed, err := s.AgentConfirmed(t.Context(), name(n))
		must(t, err)
		if len(confirmed) != processes || confirmed[0].Revision != uint64(last+1) {
			t.Errorf("%s has confirmed %+v", name(n), confirmed)
		}
		told, _, err := s.EventsBefore(t.Context(), store.EventMark{}, store.EventFilter{Agents: []string{name(n)}}, 100)
		must(t, err)
		if len(told) != rounds || !told[0].Received.Equal(at(time.Duration(n)*time.Second)) {
			t.Errorf("%s has %d events: %+v", name(n), len(told), told)
		}
		open, err := s.Unfinished(t.Context(), name(n))
		must(t, err)
		if len(open) != 1 || open[0].State != task.Begun || !open[0].Deadline.Equal(at(time.Duration(n+1)*time.Minute)) {
			t.Errorf("%s executes %+v", name(n), open)
		}
	}
}

func pids(rows []store.Observed) []int {
	all := []int{}
	for i := range rows {
		all = append(all, rows[i].Status.Instance.PID)
	}
	return all
}

// ReportLife measures the reports of agents, many at the same time: each tells a state, an event and a record of a
// state. together is the number of concurrent reports for each processor.
func ReportLife(b *testing.B, s store.Store, together int) {
	b.Helper()
	var number atomic.Int64
	cpu := func() time.Duration {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := cpu()
	b.SetParallelism(together)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		agent := fmt.Sprintf("UA%054d", number.Add(1))
		for n := 1; pb.Next(); n++ {
			o := observed(agent, "ns", "a", n)
			if n > 1 {
				o.Spec = nil
			}
			mark := store.ReportMark{Agent: agent, Session: "one", Number: int64(n), Hello: n == 1}
			must(b, s.PutObserved(b.Context(), mark, []store.Observed{o}, nil))
			_, err := s.PutEvents(b.Context(), agent, time.Now(), NewEvents(
				event("run", uint64(2*n-1), n, process.EventExited, "ns/a"),
				recorded("run", uint64(2*n), 1000*n, "ns/a", running(n))))
			must(b, err)
		}
	})
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
}

// revisionsOfIncarnations: numbers of a further incarnation are above its first one, and pruning counts revisions, not
// their numbers.
func revisionsOfIncarnations(t *testing.T, s store.Store) {
	must(t, s.PutAgent(t.Context(), store.Agent{Key: "x", IP: "10.0.0.1"}))
	begin := func(began ...int64) {
		t.Helper()
		var all []store.Incarnation
		for n, at := range began {
			all = append(all, store.Incarnation{ID: fmt.Sprint(n), Origin: "o", Began: at})
		}
		must(t, s.SetFact(t.Context(), store.FactIncarnations, store.EncodeIncarnations(all)))
	}
	made := 0
	revise := func() {
		t.Helper()
		made++
		createAt(t, s, fmt.Sprint(made), at(time.Duration(made)*time.Hour), asked(process.Start, "a", fmt.Sprint(made), "x"))
	}
	begin(0)
	revise()
	revise()
	begin(0, 5_000_123)
	revise()
	revise()
	begin(0, 5_000_123, 5_001_000) // the time of the numbers that were given out before
	revise()
	begin(0, 5_000_123, 5_001_000, 900_000_000_000)
	revise()
	must(t, s.PutSelections(t.Context(), store.SelectionChange{Namespace: "ns"}, store.Revision{At: at(7 * time.Hour)},
		nil, store.AuditRow{At: epoch, Action: "apply"}))
	want := []string{
		"1; a >1 1", "2; a 1>2 1", "5001; a 2>3 1", "5002; a 3>4 1", "5003; a 4>5 1", "900000001; a 5>6 1", "900000002",
	}
	same(t, "numbers", want, revisionsOf(t, s, store.RevisionFilter{Namespace: "ns"}))
	n, err := s.PruneRevisions(t.Context(), at(1000*time.Hour), 1000)
	must(t, err)
	same(t, "pruned of a few revisions", 0, n)
	for made < store.KeptRevisions+10 {
		revise()
	}
	before := len(revisionsOfMany(t, s))
	n, err = s.PruneRevisions(t.Context(), at(1000*time.Hour), 1000)
	must(t, err)
	same(t, "pruned", before-store.KeptRevisions, n)
	same(t, "kept", store.KeptRevisions, len(revisionsOfMany(t, s)))
}

// revisionsOfMany returns the revisions of the namespace.
func revisionsOfMany(t *testing.T, s store.Store) []store.Revision {
	t.Helper()
	rows, _, err := s.ListRevisions(t.Context(), store.RevisionFilter{Namespace: "ns"}, 2*store.KeptRevisions)
	must(t, err)
	return rows
}

// tellingAnew: what a database knows of what agents have told: the incarnation to which each has told all, the last
// events of each, and that it has lost the report before.
func tellingAnew(t *testing.T, s store.Store) {
	origin, run, err := s.Origin(t.Context())
	must(t, err)
	if again, rerun, err := s.Origin(t.Context()); err != nil || again != origin || rerun != run || origin == "" {
		t.Errorf("the origin is %q %q, and then %q %q, %v", origin, run, again, rerun, err)
	}
	told := func(what, want string) {
		t.Helper()
		got, err := s.GetAgents(t.Context(), []string{"x"})
		must(t, err)
		same(t, what, want, got[0].SyncedIncarnation)
	}
	a := store.Agent{Key: "x", IP: "10.0.0.1", SyncedIncarnation: "one"}
	must(t, s.PutAgent(t.Context(), a))
	told("a new agent", "one")
	must(t, s.SetSyncedIncarnation(t.Context(), "x", "two"))
	must(t, s.PutAgent(t.Context(), a))
	must(t, s.ChangeAgent(t.Context(), a, epoch))
	told("a known agent that joins again", "two")
	if err := s.SetSyncedIncarnation(t.Context(), "nobody", "two"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown agent: %v", err)
	}

	lasts := func(what string, runs int, want map[string]uint64) {
		t.Helper()
		got, err := s.LastEvents(t.Context(), "x", runs)
		must(t, err)
		same(t, what, want, got)
	}
	lasts("an agent without events", 2, map[string]uint64{})
	for n, stream := range []string{"p", "q", "r"} {
		began := event(stream, 1, n, process.EventState, "ns/web")
		began.Shown = &process.Shown{}
		putEvents(t, s, "x", 3, began, event(stream, 2, 9-n, process.EventExited, "ns/web"),
			event(stream, 5, 9, process.EventExited, "ns/web"))
	}
	for _, to := range []int64{5_000, 4_000} {
		must(t, s.SkipCursors(t.Context(), to))
	}
	putEvents(t, s, "x", 1, event("of servers", 1, 99, process.EventExited, "ns/web"))
	if found := upwards(t, s, store.EventFilter{}, 3); len(found) != 7 || found[5].Cursor > 6 || found[6].Cursor != 5_001 {
		t.Errorf("the last of the events is not the first one beyond cursor 5,000: %+v", found)
	}
	lasts("two runs", 2, map[string]uint64{"q": 5, "r": 5})
	lasts("all runs", 9, map[string]uint64{"p": 5, "q": 5, "r": 5})

	mark := store.ReportMark{Agent: "x", Session: "one", Number: 4}
	rows := []store.Observed{{Agent: "x", Process: process.ID{Namespace: "n", Name: "p"}}}
	must(t, s.PutObserved(t.Context(), mark, rows, nil))
	mark.Number, mark.LastStates = 6, 4
	must(t, s.PutObserved(t.Context(), mark, rows, nil))
	mark.Number, mark.LastStates = 9, 8
	if err := s.PutObserved(t.Context(), mark, rows, nil); !errors.Is(err, store.ErrOtherSession) {
		t.Errorf("a report after one that the store has lost: %v", err)
	}
}
