package timetable

import (
	"cmp"
	"container/heap"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/process"
)

const (
	// longestSleep is the longest delay until the scheduler notices a change of the clock.
	longestSleep = 30 * time.Second
	// lateness is how late a run may begin without counting as missed, for example because the agent restarted at that
	// moment.
	lateness = time.Minute
	// step is the smallest change of the clock that counts.
	step = 2 * time.Second
	// correction is the largest step back after which no time of day runs again.
	correction = 3 * time.Hour
)

// Sink receives the runs. Only Run calls it, one call after another, and a call must not block for long. It may call
// the Scheduler.
type Sink interface {
	// Due says that a run must begin now. at is its time by the timetable, without the delay. missed says that the run
	// stands for one or more runs that were due while no agent was running.
	Due(id process.ID, at time.Time, missed bool)
	// Missed says that count runs were left out, the first due at from and the last at to. The scheduler counts at
	// most 3,000.
	Missed(id process.ID, from, to time.Time, count int)
}

// Config is what a Scheduler needs.
type Config struct {
	// Now is the wall clock; time.Now outside tests.
	Now func() time.Time
	// Host identifies this host, so that the same process has a different delay on each host.
	Host string
}

// Scheduler waits for the runs of all processes with one timer, and with none while it has no process. It follows the
// wall clock. After a step forward, the runs in between count as missed. A table of seconds continues as if nothing
// had happened. After a step back of up to three hours, no time of day runs a second time. It is safe for concurrent
// use.
type Scheduler struct {
	cfg  Config
	wake chan struct{}

	mu      sync.Mutex
	queue   queue
	entries map[process.ID]*entry
	// wallTime is the wall clock at the last look. wallTimeAt is that moment by the monotonic clock.
	wallTime, wallTimeAt time.Time
}

// New makes a scheduler without processes.
func New(cfg Config) *Scheduler {
	return &Scheduler{
		cfg: cfg, wake: make(chan struct{}, 1), entries: map[process.ID]*entry{},
		wallTime: cfg.Now().Round(0), wallTimeAt: time.Now(),
	}
}

// entry is a process that waits for its next run.
type entry struct {
	id     process.ID
	table  Table
	missed process.Missed
	// last is the last run that was handled. next is the next run, and due is next with its delay.
	last, next, due time.Time
	index           int // in the queue
}

// Set sets or replaces the timetable of a process. last is the last run that was handled; runs that were due since
// then are missed. If last is zero, the table begins now. If the table has no further run, the process gets no
// timetable.
func (s *Scheduler) Set(id process.ID, t Table, last time.Time, missed process.Missed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(id)
	now := s.cfg.Now().Round(0)
	if last.IsZero() {
		last = now
	}
	e := &entry{id: id, table: t, missed: missed, last: last.Round(0)}
	if last.After(now) {
		// The clock was set back while the scheduler did not run.
		e.rewind(last.Sub(now), now)
	}
	if !s.advance(e) {
		return
	}
	s.entries[id] = e
	heap.Push(&s.queue, e)
	s.wakeUp()
}

// Drop removes the timetable of a process. A call to the sink that is under way may still be for it.
func (s *Scheduler) Drop(id process.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(id)
	s.wakeUp()
}

func (s *Scheduler) drop(id process.ID) {
	if e, ok := s.entries[id]; ok {
		heap.Remove(&s.queue, e.index)
		delete(s.entries, id)
	}
}

// Next returns when the next run of a process will begin, its delay included.
func (s *Scheduler) Next(id process.ID) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[id]
	if !ok {
		return time.Time{}, false
	}
	return e.due, true
}

// Run calls the sink for each run that is due, until ctx ends. Then it returns nil.
func (s *Scheduler) Run(ctx context.Context, sink Sink) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for _, call := range s.takeDue() {
			call(sink)
		}
		if sleep, ok := s.sleep(); ok {
			timer.Reset(sleep)
		} else {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Scheduler) wakeUp() { idle.Wake(s.wake) }

// sleep returns the time until the next run; false if there is none.
func (s *Scheduler) sleep() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return 0, false
	}
	return min(max(s.queue[0].due.Sub(s.cfg.Now()), 0), longestSleep), true
}

// takeDue handles the runs that are due and queues their successors. It returns the calls to the sink, in the order of
// the runs.
func (s *Scheduler) takeDue() []func(Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, moment := s.cfg.Now().Round(0), time.Now()
	moved := now.Sub(s.wallTime) - moment.Sub(s.wallTimeAt)
	s.wallTime, s.wallTimeAt = now, moment
	if moved.Abs() >= step {
		s.adjust(moved, now)
	}
	var calls []func(Sink)
	for len(s.queue) > 0 && !s.queue[0].due.After(now) {
		e := s.queue[0]
		calls = append(calls, s.take(e, now)...)
		if s.advance(e) {
			heap.Fix(&s.queue, e.index)
		} else {
			s.drop(e.id)
		}
	}
	return calls
}

// take handles all runs of a process that are due, and returns the calls to the sink.
func (s *Scheduler) take(e *entry, now time.Time) []func(Sink) {
	id, first := e.id, e.next
	run, count := s.newest(e, now)
	e.last = run
	due := func(missed bool) func(Sink) { return func(to Sink) { to.Due(id, run, missed) } }
	missed := func(last time.Time, n int) func(Sink) { return func(to Sink) { to.Missed(id, first, last, n) } }
	late := now.Sub(run.Add(s.delay(e, run))) > lateness
	switch {
	case count == 1 && !late:
		return []func(Sink){due(false)}
	case e.missed == process.MissedRun:
		return []func(Sink){due(true)}
	case late:
		return []func(Sink){missed(run, count)}
	default:
		return []func(Sink){missed(e.table.before(run), count-1), due(false)}
	}
}

// newest returns the last run of a process whose delay is over, and the number of runs up to it.
func (s *Scheduler) newest(e *entry, now time.Time) (run time.Time, count int) {
	run, count = e.next, 1
	if last, n := e.table.Between(e.last, now.Add(-e.table.jitter)); n > 1 {
		run, count = last, n
	}
	for {
		next, ok := e.table.Next(run)
		if !ok || next.Add(s.delay(e, next)).After(now) {
			return run, count
		}
		run = next
		count++
	}
}

// advance sets the next run of a process; false if there is none.
func (s *Scheduler) advance(e *entry) bool {
	next, ok := e.table.Next(e.last)
	if !ok {
		return false
	}
	e.next, e.due = next, next.Add(s.delay(e, next))
	return true
}

// delay spreads the runs of a table over its jitter. A run has the same delay after a restart of the agent, so it is
// neither lost nor started twice.
func (s *Scheduler) delay(e *entry, at time.Time) time.Duration {
	if e.table.jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.cfg.Host + "\x00" + process.Hash(e.id) + strconv.FormatInt(at.Unix(), 16))) // never fails
	sum := h.Sum64()
	// The low bits of the hash alone vary too little with the last digit.
	sum ^= sum >> 32
	//nolint:gosec // below the jitter
	return time.Duration(sum%uint64(e.table.jitter/time.Millisecond+1)) * time.Millisecond
}

// adjust follows a step of the clock.
func (s *Scheduler) adjust(moved time.Duration, now time.Time) {
	for _, e := range slices.Clone(s.queue) {
		switch {
		case e.table.every > 0:
			e.last = e.last.Add(moved)
		case moved < 0:
			e.rewind(-moved, now)
		}
		if !s.advance(e) {
			s.drop(e.id)
		}
	}
	heap.Init(&s.queue)
}

// rewind follows the clock back, unless times of day would then run a second time.
func (e *entry) rewind(back time.Duration, now time.Time) {
	if !e.table.ofDay() || back > correction {
		e.last = now
	}
}

// queue is a heap of entries, the next run first.
type queue []*entry

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	return cmp.Or(q[i].due.Compare(q[j].due), cmp.Compare(q[i].id.Namespace, q[j].id.Namespace),
		cmp.Compare(q[i].id.Name, q[j].id.Name)) < 0
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is for package heap.
func (q *queue) Push(x any) {
	e := x.(*entry) //nolint:errcheck,forcetypeassert // nothing else is pushed
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop is for package heap.
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
