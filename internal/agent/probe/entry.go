package probe

import (
	"context"
	"math/rand/v2"
	"time"

	"drover/internal/process"
)

// kind is the kind of a command; the first kind is more urgent.
type kind int

const (
	health kind = iota
	version
	kinds
)

// The defaults for a spec.
const (
	versionEvery = 600 * time.Second
	// patience is the time limit of a command.
	patience = 5 * time.Second
	// firstWithin is the longest time from a start to the first command.
	firstWithin = 10 * time.Second
	// rest is the least time between the end of a command and the next command of its kind.
	rest = time.Second
)

// entry is one process. Its prober's lock protects it.
type entry struct {
	id      process.ID
	subject Subject
	// watched says that the commands run on schedule, and not only for Ask.
	watched bool
	// dropped says that no more commands run. The entry stays until the command under way has ended.
	dropped bool
	parts   [kinds]commandState
	// generation rises when the answer of a command under way no longer counts.
	generation uint64
	// cancel ends the command under way; nil if there is none.
	cancel context.CancelFunc
	// changed is closed and replaced whenever something is new.
	changed chan struct{}
	// index is the position in the queue; due and urgent decide it.
	index  int
	due    time.Duration
	urgent bool
}

// commandState is one command of a process. All times are since boot.
type commandState struct {
	line            string
	interval, limit time.Duration
	// answer is the last answer, nil if there is none; at is when it came.
	answer *process.Answer
	at     time.Duration
	// due is when the schedule runs the command again; wanted says that a caller waits for an answer.
	due    time.Duration
	wanted bool
}

// asks reports whether a spec has a command to run. It is false for an invalid spec.
func asks(spec *process.Spec) bool {
	return spec != nil && spec.Asks() && process.Validate(spec, process.Update) == nil
}

// plan returns the two commands of a spec.
func plan(spec *process.Spec) (parts [kinds]commandState) {
	if !asks(spec) {
		return parts
	}
	parts[health] = commandState{
		line: spec.HealthCheck(), interval: spec.Health.Interval(), limit: spec.HealthLimit(),
	}
	parts[version] = commandState{line: spec.VersionCommand, interval: versionEvery, limit: spec.VersionLimit()}
	return parts
}

// is reports whether the entry already has this instance and spec.
func (e *entry) is(s Subject) bool {
	return e.subject.Instance == s.Instance && e.subject.Revision == s.Revision
}

// about switches the entry to this instance and spec. It keeps the answer that the same instance gave to the same
// command.
func (e *entry) about(s Subject, now time.Duration) {
	same := e.subject.Spec != nil && e.subject.Instance == s.Instance
	there := same && e.subject.Spec.User == s.Spec.User &&
		e.subject.Spec.Dir() == s.Spec.Dir()
	known := [kinds]*process.Answer{health: s.Health, version: s.Version}
	parts := plan(s.Spec)
	for i := range parts {
		p, before := &parts[i], e.parts[i]
		if p.line == "" {
			continue
		}
		p.wanted = before.wanted
		if there && before.line == p.line {
			p.answer, p.at = before.answer, before.at
		} else if a := known[i]; a != nil && !same {
			p.answer, p.at = a, now-min(max(time.Since(time.UnixMilli(a.At)), 0), now)
		}
		p.due = p.first(now)
	}
	if !there || e.parts[health].line != parts[health].line || e.parts[version].line != parts[version].line {
		e.renew()
	}
	e.subject = s
	e.subject.Health, e.subject.Version = nil, nil
	e.parts = parts
}

// first is the first time of a command on schedule. It is random, so that commands spread out after a start of the
// agent or of many processes.
func (c *commandState) first(now time.Duration) time.Duration {
	if c.answer == nil {
		return now + spread(min(c.interval, firstWithin))
	}
	if next := c.at + c.interval; next > now {
		return next
	}
	return now + spread(c.interval)
}

// spread returns a random time below d.
func spread(d time.Duration) time.Duration { return rand.N(d) } //nolint:gosec // nobody gains by guessing it

// renew cancels the command under way and makes its answer invalid.
func (e *entry) renew() {
	e.generation++
	if e.cancel != nil {
		e.cancel()
	}
}

// next returns the next command and its time. A command that a caller waits for goes first. ok is false if there is
// none.
func (e *entry) next() (which kind, due time.Duration, ok bool) {
	for k := range kinds {
		if e.parts[k].wanted {
			return k, e.parts[k].due, true
		}
	}
	if !e.watched {
		return 0, 0, false
	}
	for k := range kinds {
		if p := e.parts[k]; p.line != "" && (!ok || p.due < due) {
			which, due, ok = k, p.due, true
		}
	}
	return which, due, ok
}

// wanted reports whether a caller waits for an answer.
func (e *entry) wanted() bool { return e.parts[health].wanted || e.parts[version].wanted }

// tell wakes everybody who waits for news.
func (e *entry) tell() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// answered stores the result of a command and plans the next one.
func (e *entry) answered(j job, r reply, now time.Duration) process.Answer {
	p, check := &e.parts[j.kind], e.subject.Spec.Health
	inGrace := now-e.subject.StartedAt < check.GraceTime()
	a := process.Answer{OK: r.failure == "", Said: r.final, At: time.Now().UnixMilli()}
	if j.kind == health {
		a.Text = healthText(r)
	} else {
		a.OK, a.Text = versionText(r)
	}
	if !a.OK {
		a.Since = a.At
		if before := p.answer; before != nil {
			a.Failures = before.Failures
			if !before.OK && before.Since != 0 {
				a.Since = before.Since
			}
		}
		// Frequent calls of Ask must not make a process unhealthy.
		if j.counts && (j.kind != health || !inGrace) {
			a.Failures++
		}
		if j.kind == health && !inGrace { // what is bad stays so until it succeeds
			a.Bad = a.Failures >= check.MostFailures() || a.Said || p.answer != nil && p.answer.Bad
		}
	}
	p.answer, p.at, p.wanted = &a, now, false
	if j.counts {
		// Vary the interval a little, so that processes that started together drift apart.
		p.due = max(j.began+p.interval-p.interval/20+spread(p.interval/10), now+rest)
	}
	return a
}

// answers returns copies of the last answers.
func (e *entry) answers() (h, v *process.Answer) {
	return clone(e.parts[health].answer), clone(e.parts[version].answer)
}

func clone(a *process.Answer) *process.Answer {
	if a == nil {
		return nil
	}
	c := *a
	return &c
}

// unqueued is the index of an entry that is not in the queue.
const unqueued = -1

// queue is a heap of entries: first the entries that a caller waits for, then those that are due longest.
type queue []*entry

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool { return q[i].before(q[j]) }

// before reports whether an entry goes before another.
func (e *entry) before(other *entry) bool {
	if e.urgent != other.urgent {
		return e.urgent
	}
	return e.due < other.due
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	e, _ := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	e.index = unqueued
	return e
}
