package probe

import (
	"context"
	"math/rand/v2"
	"time"

	"drover/internal/process"
)

// kind is what a process can be asked for; the first is more urgent.
type kind int

const (
	health kind = iota
	version
	kinds
)

// What holds where the spec says nothing.
const (
	healthEvery  = 60 * time.Second
	versionEvery = 600 * time.Second
	// patience is how long a command may take.
	patience = 5 * time.Second
	// sickAfter is how many failures in a row make a process unhealthy.
	sickAfter = 3
	// firstWithin is how soon after a start a process is asked for the first time.
	firstWithin = 10 * time.Second
	// rest is the least time between the end of a question and the next one of its kind.
	rest = time.Second
)

// entry is one process. Its keeper's lock protects it.
type entry struct {
	id      process.ID
	subject Subject
	// watched says that it is asked on schedule, and not only when somebody wants to know.
	watched bool
	// dropped says that nothing is to be asked any more; it is there until the question under way has ended.
	dropped bool
	parts   [kinds]commandState
	// generation rises when a question under way does not count any more.
	generation uint64
	// cancel ends the question under way; nil when there is none.
	cancel context.CancelFunc
	// changed is closed, and another one made, whenever something is new.
	changed chan struct{}
	// index is the place in the queue, due and urgent what the place depends on.
	index  int
	due    time.Duration
	urgent bool
}

// commandState is one command of a process. All times are since boot.
type commandState struct {
	line            string
	interval, limit time.Duration
	// answer is the last one, at when it came; nil when there is none.
	answer *process.Answer
	at     time.Duration
	// due is when it is to be asked again by the schedule, wanted that somebody waits for an answer.
	due    time.Duration
	wanted bool
}

// asks reports whether a spec has something to be asked by. What a spec without sense says is not run.
func asks(spec *process.Spec) bool {
	return spec != nil && (spec.Commands.Health != "" || spec.Commands.Version != "") &&
		spec.Validate(process.Update) == nil
}

// plan returns the two parts as the spec has them.
func plan(spec *process.Spec) (parts [kinds]commandState) {
	if !asks(spec) {
		return parts
	}
	limit := patience
	if t := spec.Policy.OpTimeout; t > 0 {
		limit = min(limit, seconds(t))
	}
	or := func(given int, otherwise time.Duration) time.Duration {
		if given > 0 {
			return seconds(given)
		}
		return otherwise
	}
	p := spec.Probes
	parts[health] = commandState{
		line: spec.Commands.Health, interval: or(p.HealthInterval, healthEvery),
		limit: or(p.HealthTimeout, limit),
	}
	parts[version] = commandState{
		line: spec.Commands.Version, interval: or(p.VersionInterval, versionEvery),
		limit: limit,
	}
	return parts
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// is reports whether the entry is about that instance and spec already.
func (e *entry) is(s Subject) bool {
	return e.subject.Instance == s.Instance && e.subject.Revision == s.Revision
}

// about makes the entry one of that instance and spec. What the same instance said by the same command stays.
func (e *entry) about(s Subject, now time.Duration) {
	same := e.subject.Spec != nil && e.subject.Instance == s.Instance
	there := same && e.subject.Spec.Identity.User == s.Spec.Identity.User &&
		e.subject.Spec.Identity.SetupPath == s.Spec.Identity.SetupPath
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
	e.subject = Subject{Instance: s.Instance, StartedAt: s.StartedAt, Revision: s.Revision, Spec: s.Spec}
	e.parts = parts
}

// first is when to ask by the schedule for the first time, spread so that not all are asked at once after a start of
// the agent or of many processes.
func (c *commandState) first(now time.Duration) time.Duration {
	if c.answer == nil {
		return now + spread(min(c.interval, firstWithin))
	}
	if next := c.at + c.interval; next > now {
		return next
	}
	return now + spread(c.interval)
}

// spread returns a time below d, at random.
func spread(d time.Duration) time.Duration { return rand.N(d) } //nolint:gosec // nobody gains by guessing it

// renew makes a question under way one that does not count, and ends it.
func (e *entry) renew() {
	e.generation++
	if e.cancel != nil {
		e.cancel()
	}
}

// next is what to ask next and when, what somebody waits for first; ok is false when there is nothing.
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

// wanted reports whether somebody waits for an answer.
func (e *entry) wanted() bool { return e.parts[health].wanted || e.parts[version].wanted }

// tell wakes all who wait for something new.
func (e *entry) tell() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// answered keeps what came of a question and plans the next one.
func (e *entry) answered(j job, r reply, now time.Duration) process.Answer {
	p := &e.parts[j.kind]
	a := process.Answer{OK: r.failure == "", At: time.Now().UnixMilli()}
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
		// Whoever asks often must not make a process sick by that.
		if j.counts {
			a.Failures++
		}
	}
	if probes := e.subject.Spec.Probes; j.kind == health {
		threshold := probes.Failures
		if threshold <= 0 {
			threshold = sickAfter
		}
		a.Bad = a.Failures >= threshold && now-e.subject.StartedAt >= seconds(probes.Grace)
	}
	p.answer, p.at, p.wanted = &a, now, false
	if j.counts {
		// A little more or less each time, so that what was started together drifts apart.
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

// queue is a heap of entries: those that somebody waits for, then the longest due.
type queue []*entry

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool { return q[i].before(q[j]) }

// before reports whether an entry comes before another one.
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
