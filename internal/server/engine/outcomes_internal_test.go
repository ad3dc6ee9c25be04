package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"drover/internal/server/store"
)

// ledger stores outcomes. It is the one of a synctest bubble.
type ledger struct {
	Store
	// open lets calls go on while it is closed.
	open chan struct{}
	// bad is an item that fails those it comes with.
	bad string

	mu     sync.Mutex
	calls  []int // how many outcomes came with each
	stored map[string]int
	told   []string // tasks, each named for its item
}

var errBad = errors.New("an outcome that can't be stored")

func (l *ledger) Finish(ctx context.Context, given []store.ReportedOutcome) (tasks []string, err error) {
	l.mu.Lock()
	l.calls = append(l.calls, len(given))
	l.mu.Unlock()
	<-l.open
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range given {
		if given[i].Item == l.bad {
			return nil, errBad
		}
	}
	for i := range given {
		l.stored[given[i].Item]++
		tasks = append(tasks, "task of "+given[i].Item)
	}
	return tasks, nil
}

// givers are agents that tell outcomes while the first of them keeps the store busy.
type givers struct {
	*outcomes
	*ledger
	t       *testing.T
	waiting sync.WaitGroup
	errs    map[string]error // by giver
}

// busy runs a test in which one outcome is being stored. Then all may be, and the test may look at what has come of
// them.
func busy(t *testing.T, test, then func(t *testing.T, g *givers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{open: make(chan struct{}), stored: map[string]int{}}
		g := &givers{ledger: l, t: t, errs: map[string]error{}}
		g.outcomes = newOutcomes(l, func(tasks []string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.told = append(l.told, tasks...)
		})
		g.give(t.Context(), "first", 1)
		test(t, g)
		close(l.open)
		g.waiting.Wait()
		then(t, g)
	})
}

// give has a giver tell so many outcomes, and returns when it waits for them to be stored.
func (g *givers) give(ctx context.Context, giver string, n int) {
	var given []store.ReportedOutcome
	for i := range n {
		given = append(given, store.ReportedOutcome{Agent: giver, Item: fmt.Sprint(giver, "-", i)})
	}
	g.waiting.Go(func() {
		err := g.put(ctx, given)
		g.ledger.mu.Lock()
		defer g.ledger.mu.Unlock()
		g.errs[giver] = err
		for i := range given {
			if item := given[i].Item; err == nil && (g.stored[item] != 1 || !slices.Contains(g.told, "task of "+item)) {
				g.t.Errorf("%s was stored %d times when it was said to be", item, g.stored[item])
			}
		}
	})
	synctest.Wait()
}

// TestOutcomesOfManyAreStoredTogether: what comes while others are being stored takes one call.
func TestOutcomesOfManyAreStoredTogether(t *testing.T) {
	busy(t, func(t *testing.T, g *givers) {
		for i := range 50 {
			g.give(t.Context(), fmt.Sprint("agent-", i), 2)
		}
	}, func(t *testing.T, g *givers) {
		if want := []int{1, 100}; !slices.Equal(g.calls, want) {
			t.Errorf("calls with %v outcomes, want %v", g.calls, want)
		}
		if len(g.stored) != 101 || len(g.told) != 101 {
			t.Errorf("%d outcomes were stored, %d told", len(g.stored), len(g.told))
		}
		for giver, err := range g.errs {
			if err != nil {
				t.Errorf("%s: %v", giver, err)
			}
		}
	})
}

// TestOutcomesAreStoredByTheThousand: more at once only where one giver tells more.
func TestOutcomesAreStoredByTheThousand(t *testing.T) {
	busy(t, func(t *testing.T, g *givers) {
		for i, n := range []int{400, 600, 1, 2500, 1000, 999} {
			g.give(t.Context(), fmt.Sprint("agent-", i), n)
		}
	}, func(t *testing.T, g *givers) {
		calls := slices.Sorted(slices.Values(g.calls)) // groups that are full are stored in any order
		if want := []int{1, 1, 999, 1000, 1000, 2500}; !slices.Equal(calls, want) {
			t.Errorf("calls with %v outcomes, want %v", calls, want)
		}
	})
}

// TestBadOutcomeFailsAlone: its giver hears of it, and nobody else.
func TestBadOutcomeFailsAlone(t *testing.T) {
	busy(t, func(t *testing.T, g *givers) {
		g.bad = "agent-7-1"
		for i := range 10 {
			g.give(t.Context(), fmt.Sprint("agent-", i), 2)
		}
	}, func(t *testing.T, g *givers) {
		for giver, err := range g.errs {
			if bad := giver == "agent-7"; bad != errors.Is(err, errBad) || !bad && err != nil {
				t.Errorf("%s: %v", giver, err)
			}
		}
		if len(g.stored) != 1+9*2 {
			t.Errorf("%d outcomes were stored", len(g.stored))
		}
	})
}

// TestBadOutcomeOfOneIsTriedOnce: there is nobody who could be the reason.
func TestBadOutcomeOfOneIsTriedOnce(t *testing.T) {
	busy(t, func(t *testing.T, g *givers) {
		g.bad = "agent-0"
		g.give(t.Context(), "agent", 1)
	}, func(t *testing.T, g *givers) {
		if !errors.Is(g.errs["agent"], errBad) || len(g.calls) != 2 {
			t.Errorf("%v after %d calls", g.errs["agent"], len(g.calls))
		}
	})
}

// TestFirstGiverLeaves: whoever stores for others does so when nobody waits for its own any longer.
func TestFirstGiverLeaves(t *testing.T) {
	busy(t, func(t *testing.T, g *givers) {
		ctx, cancel := context.WithCancel(t.Context())
		g.give(ctx, "leaving", 1)
		g.give(t.Context(), "staying", 1)
		cancel()
	}, func(t *testing.T, g *givers) {
		if err := errors.Join(g.errs["leaving"], g.errs["staying"]); err != nil {
			t.Error(err)
		}
		if want := []int{1, 2}; !slices.Equal(g.calls, want) {
			t.Errorf("calls with %v outcomes, want %v", g.calls, want)
		}
	})
}
