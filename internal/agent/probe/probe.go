// Package probe asks running processes for their health and version, by the health_cmd and version_cmd of their
// specs: on a schedule, and at once on request. It owns when to run a command, how long the command may take and what
// its answer means. It keeps no answer beyond its own end, restarts nothing and does not start commands itself: its
// caller does.
package probe

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/agent/liveness"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// Host runs questions: commands that ask and leave nothing behind.
type Host interface {
	// Question forks a command line, which waits at its gate until it is released. The error is in a caller's words;
	// nothing was run then.
	Question(run, line string, spec *process.Spec) (Question, error)
	// Watch calls fn once when a process ends. It fails with liveness.ErrGone if it has ended and nobody knows how.
	Watch(id procfs.Identity, fn func(liveness.Exit)) (stop func(), err error)
}

// Question is a command that was forked. End must be called.
type Question interface {
	Identity() procfs.Identity
	Release() error
	// Full is closed when the command has written more than a question may.
	Full() <-chan struct{}
	// End ends what is left of the command and of all that it has started, and returns the pids of what could not be
	// ended. An unreleased command ends unrun.
	End(ctx context.Context) (left []int, err error)
	// Output returns the beginning of what the command wrote; it is complete after End.
	Output() string
}

// Sink hears of every answer to a question of the schedule or of Ask. Answered does not block; for one process it is
// called for one answer after another. Revision is that of the spec whose command gave the answer.
type Sink interface {
	Answered(id process.ID, instance procfs.Identity, revision uint64, health bool, a process.Answer)
}

// Config is what a Keeper needs.
type Config struct {
	Host Host
	// Clock is the time since boot.
	Clock func() time.Duration
	// NewRun makes a run id: letters, digits and dashes only, never the same twice.
	NewRun func(process.ID) string
	// AtOnce is how many commands may run side by side on the host; 0 is defaultAtOnce.
	AtOnce int
	Log    *slog.Logger
}

// defaultAtOnce is how many commands run side by side where nothing else is said. They mostly wait, for an answer of
// their process or for their time to be up; what is due meanwhile waits its turn, longest due first.
const defaultAtOnce = 16

// Keeper asks. It is safe for concurrent use.
type Keeper struct {
	cfg  Config
	wake chan struct{}

	mu      sync.Mutex
	entries map[process.ID]*entry
	queues  map[string]*namespaceQueue // by namespace
	running int
}

// New returns a keeper that asks nothing until Run.
func New(cfg Config) *Keeper {
	if cfg.AtOnce <= 0 {
		cfg.AtOnce = defaultAtOnce
	}
	return &Keeper{
		cfg: cfg, wake: make(chan struct{}, 1), entries: map[process.ID]*entry{},
		queues: map[string]*namespaceQueue{},
	}
}

// Subject is a running process as it is to be asked.
type Subject struct {
	Instance procfs.Identity
	// StartedAt is when the instance started, since boot: its grace runs from there.
	StartedAt time.Duration
	// Revision is that of the spec.
	Revision uint64
	// Spec is the stored one, never what somebody sent along with a question: whoever may look need not be one who may
	// run commands. It is not altered afterwards.
	Spec *process.Spec
	// Health and Version are what this instance was last known to have said, before the agent was restarted; nil where
	// nothing is known.
	Health, Version *process.Answer
}

// Set has a running process asked from now on. One that is asked already with the same instance and revision is left as
// it is; what it said counts on as long as instance and command stay the same. A process whose spec has no command to
// ask by is dropped.
func (k *Keeper) Set(id process.ID, s Subject) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !asks(s.Spec) {
		k.drop(id)
		return
	}
	e := k.entries[id]
	if e != nil && e.watched && e.is(s) {
		return
	}
	e = k.subject(id, e, s)
	e.watched = true
	k.arrange(e)
}

// Drop forgets a process, because it does not run any more or nobody knows it. A command that is asking it is ended.
func (k *Keeper) Drop(id process.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(id)
}

// Told returns what an instance last said of itself; nil where it was not asked or has not answered. It does not block.
func (k *Keeper) Told(id process.ID, instance procfs.Identity) (health, version *process.Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[id]; e != nil && e.subject.Instance == instance {
		return e.answers()
	}
	return nil, nil
}

// Run asks until ctx ends. It then ends the commands that are asking, without taking that for an answer, and waits for
// them. It wakes up only when somebody is to be asked.
func (k *Keeper) Run(ctx context.Context, sink Sink) error {
	var work sync.WaitGroup
	defer work.Wait()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		jobs, wait := k.begin(ctx)
		for _, j := range jobs {
			work.Go(func() { k.carryOut(j, sink) })
		}
		if wait >= 0 {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-k.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// job is one question that has begun.
type job struct {
	ctx        context.Context //nolint:containedctx // the life of the question
	cancel     context.CancelFunc
	entry      *entry
	kind       kind
	generation uint64
	// counts says that its time had come: what was only asked for in between is not judged.
	counts bool
	began  time.Duration
	spec   *process.Spec
	line   string
	limit  time.Duration
}

// begin takes what is to be asked now, and says how long it is until there is more; below zero when only a call or the
// end of a question can tell.
func (k *Keeper) begin(ctx context.Context) (jobs []job, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Clock()
	for k.running < k.cfg.AtOnce {
		l := k.first()
		if l == nil {
			return jobs, -1
		}
		e := l.queue[0]
		if !e.urgent && e.due > now {
			return jobs, e.due - now
		}
		heap.Pop(&l.queue)
		l.running++
		which, _, _ := e.next()
		p := &e.parts[which]
		j := job{
			entry: e, kind: which, generation: e.generation, counts: e.watched && p.due <= now, began: now,
			spec: e.subject.Spec, line: p.line, limit: p.limit,
		}
		j.ctx, j.cancel = context.WithCancel(ctx)
		e.cancel = j.cancel
		k.running++
		jobs = append(jobs, j)
	}
	return jobs, -1
}

// namespaceQueue is what waits and runs of one namespace.
type namespaceQueue struct {
	queue   queue // those that will be asked and are not being asked right now
	running int
}

// first returns the lane whose turn is next, nil where nothing waits. No namespace has all places: its commands may
// hang for as long as its specs let them.
func (k *Keeper) first() (next *namespaceQueue) {
	for _, l := range k.queues {
		if len(l.queue) > 0 && l.running < k.cfg.AtOnce-k.cfg.AtOnce/8 &&
			(next == nil || l.queue[0].before(next.queue[0])) {
			next = l
		}
	}
	return next
}

// queueOf returns the lane of a process.
func (k *Keeper) queueOf(id process.ID) *namespaceQueue {
	l := k.queues[id.Namespace]
	if l == nil {
		l = &namespaceQueue{}
		k.queues[id.Namespace] = l
	}
	return l
}

// carryOut asks one question and tells what came of it.
func (k *Keeper) carryOut(j job, sink Sink) {
	defer j.cancel()
	r := k.question(j.ctx, j.entry.id, j.spec, j.line, j.limit)
	a, about, ok := k.note(j, r)
	if ok && sink != nil {
		sink.Answered(j.entry.id, about.Instance, about.Revision, j.kind == health, a)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running--
	k.queueOf(j.entry.id).running--
	j.entry.cancel = nil
	if j.entry.dropped {
		delete(k.entries, j.entry.id)
	}
	j.entry.tell()
	k.arrange(j.entry)
}

// note keeps an answer and says about whom it is, unless it is none any more: the process was dropped or is another
// one, or the agent stops.
func (k *Keeper) note(j job, r reply) (a process.Answer, about Subject, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := j.entry
	if e.generation != j.generation || j.ctx.Err() != nil {
		return process.Answer{}, Subject{}, false
	}
	now := k.cfg.Clock()
	return e.answered(j, r, now), e.subject, true
}

// drop forgets a process; the caller holds the lock.
func (k *Keeper) drop(id process.ID) {
	e := k.entries[id]
	if e == nil {
		return
	}
	e.renew()
	e.watched, e.subject, e.parts = false, Subject{}, [kinds]commandState{}
	// While a command is still ending the entry stays, so that no other one begins beside it.
	if e.dropped = true; e.cancel == nil {
		delete(k.entries, id)
	}
	e.tell()
	k.arrange(e)
}

// subject makes e, or a new entry, one about s; the caller holds the lock.
func (k *Keeper) subject(id process.ID, e *entry, s Subject) *entry {
	if e == nil {
		e = &entry{id: id, index: unqueued, changed: make(chan struct{})}
		k.entries[id] = e
	}
	e.dropped = false
	e.about(s, k.cfg.Clock())
	return e
}

// arrange puts an entry where it belongs in the queue and has Run look at it; the caller holds the lock.
func (k *Keeper) arrange(e *entry) {
	_, due, ok := e.next()
	l := k.queueOf(e.id)
	switch {
	case !ok || e.cancel != nil:
		if e.index != unqueued {
			heap.Remove(&l.queue, e.index)
		}
	case e.index == unqueued:
		e.due, e.urgent = due, e.wanted()
		heap.Push(&l.queue, e)
	default:
		e.due, e.urgent = due, e.wanted()
		heap.Fix(&l.queue, e.index)
	}
	if len(l.queue) == 0 && l.running == 0 {
		delete(k.queues, e.id.Namespace)
	}
	idle.Wake(k.wake)
}
