package orders

import (
	"context"
	"maps"
	"sync"
	"time"

	"drover/internal/agent/record"
)

// beginWithin is how long a receipt waits for the commands of its manifest to begin. Most begin at once. A report tells
// of the others, unless they are over by then.
const beginWithin = 10 * time.Millisecond

// begins has the commands whose begin a receipt waits for. Its zero value is ready to use, and it is safe for
// concurrent use.
type begins struct {
	mu   sync.Mutex
	open map[string]*beginning // by item
}

// beginning is what a receipt tells of the commands that have begun: their time limits, in seconds, by item.
type beginning struct {
	missing int
	limits  map[string]int
	all     chan struct{} // closed when none is missing
}

// expect returns the beginning of commands that are about to be queued.
func (b *begins) expect(commands []record.Entry) *beginning {
	w := &beginning{missing: len(commands), limits: map[string]int{}, all: make(chan struct{})}
	if w.missing == 0 {
		close(w.all)
		return w
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[string]*beginning{}
	}
	for _, e := range commands {
		b.open[e.Item] = w
	}
	return w
}

// began notes the time limit of a command that has begun.
func (b *begins) began(item string, limit time.Duration) {
	b.met(item, func(w *beginning) { w.limits[item] = inSeconds(limit) })
}

// inSeconds is a time limit as messages have it.
func inSeconds(limit time.Duration) int { return max(1, int(limit/time.Second)) }

// endWait ends the wait for a command that has ended, whether or not it has begun.
func (b *begins) endWait(item string) { b.met(item, func(*beginning) {}) }

func (b *begins) met(item string, note func(w *beginning)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, ok := b.open[item]
	if !ok {
		return
	}
	delete(b.open, item)
	note(w)
	if w.missing--; w.missing == 0 {
		close(w.all)
	}
}

// await waits for all commands, for beginWithin, or until ctx ends. It returns the limits of those that have begun, in
// seconds.
func (b *begins) await(ctx context.Context, w *beginning) map[string]int {
	patience := time.NewTimer(beginWithin)
	defer patience.Stop()
	select {
	case <-w.all:
	case <-patience.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.open, func(_ string, other *beginning) bool { return other == w })
	return w.limits
}
