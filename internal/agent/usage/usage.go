// Package usage keeps what the processes of this host have used: an hour in steps of 30 s, a day in steps of 5 min, and
// a quarter of an hour in steps of 5 s for processes that somebody looks at. It owns the steps, their form in memory
// and in a file. It measures nothing and has no clock: package limit hands over each of its looks.
package usage

import (
	"sync"
	"time"

	"drover/internal/process"
	"drover/internal/wire"
)

// Look is what a process with its whole tree used from one look to the next. The times are since boot.
type Look struct {
	// CPU is the mean from Since to At, in percent of the whole machine. Memory is in bytes at At.
	CPU    float64
	Memory int64
	// Files is how many files the process has open; 0 if that is not known.
	Files     int
	Since, At time.Duration
	// StartTicks tells instances of a process apart: it is the start of the instance, in clock ticks since boot.
	StartTicks uint64
}

// Step is one step of a history. Its zero value means that nobody has measured the process during the step.
type Step struct {
	// CPU is the mean, in percent of the whole machine. Memory, in bytes, and Files are the largest of all looks. The
	// error is at most 0.8 percent of the value of CPU, 0.2 of Memory and 3 of Files.
	CPU    float64
	Memory int64
	Files  int
	// Restarted tells that another instance began in the step.
	Restarted bool
}

// The windows of a history.
const (
	Quarter = 15 * time.Minute
	Hour    = time.Hour
	Day     = 24 * time.Hour
)

const (
	fineStep  = 5 * time.Second
	shortStep = 30 * time.Second
	longStep  = 5 * time.Minute

	fineCells  = int(Quarter / fineStep)
	shortCells = int(Hour / shortStep)
	longCells  = int(Day / longStep)

	// longestLook is the longest time that a look may cover. The CPU of a longer look, such as the first look at a
	// process that has run for days, says nothing about a step.
	longestLook = 90 * time.Second
	// watchTime is how long a question makes the agent look more often, and mostWatched at how many processes.
	watchTime   = time.Minute
	mostWatched = 64
)

// Book has the histories of all processes. It is safe for concurrent use. Make it with NewBook.
type Book struct {
	mu      sync.Mutex
	of      map[process.ID]*history
	watched map[process.ID]time.Duration // until when, since boot
}

// NewBook returns a book without histories.
func NewBook() *Book {
	return &Book{of: map[process.ID]*history{}, watched: map[process.ID]time.Duration{}}
}

// history is the history of one process: about 1,750 bytes, and 800 more for the fine steps of a watched process.
type history struct {
	startTicks  uint64
	short, long fold
	fine        *fineSteps
	cells       [shortCells + longCells]cell
}

// fineSteps are steps of 5 s. Steps before since have none.
type fineSteps struct {
	since int64
	fold  fold
	cells [fineCells]cell
}

// Add takes a look at a process. The looks at a process come in their order.
func (b *Book) Add(id process.ID, l Look) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.of[id]
	if h == nil {
		h = &history{startTicks: l.StartTicks}
		b.of[id] = h
	}
	if _, watched := b.watched[id]; watched && h.fine == nil {
		h.fine = &fineSteps{since: int64(l.Since / fineStep)}
	}
	if l.At-l.Since > longestLook {
		return
	}
	restarted := h.startTicks != l.StartTicks
	h.startTicks = l.StartTicks
	h.short.add(h.cells[:shortCells], shortStep, &l, restarted)
	h.long.add(h.cells[shortCells:], longStep, &l, restarted)
	if h.fine != nil {
		h.fine.fold.add(h.fine.cells[:], fineStep, &l, restarted)
	}
}

// Watched reports whether somebody looks at a process, so that more looks are worth their price.
func (b *Book) Watched(id process.ID, now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.watched[id]
	return ok && now < until
}

// History returns the steps of a window, the oldest first, and when the last step ends, since boot. The last step may
// go on. Somebody looks at the process now: see Watched. A process without a look has no steps.
func (b *Book) History(id process.ID, window, now time.Duration) (steps []Step, end time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	step := wire.UsageStepOf(window)
	if step == 0 {
		return nil, 0
	}
	b.watch(id, now)
	newest := int64(now / step)
	end = time.Duration(newest+1) * step
	h := b.of[id]
	if h == nil {
		return nil, end
	}
	n := int64(window / step)
	steps = make([]Step, n)
	for i := range steps {
		steps[i] = h.at(window, newest-n+1+int64(i))
	}
	return steps, end
}

// watch notes that somebody looks at a process. If too many processes are watched, it forgets one at which nobody looks
// any more; there may be none.
func (b *Book) watch(id process.ID, now time.Duration) {
	if _, watched := b.watched[id]; !watched && len(b.watched) >= mostWatched {
		oldest, least := process.ID{}, now
		for id, until := range b.watched {
			if until <= least {
				oldest, least = id, until
			}
		}
		if oldest == (process.ID{}) {
			return
		}
		b.unwatch(oldest)
	}
	b.watched[id] = now + watchTime
}

func (b *Book) unwatch(id process.ID) {
	delete(b.watched, id)
	if h := b.of[id]; h != nil {
		h.fine = nil
	}
}

// at returns a step of a window by its number since boot.
func (h *history) at(window time.Duration, slot int64) Step {
	switch {
	case window == Day:
		return h.long.at(h.cells[shortCells:], slot)
	case window == Hour:
		return h.short.at(h.cells[:shortCells], slot)
	case slot < 0:
		return Step{}
	case h.fine != nil && slot >= h.fine.since:
		return h.fine.fold.at(h.fine.cells[:], slot)
	}
	const fines = int64(shortStep / fineStep)
	s := h.short.at(h.cells[:shortCells], slot/fines)
	// The newest step of 30 s says nothing about the time after its last look.
	if covered := h.short.slot*fines + int64(h.short.until/fineStep); slot/fines == h.short.slot && slot >= covered {
		return Step{}
	}
	s.Restarted = s.Restarted && slot%fines == 0 && !h.fine.restarted((slot/fines+1)*fines)
	return s
}

// restarted reports whether a step before another one is marked: then the mark of the 30 s around both is the same.
func (f *fineSteps) restarted(before int64) bool {
	if f == nil {
		return false
	}
	for slot := f.since; slot < before; slot++ {
		if f.fold.at(f.cells[:], slot).Restarted {
			return true
		}
	}
	return false
}

// Tidy forgets processes that known does not list, those without a look for a day, and fine steps that nobody looks at.
func (b *Book) Tidy(known []process.ID, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, until := range b.watched {
		if now >= until+Quarter {
			b.unwatch(id)
		}
	}
	if len(b.of) == 0 {
		return
	}
	still := make(map[process.ID]*history, len(known))
	for _, id := range known {
		if h := b.of[id]; h != nil && int64(now/longStep)-h.long.slot < int64(longCells) {
			still[id] = h
		}
	}
	b.of = still
}
