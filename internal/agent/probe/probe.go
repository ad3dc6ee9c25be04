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

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/idle"
	"drover/internal/process"
)

// Host runs questions: commands that only ask and leave nothing behind.
type Host interface {
	// Question forks a command line, which waits at its gate until Release. The error is in a caller's words; nothing
	// was run then.
	Question(id process.ID, run, line string, spec *process.Spec) (Question, error)
	// Watch calls fn once when a process ends. It fails with liveness.ErrGone if the process has ended and its exit is
	// unknown.
	Watch(id instance.Identity, fn func(liveness.Exit)) (stop func(), err error)
}

// Question is a command that was forked. End must be called.
type Question interface {
	Identity() instance.Identity
	Release() error
	// Full is closed when the command has written more than a question may.
	Full() <-chan struct{}
	// End ends the command and every process that it started, and returns the pids that it could not end. An
	// unreleased command ends unrun.
	End(ctx context.Context) (left []int, err error)
	// Output returns the beginning of what the command wrote; it is complete after End.
	Output() string
}

// Sink receives every answer, from the schedule and from Ask. Answered does not block; for one process, calls come one
// after another. revision is that of the spec whose command gave the answer.
type Sink interface {
	Answered(id process.ID, instance instance.Identity, revision uint64, health bool, a process.Answer)
}

// Config is what a Prober needs.
type Config struct {
	Host Host
	// Clock is the time since boot.
	Clock func() time.Duration
	// NewRun makes a run id: letters, digits and dashes only, never the same twice.
	NewRun func(process.ID) string
	// Watchdog returns when a run has said WATCHDOG=1 last, since boot and not before this agent began to listen, and
	// whether it says that it is in trouble. It may be nil: then no process has a watchdog.
	Watchdog func(run string) (last time.Duration, trouble bool)
	// AtOnce is how many commands may run side by side on the host; 0 is defaultAtOnce.
	AtOnce int
	Log    *slog.Logger
}

// defaultAtOnce is the default number of commands that run at the same time. Commands mostly wait, for an answer of
// their process or for a timeout. Other commands that are due wait in the queue, longest due first.
const defaultAtOnce = 16

// Prober asks. It is safe for concurrent use.
type Prober struct {
	cfg  Config
	wake chan struct{}

	mu      sync.Mutex
	entries map[process.ID]*entry
	queues  map[string]*namespaceQueue // by namespace
	running int
}

// New returns a prober that asks nothing until Run.
func New(cfg Config) *Prober {
	if cfg.AtOnce <= 0 {
		cfg.AtOnce = defaultAtOnce
	}
	return &Prober{
		cfg: cfg, wake: make(chan struct{}, 1), entries: map[process.ID]*entry{},
		queues: map[string]*namespaceQueue{},
	}
}

// Subject is a running process whose commands the prober runs.
type Subject struct {
	Instance instance.Identity
	// StartedAt is when the instance started, since boot: its grace runs from there.
	StartedAt time.Duration
	// Revision is that of the spec.
	Revision uint64
	// Run is the run of the instance, if that can notify drover; else empty.
	Run string
	// Spec is the stored spec, never the spec of a query: a caller that may look may lack the right to run commands.
	// It is not changed afterwards.
	Spec *process.Spec
	// Health and Version are the last known answers of this instance from before a restart of the agent; nil if
	// unknown.
	Health, Version *process.Answer
}

// Set runs the commands of a running process from now on. It does nothing if the instance and the revision are
// unchanged. An answer stays valid while the instance and the command stay the same. Set drops a process whose spec
// has no command to run.
func (pr *Prober) Set(id process.ID, s Subject) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if !asks(s.Spec) {
		pr.drop(id)
		return
	}
	e := pr.entries[id]
	if e != nil && e.watched && e.is(s) {
		return
	}
	e = pr.subject(id, e, s)
	e.watched = true
	pr.arrange(e)
}

// Drop forgets a process that no longer runs or that nobody knows. It ends the command under way.
func (pr *Prober) Drop(id process.ID) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	pr.drop(id)
}

// Hurry asks for the health of a process at once.
func (pr *Prober) Hurry(id process.ID) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if e := pr.entries[id]; e != nil && e.parts[health].line != "" {
		e.parts[health].due = pr.cfg.Clock()
		pr.arrange(e)
	}
}

// LastAnswers returns the last answers of an instance; nil if there are none. It does not block.
func (pr *Prober) LastAnswers(id process.ID, instance instance.Identity) (health, version *process.Answer) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if e := pr.entries[id]; e != nil && e.subject.Instance == instance {
		return e.answers()
	}
	return nil, nil
}

// Run runs commands until ctx ends. It then ends the commands under way, ignores their results and waits for them. It
// wakes up only when a command is due.
func (pr *Prober) Run(ctx context.Context, sink Sink) error {
	var work sync.WaitGroup
	defer work.Wait()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		jobs, wait := pr.begin(ctx)
		for _, j := range jobs {
			work.Go(func() { pr.carryOut(j, sink) })
		}
		if wait >= 0 {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-pr.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// job is one command that has begun.
type job struct {
	ctx        context.Context //nolint:containedctx // the life of the command
	cancel     context.CancelFunc
	entry      *entry
	kind       kind
	generation uint64
	// counts says that the command was due on schedule: an extra run for Ask does not count as a failure.
	counts bool
	began  time.Duration
	// subject is what the command asks.
	subject Subject
	spec    *process.Spec
	line    string
	limit   time.Duration
}

// begin returns the commands to run now, and the time until the next one; negative if only a call or the end of a
// command can start more.
func (pr *Prober) begin(ctx context.Context) (jobs []job, wait time.Duration) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	now := pr.cfg.Clock()
	for pr.running < pr.cfg.AtOnce {
		l := pr.first()
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
			spec: e.subject.Spec, line: p.line, limit: p.limit, subject: e.subject,
		}
		j.ctx, j.cancel = context.WithCancel(ctx)
		e.cancel = j.cancel
		pr.running++
		jobs = append(jobs, j)
	}
	return jobs, -1
}

// namespaceQueue has the commands of one namespace.
type namespaceQueue struct {
	queue   queue // the entries that wait, without those whose command runs now
	running int
}

// first returns the queue whose turn is next; nil if nothing waits. A namespace cannot have all slots, because its
// commands may hang for as long as its specs allow.
func (pr *Prober) first() (next *namespaceQueue) {
	for _, l := range pr.queues {
		if len(l.queue) > 0 && l.running < pr.cfg.AtOnce-pr.cfg.AtOnce/8 &&
			(next == nil || l.queue[0].before(next.queue[0])) {
			next = l
		}
	}
	return next
}

// queueOf returns the queue of a process's namespace.
func (pr *Prober) queueOf(id process.ID) *namespaceQueue {
	l := pr.queues[id.Namespace]
	if l == nil {
		l = &namespaceQueue{}
		pr.queues[id.Namespace] = l
	}
	return l
}

// carryOut runs one command and reports the answer.
func (pr *Prober) carryOut(j job, sink Sink) {
	defer j.cancel()
	var r reply
	switch {
	case j.kind == health && j.spec.Watched():
		r = pr.watchdog(j)
	case j.kind == health && j.spec.HealthCommand() == "":
		r = reach(j.ctx, j.spec.Health, j.limit)
	default:
		r = pr.question(j.ctx, j.entry.id, j.spec, j.line, j.limit)
	}
	a, about, ok := pr.record(j, r)
	if ok && sink != nil {
		sink.Answered(j.entry.id, about.Instance, about.Revision, j.kind == health, a)
	}
	pr.mu.Lock()
	defer pr.mu.Unlock()
	pr.running--
	pr.queueOf(j.entry.id).running--
	j.entry.cancel = nil
	if j.entry.dropped {
		delete(pr.entries, j.entry.id)
	}
	j.entry.tell()
	pr.arrange(j.entry)
}

// record stores an answer and returns its subject. ok is false if the answer no longer counts: the process was dropped
// or replaced, or the agent stops.
func (pr *Prober) record(j job, r reply) (a process.Answer, about Subject, ok bool) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	e := j.entry
	if e.generation != j.generation || j.ctx.Err() != nil {
		return process.Answer{}, Subject{}, false
	}
	now := pr.cfg.Clock()
	a = e.answered(j, r, now)
	if j.kind == health && j.spec.Watched() {
		e.parts[health].due = pr.watchdogDue(e, now)
	}
	return a, e.subject, true
}

// drop forgets a process; the caller holds the lock.
func (pr *Prober) drop(id process.ID) {
	e := pr.entries[id]
	if e == nil {
		return
	}
	e.renew()
	e.watched, e.subject, e.parts = false, Subject{}, [kinds]commandState{}
	// Keep the entry while its command is ending, so that no second command begins beside it.
	if e.dropped = true; e.cancel == nil {
		delete(pr.entries, id)
	}
	e.tell()
	pr.arrange(e)
}

// subject switches e, or a new entry, to s; the caller holds the lock.
func (pr *Prober) subject(id process.ID, e *entry, s Subject) *entry {
	if e == nil {
		e = &entry{id: id, index: unqueued, changed: make(chan struct{})}
		pr.entries[id] = e
	}
	e.dropped = false
	now := pr.cfg.Clock()
	e.about(s, now)
	if s.Spec.Watched() {
		e.parts[health].due = pr.watchdogDue(e, now)
	}
	return e
}

// arrange updates the position of an entry in the queue and wakes Run; the caller holds the lock.
func (pr *Prober) arrange(e *entry) {
	_, due, ok := e.next()
	l := pr.queueOf(e.id)
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
		delete(pr.queues, e.id.Namespace)
	}
	idle.Wake(pr.wake)
}
