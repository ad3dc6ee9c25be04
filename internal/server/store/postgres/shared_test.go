package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/server/store/storetest"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/postgres"
)

// pair opens one database as two servers would.
func pair(t *testing.T) []*postgres.DB {
	t.Helper()
	url := fresh()(t)
	return []*postgres.DB{open(t, url), open(t, url)}
}

func taskFor(id, name string, agents ...string) *store.Task {
	r := store.Request{Op: process.Start, Process: process.ID{Namespace: "ns", Name: name}, Spec: &process.Spec{}}
	for _, a := range agents {
		r.Targets = append(r.Targets, store.Target{ItemKey: a + ":" + name, Spelling: a, Agent: a})
	}
	return &store.Task{ID: id, App: "app", Created: time.Now(), Requests: []store.Request{r}}
}

// TestTwoServersNeverLeaseTheSameItem lets several loops of two servers lease what is due, until nothing is.
func TestTwoServersNeverLeaseTheSameItem(t *testing.T) {
	dbs := pair(t)
	const items = 400
	var agents []string
	for i := range items {
		agents = append(agents, fmt.Sprint("agent", i))
	}
	if err := storetest.Create(t.Context(), dbs[0], taskFor("t", "p", agents...), store.AuditRow{}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	leased := map[string]int{}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for {
				list, err := dbs[i%2].LeaseItems(t.Context(), time.Now(), time.Now().Add(time.Hour), 7)
				if err != nil {
					t.Error(err)
				}
				if len(list) == 0 {
					return // those that others hold just now are theirs
				}
				mu.Lock()
				for _, it := range list {
					leased[it.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range leased {
		if n != 1 {
			t.Errorf("%s was leased %d times", id, n)
		}
	}
	if len(leased) != items {
		t.Errorf("%d items were leased, want %d", len(leased), items)
	}
}

// TestRevisionsOfTwoServers: two servers never give the same number to two revisions of a namespace.
func TestRevisionsOfTwoServers(t *testing.T) {
	dbs := pair(t)
	storetest.RevisionsAtOnce(t, dbs[0], dbs[1])
}

// TestLanesOfTwoServers has both servers create, lease and finish items of the same few processes: no two items of a
// process are at work at the same time, and none waits for ever.
func TestLanesOfTwoServers(t *testing.T) {
	dbs := pair(t)
	const workers, each = 6, 25
	var open sync.Map // lane → item
	var done atomic.Int64
	var total atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	turn := func(db *postgres.DB) error {
		items, err := db.LeaseItems(ctx, time.Now(), time.Now().Add(time.Hour), 3)
		if err != nil {
			return err
		}
		for _, it := range items {
			lane := it.Agent + it.Process.Name
			if other, busy := open.LoadOrStore(lane, it.ID); busy {
				t.Errorf("%s is leased while %s of the same process is not done", it.ID, other)
			}
		}
		for _, it := range items {
			// From here on the next one may be leased.
			open.Delete(it.Agent + it.Process.Name)
			if _, err := db.Finish(ctx,
				storetest.Reported(it.Agent, map[string]process.Outcome{it.ID: {Text: process.Success}})); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w))) //nolint:gosec // to be repeated
			for i := range each {
				agents := []string{fmt.Sprint("a", random.IntN(3)), fmt.Sprint("a", 3+random.IntN(2))}
				if err := storetest.Create(ctx, dbs[w%2], taskFor(fmt.Sprintf("%d-%d", w, i), fmt.Sprint("p", random.IntN(2)),
					agents...), store.AuditRow{}); err != nil {
					t.Error(err)
					return
				}
				total.Add(int64(len(agents)))
				if err := turn(dbs[(w+i)%2]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for done.Load() < total.Load() {
		before := done.Load()
		if err := turn(dbs[0]); err != nil {
			t.Fatal(err)
		}
		if done.Load() == before {
			t.Fatalf("%d of %d items are done, and no other is due", before, total.Load())
		}
	}
}

// TestCursorsOfTwoServers reads while both write: a reader that goes on from the last cursor gets every event once.
func TestCursorsOfTwoServers(t *testing.T) {
	dbs := pair(t)
	const writers, batches, size = 6, 20, 3
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			agent := fmt.Sprint("a", w)
			for b := range batches {
				var events []process.Event
				for i := range size {
					events = append(events, process.Event{
						Stream: "s", Seq: uint64(b*size + i + 1), At: 1,
						Kind: process.EventExited,
					})
				}
				for _, db := range dbs[w%2:] { // some are told to both
					_, err := db.PutEvents(t.Context(), agent, time.Now(), storetest.NewEvents(events...))
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	written := make(chan struct{})
	go func() {
		wg.Wait()
		close(written)
	}()
	seen := map[string]int{}
	at := int64(0)
	for ended := false; ; {
		events, next, err := dbs[0].EventsAfter(t.Context(), at, store.EventFilter{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			seen[fmt.Sprint(e.Agent, e.Event.Seq)]++
		}
		if at = next; len(events) > 0 {
			continue
		}
		if ended {
			break
		}
		select {
		case <-written:
			ended = true
		default:
		}
	}
	for e, n := range seen {
		if n != 1 {
			t.Errorf("%s was read %d times", e, n)
		}
	}
	if len(seen) != writers*batches*size {
		t.Errorf("%d events were read, want %d", len(seen), writers*batches*size)
	}
	if last, err := dbs[1].LastCursor(t.Context()); err != nil || last != int64(writers*batches*size) {
		t.Errorf("the last cursor is %d, want one for each event; error %v", last, err)
	}
}

// TestEventsToldToTwoServersAtOnce: the agent had no answer from the one, and tells the other while the first still
// writes.
func TestEventsToldToTwoServersAtOnce(t *testing.T) {
	dbs := pair(t)
	for round := range 20 {
		events := storetest.NewEvents(process.Event{
			Stream: "s", Seq: uint64(round + 1), At: 1, Kind: process.EventExited,
		})
		var stored atomic.Int64
		var wg sync.WaitGroup
		for _, db := range dbs {
			wg.Go(func() {
				n, err := db.PutEvents(t.Context(), "a", time.Now(), events)
				if err != nil {
					t.Error(err)
				}
				stored.Add(int64(n))
			})
		}
		wg.Wait()
		if stored.Load() != 1 {
			t.Fatalf("an event was stored %d times", stored.Load())
		}
	}
}

// TestTokenOfTwoServers: the uses of a token are counted across servers.
func TestTokenOfTwoServers(t *testing.T) {
	dbs := pair(t)
	if err := dbs[0].CreateJoinToken(t.Context(), store.JoinToken{
		ID: "t", Uses: 5, Created: time.Now(),
		Expires: time.Now().Add(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	var let atomic.Int64
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			err := dbs[i%2].UseJoinToken(t.Context(), store.Agent{Key: fmt.Sprint(i), IP: fmt.Sprint(i), Token: "t"},
				func(t store.JoinToken, _ bool) error {
					if t.Used >= t.Uses {
						return store.ErrExists
					}
					return nil
				})
			if err == nil {
				let.Add(1)
			}
		})
	}
	wg.Wait()
	if let.Load() != 5 {
		t.Errorf("%d joined with a token for 5", let.Load())
	}
}

// TestFirstReportsToTwoServers: the agent has told the other server something later, which is not stored for good yet.
// It has no row until then.
func TestFirstReportsToTwoServers(t *testing.T) {
	url := fresh()(t)
	db, beside, look := open(t, url), connect(t, url), connect(t, url)
	other, err := beside.Begin(t.Context())
	if err == nil {
		_, err = other.Exec(t.Context(), "INSERT INTO agent_reports (agent, session, number) VALUES ('a', 's', 2)")
	}
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	go func() {
		row := store.Observed{Agent: "a", Process: process.ID{Namespace: "ns", Name: "p"}}
		told <- db.PutObserved(t.Context(), store.ReportMark{Agent: "a", Session: "s", Number: 1},
			[]store.Observed{row}, nil)
	}()
	for waits := false; !waits; {
		err := look.QueryRow(t.Context(),
			"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')").Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, store.ErrOvertaken) {
		t.Errorf("the earlier report: %v", err)
	}
}
