package breakerdriver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/breakerdriver"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/spec"
	"drover/internal/wire"
)

var web = process.ID{Namespace: "shop", Name: "web"}

// rig is a guard over a real database.
type rig struct {
	*sqlite.DB
	t     *testing.T
	guard *breakerdriver.Driver
	// left is how many writes succeed before one fails; negative if none fails.
	left int
	now  time.Time
	away map[string]bool
	// linked are the times at which agents introduced themselves.
	linked map[string]time.Time
	seq    map[string]uint64
	mu     sync.Mutex
	words  map[string][]string // by agent, since the last look
	woken  int
}

func newRig(t *testing.T, hosts int) *rig {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := &rig{
		DB: db, t: t, left: -1, now: time.Unix(1_800_000_000, 0), away: map[string]bool{}, linked: map[string]time.Time{},
		seq: map[string]uint64{}, words: map[string][]string{},
	}
	for i := range hosts {
		r.has(host(i), 7)
	}
	r.restart()
	return r
}

// frail is a store one of whose writes fails.
type frail struct {
	*sqlite.DB
	r *rig
}

func (s frail) write() error {
	if s.r.left--; s.r.left == -1 {
		return errors.New("the database is away")
	}
	return nil
}

func (s frail) OpenBreaker(ctx context.Context, b store.Breaker, instead time.Time) error {
	if err := s.write(); err != nil {
		return err
	}
	return s.DB.OpenBreaker(ctx, b, instead)
}

func (s frail) CloseBreaker(ctx context.Context, id process.ID, at time.Time, by string) (store.Breaker, error) {
	if err := s.write(); err != nil {
		return store.Breaker{}, err
	}
	return s.DB.CloseBreaker(ctx, id, at, by)
}

func (s frail) BreakerTold(ctx context.Context, id process.ID, opened time.Time) error {
	if err := s.write(); err != nil {
		return err
	}
	return s.DB.BreakerTold(ctx, id, opened)
}

func (s frail) PutEvents(ctx context.Context, agent string, at time.Time, events []store.NewEvent) (int, error) {
	if err := s.write(); err != nil {
		return 0, err
	}
	return s.DB.PutEvents(ctx, agent, at, events)
}

func host(i int) string { return fmt.Sprintf("H%02d", i) }

// has stores that a host keeps the process running, with a revision that has a spec of its own.
func (r *rig) has(agent string, revision int64) {
	r.t.Helper()
	r.release(agent, revision, fmt.Sprint("of revision ", revision))
}

// release stores that a host keeps the process running, with a revision and a spec.
func (r *rig) release(agent string, revision int64, version string) {
	r.t.Helper()
	r.must(r.PutObserved(r.t.Context(), store.ReportMark{}, []store.Observed{{
		Agent: agent, Process: web, Status: process.Status{Known: true, Hosted: true, State: process.StateRunning},
		Spec: &process.Spec{Revision: revision, Directory: version, Compat: &spec.Compat{}},
	}}, nil))
}

// restart replaces the guard, as the death of a server does.
func (r *rig) restart() {
	r.guard = breakerdriver.New(breakerdriver.Config{
		Store: frail{r.DB, r}, Presence: r, Tell: r.tell, Happened: func() { r.woken++ }, Now: func() time.Time { return r.now },
		Log: slog.New(slog.DiscardHandler),
	})
	r.must(r.guard.Seed(r.t.Context()))
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) Presence(key string, _ time.Time) fleet.Presence {
	return fleet.Presence{Joined: true, Away: r.away[key], Linked: r.linked[key]}
}

func (r *rig) tell(_ context.Context, agent string, words []wire.Withheld) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range words {
		r.words[agent] = append(r.words[agent], fmt.Sprint(w.Process, " ", w.Revision, " ", w.Seconds))
	}
	return nil
}

// fail has the process fail on a host now.
func (r *rig) fail(agent string, cause process.CauseID) {
	r.t.Helper()
	r.event(agent, process.EventExited, cause)
}

// update has a host get another revision now, with the event.
func (r *rig) update(agent string, revision int64) {
	r.t.Helper()
	r.has(agent, revision)
	r.event(agent, process.EventUpdated, "")
}

func (r *rig) event(agent string, kind process.EventKind, cause process.CauseID) {
	r.t.Helper()
	r.seq[agent]++
	e := process.Event{
		Stream: "s", Seq: r.seq[agent], At: r.now.UnixMilli(), Process: web, Kind: kind, To: process.StateStarting,
		Cause: process.Cause{ID: cause},
	}
	body := fmt.Sprintf(`{"stream":"s","seq":%d,"at":%d,"process":{"namespace":"shop","name":"web"},"kind":%q,`+
		`"to":"starting","cause":{"id":%q}}`, e.Seq, e.At, kind, cause)
	_, err := r.PutEvents(r.t.Context(), agent, r.now, []store.NewEvent{{Event: e, Body: body}})
	r.must(err)
}

// pass lets time pass, with a look of the guard at its end.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	r.now = r.now.Add(d)
	r.must(r.guard.Step(r.t.Context()))
}

// heard fails the test unless so many agents have heard exactly this word since the last look; empty for none.
func (r *rig) heard(agents int, word string) {
	r.t.Helper()
	if word == "" {
		agents = 0
	}
	for agent, words := range r.words {
		if len(words) != 1 || words[0] != word {
			r.t.Errorf("%s heard %q, want %q", agent, words, word)
		}
	}
	if len(r.words) != agents {
		r.t.Errorf("%d agents heard %q, want %d", len(r.words), word, agents)
	}
	clear(r.words)
}

// told fails the test unless these events about the breaker are stored, oldest first.
func (r *rig) told(want ...string) {
	r.t.Helper()
	events, _, err := r.EventsAfter(r.t.Context(), 0, store.EventFilter{
		Kinds: []process.EventKind{process.EventBreakerOpened, process.EventBreakerClosed},
	}, 100)
	r.must(err)
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprint(e.Event.Kind, " on ", e.Agent, ": ", e.Event.Cause.Text))
	}
	same := slices.EqualFunc(got, want, strings.Contains)
	if !same {
		r.t.Errorf("told %q, want %q", got, want)
	}
}

const (
	held = "shop/web 7 60"
	free = "shop/web 0 0"
)

// TestBreaker: it opens at more than 30 % of the hosts, is told once, reaches agents that return, and closes by itself.
func TestBreaker(t *testing.T) {
	r := newRig(t, 20)
	r.away[host(19)] = true
	for i := range 6 { // 30 %
		r.fail(host(i), process.CauseExitStatus)
		r.fail(host(i), process.CauseExitStatus)
	}
	r.fail(host(7), process.CauseCore)
	r.pass(time.Second)
	r.heard(0, "")
	r.fail(host(6), process.CauseExitStatus)
	r.pass(time.Second)
	r.heard(19, held)
	opened := "breaker-opened on H06: 7 of 20 hosts with the spec of revision 7 failed [exit-status]: drover withholds"
	r.told(opened)
	r.pass(time.Second)
	r.heard(0, "")
	r.away[host(19)], r.linked[host(19)] = false, r.now.Add(time.Millisecond)
	r.pass(time.Second)
	r.heard(1, held)
	r.pass(20 * time.Second)
	r.heard(20, held)
	r.release(host(20), 8, "of revision 7")
	r.event(host(20), process.EventStarted, "") // a host that comes to match gets the same spec
	r.pass(4 * time.Second)
	r.heard(1, "shop/web 8 60")
	r.must(r.PutObserved(t.Context(), store.ReportMark{}, nil, []store.Removal{{Agent: host(20), Process: web, Revision: 9}}))
	r.pass(20 * time.Second)
	r.heard(20, held)
	r.restart() // the server dies
	r.fail(host(8), process.CauseExitStatus)
	r.pass(time.Second)
	r.heard(20, held)
	r.told(opened)
	r.pass(5 * time.Minute)
	r.heard(20, free)
	closed := "breaker-closed on H06: the breaker was open for 5m0s"
	r.told(opened, closed)
	r.restart()
	r.pass(time.Second)
	r.heard(0, "")
	for i := range 7 {
		r.fail(host(i), process.CauseExitStatus)
	}
	r.pass(time.Second)
	r.heard(20, held)
	r.told(opened, closed, opened)
}

// TestFailuresApart: failures that are slow, of several causes or of several revisions open nothing.
func TestFailuresApart(t *testing.T) {
	r := newRig(t, 10)
	for i := range 10 {
		r.fail(host(i), process.CauseExitStatus)
		r.pass(15 * time.Second)
	}
	causes := []process.CauseID{process.CauseExitStatus, process.CauseCore, process.CauseOOM}
	r.pass(time.Hour)
	for i := range 10 {
		r.fail(host(i), causes[i%3])
	}
	r.pass(time.Second)
	r.pass(time.Hour)
	for i := range 10 {
		r.has(host(i), int64(i%3))
		r.fail(host(i), process.CauseExitStatus)
	}
	r.pass(time.Second)
	r.heard(0, "")
	r.told()
}

// TestBreakerIsReset: a person closes it, and only new failures open it again.
func TestBreakerIsReset(t *testing.T) {
	r := newRig(t, 10)
	for i := range 9 {
		r.fail(host(i), process.CauseExitStatus)
	}
	r.pass(time.Second)
	r.heard(10, held)
	r.now = r.now.Add(time.Second)
	_, err := r.CloseBreaker(t.Context(), web, r.now, "anna")
	r.must(err)
	r.pass(time.Second)
	r.heard(10, free)
	r.told("breaker-opened", "breaker-closed on H08: the breaker was reset by anna")
	r.pass(time.Second)
	r.heard(0, "")
	for i := range 9 {
		r.fail(host(i), process.CauseExitStatus)
	}
	r.pass(time.Second)
	r.heard(10, held)
}

// TestBatchesOfOneRelease: the batches of a rollout are revisions of their own, and have one breaker. Each agent hears its
// own revision. A host with the release before hears nothing that concerns it.
func TestBatchesOfOneRelease(t *testing.T) {
	r := newRig(t, 20)
	for i := range 18 {
		r.release(host(i), int64(10+i/3), "two")
	}
	for i := range 6 {
		r.fail(host(3*i), process.CauseExitStatus) // one host of each batch
	}
	r.pass(time.Second)
	r.told("breaker-opened on H15: 6 of 18 hosts with the spec of revision 15 failed")
	want := map[string][]string{}
	for i := range 20 {
		want[host(i)] = []string{fmt.Sprint("shop/web ", min(10+i/3, 15), " 60")}
	}
	if fmt.Sprint(r.words) != fmt.Sprint(want) {
		t.Errorf("the agents hear %v, want %v", r.words, want)
	}
	for i := range 3 {
		r.update(host(15+i), 30) // the last batch gets another release
	}
	r.pass(30 * time.Second)
	for i := range 15 {
		r.update(host(i), 31)
	}
	r.pass(30 * time.Second)
	r.told("breaker-opened", "breaker-closed on H15: no host has the spec of revision 15 any more")
}

// TestANewRevisionClosesTheBreaker: there is nothing to withhold once no host has the revision that failed.
func TestANewRevisionClosesTheBreaker(t *testing.T) {
	r := newRig(t, 10)
	for i := range 9 {
		r.fail(host(i), process.CauseExitStatus)
	}
	r.pass(time.Second)
	for i := range 9 {
		r.has(host(i), 8)
	}
	r.pass(30 * time.Second)
	r.told("breaker-opened")
	r.has(host(9), 8)
	r.pass(30 * time.Second)
	r.told("breaker-opened", "breaker-closed on H08: no host has the spec of revision 7 any more")
}

// TestAFewHostsHideNothing: failures of a revision that few hosts have, or that some agents invent, do not keep the breaker
// of the process from the revision that most hosts have.
func TestAFewHostsHideNothing(t *testing.T) {
	r := newRig(t, 20)
	for i := range 5 {
		r.has(host(i), 999)
		r.fail(host(i), process.CauseExitStatus)
	}
	r.pass(time.Second)
	r.heard(20, "shop/web 999 60")
	r.now = r.now.Add(time.Millisecond)
	for i := range 8 {
		r.fail(host(5+i), process.CauseExitStatus)
	}
	r.pass(time.Second)
	r.told("breaker-opened on H04: 5 of 5 hosts with the spec of revision 999 failed",
		"breaker-closed on H04: the spec of revision 7 fails on more hosts",
		"breaker-opened on H12: 8 of 15 hosts with the spec of revision 7 failed")
	for i := range 5 {
		r.fail(host(i), process.CauseExitStatus)
	}
	r.pass(time.Second)
	r.told("breaker-opened", "breaker-closed", "breaker-opened on H12")
	r.pass(5 * time.Minute)
	r.told("breaker-opened", "breaker-closed", "breaker-opened", "breaker-closed on H12: the breaker was open for 5m0s")
}

// TestDeathOfATakeover: whatever of a takeover fails, the next look finishes it, and each event is there once.
func TestDeathOfATakeover(t *testing.T) {
	failed := 0
	for n := 0; n == failed; n++ {
		r := newRig(t, 20)
		for i := range 5 {
			r.has(host(i), 999)
			r.fail(host(i), process.CauseExitStatus)
		}
		r.pass(time.Second)
		r.now = r.now.Add(time.Millisecond)
		for i := range 8 {
			r.fail(host(5+i), process.CauseExitStatus)
		}
		r.now = r.now.Add(time.Second)
		r.left = n
		if err := r.guard.Step(t.Context()); err != nil {
			failed++
		}
		r.left = -1
		r.restart()
		clear(r.words)
		r.pass(time.Second)
		r.heard(20, held)
		r.told("breaker-opened on H04", "breaker-closed on H04: the spec of revision 7 fails on more hosts", "breaker-opened on H12")
	}
	if failed < 3 {
		t.Errorf("a takeover has %d writes", failed)
	}
}

// TestARepairOpensNoBreaker: the last failures of the bad revision are not those of the good one that follows. Its own
// failures are.
func TestARepairOpensNoBreaker(t *testing.T) {
	for _, restart := range []bool{false, true} {
		const hosts = 10
		r := newRig(t, hosts)
		all := func(do func(agent string)) {
			for i := range hosts {
				do(host(i))
			}
		}
		all(func(agent string) { r.fail(agent, process.CauseExited) })
		r.pass(time.Second)
		all(func(agent string) { r.fail(agent, process.CauseExited) }) // relaunches that were under way
		r.pass(5 * time.Second)
		all(func(agent string) { r.update(agent, 8) })
		if restart {
			r.restart()
		}
		for range 30 {
			r.pass(time.Second)
		}
		r.told("10 of 10 hosts with the spec of revision 7 failed", "no host has the spec of revision 7 any more")
		all(func(agent string) { r.fail(agent, process.CauseExited) })
		r.pass(time.Second)
		r.told("10 of 10 hosts with the spec of revision 7 failed", "no host has the spec of revision 7 any more",
			"10 of 10 hosts with the spec of revision 8 failed")
	}
}
