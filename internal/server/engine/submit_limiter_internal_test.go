package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/task"
)

// ofItems is a task of n items.
func ofItems(n int) *store.Task {
	return &store.Task{Requests: []store.Request{{Targets: make([]store.Target, n)}}}
}

// entrance is a room for ten items with a store that has as many open ones as a test says.
type entrance struct {
	t    *testing.T
	room *submitLimiter
	open int
	now  time.Time
	err  error
	// hold, if set, is called while the items are counted.
	hold func(context.Context)
}

func newEntrance(t *testing.T) *entrance {
	e := &entrance{t: t, now: time.Unix(1e9, 0)}
	e.room = &submitLimiter{store: e, now: func() time.Time { return e.now }, limit: 10, counting: make(chan struct{}, 1)}
	return e
}

// OpenItems is what the store tells.
func (e *entrance) OpenItems(ctx context.Context) (int, error) {
	open := e.open
	if e.hold != nil {
		e.hold(ctx)
	}
	return open, e.err
}

// let expects that a task is let in.
func (e *entrance) let(n int) (stored func()) {
	e.t.Helper()
	stored, err := e.room.admit(e.t.Context(), ofItems(n))
	if err != nil {
		e.t.Fatalf("%d items: %v", n, err)
	}
	return stored
}

// store has a task let in and stored.
func (e *entrance) store(n int) {
	e.t.Helper()
	e.let(n)()
	e.open += n
}

// refuse expects that a task is refused for a while.
func (e *entrance) refuse(n, open int, retry time.Duration) {
	e.t.Helper()
	_, err := e.room.admit(e.t.Context(), ofItems(n))
	busy, ok := errors.AsType[*task.BusyError](err)
	if !ok || busy.Open != open || busy.Most != 10 || busy.Retry != retry {
		e.t.Errorf("%d items: %v, want %d open and %s", n, err, open, retry)
	}
}

// TestRoom: what goes beyond the bound is refused until enough has ended, which is looked for once a second.
func TestSubmitLimiter(t *testing.T) {
	e := newEntrance(t)
	e.store(5)
	e.store(4)
	e.refuse(2, 9, busyRetry)
	e.store(1)
	e.open = 3
	e.refuse(1, 10, busyRetry) // it was counted a moment ago
	e.now = e.now.Add(countEvery)
	e.store(5)
	e.refuse(3, 8, busyRetry)
}

// TestSubmitLimiterCountsInflight: tasks that are all being stored at the same time fill the memory, not the store.
func TestSubmitLimiterCountsInflight(t *testing.T) {
	e := newEntrance(t)
	first := e.let(3)
	second := e.let(2)
	e.refuse(1, 5, countEvery)
	first()
	first()
	third := e.let(3)
	e.refuse(1, 8, countEvery)
	second()
	third()
}

// TestSubmitLimiterAdmitsOne: a task that is larger than the room is not refused for ever.
func TestSubmitLimiterAdmitsOne(t *testing.T) {
	e := newEntrance(t)
	e.store(11)
	e.refuse(1, 11, busyRetry)
	e.open = 0
	e.now = e.now.Add(countEvery)
	e.store(11)
}

// TestSubmitLimiterWithoutACount: that is a failure, and no reason to call later.
func TestSubmitLimiterWithoutACount(t *testing.T) {
	e := newEntrance(t)
	e.store(10)
	e.err = errors.New("disk on fire")
	if _, err := e.room.admit(t.Context(), ofItems(1)); !errors.Is(err, e.err) {
		t.Errorf("error %v", err)
	}
}

// TestSubmitLimiterWhileItCounts: a slow database holds up only those who need a count, until their context ends, and
// what is admitted meanwhile is counted, too.
func TestSubmitLimiterWhileItCounts(t *testing.T) {
	e := newEntrance(t)
	e.store(9)
	e.open, e.now = 4, e.now.Add(countEvery)
	counting := make(chan struct{})
	let := make(chan struct{})
	e.hold = func(context.Context) {
		close(counting)
		<-let
	}
	var group sync.WaitGroup
	group.Go(func() { e.let(2) })
	<-counting
	e.let(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.room.admit(ctx, ofItems(3)); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one that needs a count: error %v, want %v", err, context.Canceled)
	}
	close(let)
	group.Wait()
	e.hold = nil
	e.refuse(4, 7, busyRetry) // 4 by the count, 1 and 2 since
}
