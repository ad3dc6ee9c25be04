// Package batch lets callers share writes: the items that arrive during a write, or soon after it, are the next write.
// A statement for many callers costs little more than a statement for one, and they share its sync to disk.
package batch

import (
	"context"
	"sync"
	"time"

	"drover/internal/idle"
)

// After a write, the next one waits pausePerCaller for each caller of that write, and longestPause at most. So a
// single caller waits for nobody. Under load, more callers share the next write: otherwise the writes themselves take
// the processor time in which others would arrive.
const (
	pausePerCaller = time.Millisecond
	longestPause   = 20 * time.Millisecond
)

// Writer writes the items of concurrent callers together. Any goroutine may call its methods.
type Writer[T any] struct {
	most  int
	write func(ctx context.Context, items []T) error
	// turn holds a token while a write runs.
	turn chan struct{}
	// begin is when the next write may begin; it belongs to the caller that has the turn.
	begin time.Time

	mu   sync.Mutex
	next *group[T] // nil for none
}

// group is what one write writes.
type group[T any] struct {
	items   []T
	callers int
	written chan struct{} // closed when err is set
	err     error
}

// New returns a Writer. A write has at most most items, unless one caller has more. If a write for several callers
// fails, write is called again for each of them, so a failed write must have no effect.
func New[T any](most int, write func(ctx context.Context, items []T) error) *Writer[T] {
	return &Writer[T]{most: most, write: write, turn: make(chan struct{}, 1)}
}

// Put returns when the items are written, or could not be written. The end of ctx has no effect. An error from the
// items of other callers does not affect the caller.
func (w *Writer[T]) Put(ctx context.Context, items []T) error {
	if len(items) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	g, first := w.join(items)
	if first {
		w.turn <- struct{}{}
		if pause := time.Until(w.begin); pause > 0 {
			idle.Sleep(ctx, pause)
		}
		w.leave(g)
		g.err = w.write(ctx, g.items)
		w.begin = time.Now()
		if g.callers > 1 {
			w.begin = w.begin.Add(min(time.Duration(g.callers)*pausePerCaller, longestPause))
		}
		<-w.turn
		close(g.written)
	}
	<-g.written
	if g.err == nil || g.callers == 1 {
		return g.err
	}
	return w.write(ctx, items)
}

// join adds items to the next group. The caller that joins first has to write the group.
func (w *Writer[T]) join(items []T) (g *group[T], first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == nil || len(w.next.items)+len(items) > w.most {
		// A full group takes no more; its first caller writes it.
		w.next, first = &group[T]{written: make(chan struct{})}, true
	}
	w.next.items = append(w.next.items, items...)
	w.next.callers++
	return w.next, first
}

// leave closes a group to further callers.
func (w *Writer[T]) leave(g *group[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == g {
		w.next = nil
	}
}
