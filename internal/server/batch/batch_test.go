package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/batch"
)

// ledger writes items. It is the one of a synctest bubble.
type ledger struct {
	// open lets calls go on while it is closed.
	open chan struct{}
	// bad is an item that fails those it comes with.
	bad string

	mu     sync.Mutex
	calls  []int // how many items came with each
	stored map[string]int
}

var errBad = errors.New("an item that can't be stored")

func (l *ledger) write(ctx context.Context, items []string) error {
	l.mu.Lock()
	l.calls = append(l.calls, len(items))
	l.mu.Unlock()
	<-l.open
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(items, l.bad) {
		return errBad
	}
	for _, item := range items {
		l.stored[item]++
	}
	return nil
}

// givers put items while the first of them keeps the ledger busy.
type givers struct {
	*batch.Writer[string]
	*ledger
	t       *testing.T
	waiting sync.WaitGroup
	errs    map[string]error // by giver
}

// busy runs a test in which one item is being written. Then all may be, and the test may look at what has come of them.
func busy(t *testing.T, test, then func(t *testing.T, g *givers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{open: make(chan struct{}), stored: map[string]int{}}
		g := &givers{ledger: l, t: t, errs: map[string]error{}, Writer: batch.New(1000, l.write)}
		g.give(t.Context(), "first", 1)
		test(t, g)
		close(l.open)
		g.waiting.Wait()
		then(t, g)
	})
}

// give has a giver put so many items, and returns when it waits for them to be written.
func (g *givers) give(ctx context.Context, giver string, n int) {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprint(giver, "-", i))
	}
	g.waiting.Go(func() {
		err := g.Put(ctx, items)
		g.ledger.mu.Lock()
		defer g.ledger.mu.Unlock()
		g.errs[giver] = err
		for _, item := range items {
			if err == nil && g.stored[item] != 1 {
				g.t.Errorf("%s was stored %d times when it was said to be", item, g.stored[item])
			}
		}
	})
	synctest.Wait()
}

// TestItemsOfManyAreWrittenTogether: what comes while others are being written takes one call.
func TestItemsOfManyAreWrittenTogether(t *testing.T) {
	busy(t, func(t *testing.T, g *givers) {
		for i := range 50 {
			g.give(t.Context(), fmt.Sprint("agent-", i), 2)
		}
	}, func(t *testing.T, g *givers) {
		if want := []int{1, 100}; !slices.Equal(g.calls, want) {
			t.Errorf("calls with %v items, want %v", g.calls, want)
		}
		if len(g.stored) != 101 {
			t.Errorf("%d items were stored", len(g.stored))
		}
		for giver, err := range g.errs {
			if err != nil {
				t.Errorf("%s: %v", giver, err)
			}
		}
	})
}

// TestItemsAreWrittenByTheThousand: more at once only where one giver puts more.
func TestItemsAreWrittenByTheThousand(t *testing.T) {
	busy(t, func(t *testing.T, g *givers) {
		for i, n := range []int{400, 600, 1, 2500, 1000, 999} {
			g.give(t.Context(), fmt.Sprint("agent-", i), n)
		}
	}, func(t *testing.T, g *givers) {
		calls := slices.Sorted(slices.Values(g.calls)) // groups that are full are written in any order
		if want := []int{1, 1, 999, 1000, 1000, 2500}; !slices.Equal(calls, want) {
			t.Errorf("calls with %v items, want %v", calls, want)
		}
	})
}

// TestBadItemFailsAlone: its giver hears of it, and nobody else.
func TestBadItemFailsAlone(t *testing.T) {
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
			t.Errorf("%d items were stored", len(g.stored))
		}
	})
}

// TestBadItemOfOneIsTriedOnce: there is nobody who could be the reason.
func TestBadItemOfOneIsTriedOnce(t *testing.T) {
	busy(t, func(t *testing.T, g *givers) {
		g.bad = "agent-0"
		g.give(t.Context(), "agent", 1)
	}, func(t *testing.T, g *givers) {
		if !errors.Is(g.errs["agent"], errBad) || len(g.calls) != 2 {
			t.Errorf("%v after %d calls", g.errs["agent"], len(g.calls))
		}
	})
}

// TestFirstGiverLeaves: whoever writes for others does so when nobody waits for its own any longer.
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
			t.Errorf("calls with %v items, want %v", g.calls, want)
		}
	})
}

// TestPause: a single caller waits for nobody. After a write for many callers, the next one waits for more callers.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), []string{}
		w := batch.New(1000, func(_ context.Context, items []string) error {
			calls = append(calls, fmt.Sprintf("%d after %s", len(items), time.Since(began)))
			time.Sleep(time.Millisecond) // of the bubble
			return nil
		})
		put := func(callers int) {
			var waiting sync.WaitGroup
			for range callers {
				waiting.Go(func() {
					if err := w.Put(t.Context(), []string{"item"}); err != nil {
						t.Error(err)
					}
				})
			}
			waiting.Wait()
		}
		put(1)
		put(1)
		var first sync.WaitGroup
		first.Go(func() { put(1) })
		synctest.Wait()
		put(5)
		first.Wait()
		put(1)
		time.Sleep(time.Second)
		put(1)
		want := []string{"1 after 0s", "1 after 1ms", "1 after 2ms", "5 after 3ms", "1 after 9ms", "1 after 1.01s"}
		if !slices.Equal(calls, want) {
			t.Errorf("writes: %q, want %q", calls, want)
		}
	})
}
