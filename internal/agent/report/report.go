// Package report sends the agent's knowledge to the server: the outcomes of operations, the states and the events of
// processes. It resends outcomes and events until the server acknowledges them. Of a state that changes often it
// sends only the latest. It keeps nothing on disk: until they are acknowledged, outcomes stay in the journal and
// events in their log.
package report

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/agent/uplink"
	"drover/internal/process"
	"drover/internal/wire"
)

// Link carries one report to the server and brings back its answer.
type Link interface {
	Report(ctx context.Context, data []byte) ([]byte, error)
}

// Processes has the present state of the processes.
type Processes interface {
	Snapshot(id process.ID) (status process.Status, spec *process.Spec, ok bool)
	ProcessIDs() []process.ID
}

// Orders asks the server about orders and receives its answers. Its methods return soon.
type Orders interface {
	// Unsure returns the orders that a report which is sent now asks the server about.
	Unsure() (items []string)
	// Answered handles the answer to a report.
	Answered(r *wire.Report, ack *wire.ReportAck)
	// Introduced handles the records that answer an introduction, nil if there are none. It reports whether
	// the agent must introduce itself again.
	Introduced(desired *wire.Desired) (again bool)
}

// Disk has the revisions on the agent's disk.
type Disk interface {
	// Revisions returns those of the records that were there when the latest change had the revision latest.
	Revisions() (latest uint64, records map[process.ID]uint64, err error)
}

// Journal learns which outcomes the server has.
type Journal interface {
	Acknowledge(items []string) error
}

// Events keeps the events in their order, until the server has them.
type Events interface {
	// Pending returns the oldest unacknowledged events in encoded form: at most maxEvents, and none after the event
	// that reaches maxBytes. more says that there are others.
	Pending(maxEvents, maxBytes int) (events [][]byte, more bool)
	// Acknowledge drops events that Pending has returned.
	Acknowledge(events [][]byte)
	// Rewind makes acknowledged events pending again that the database does not have, by the last number of each stream
	// that it has, and reports whether there are any.
	Rewind(heard map[string]uint64) bool
}

// Groups are the process groups of this host, by namespace.
type Groups interface {
	Groups() (map[string][]process.Group, error)
}

// Config is what a reporter needs.
type Config struct {
	Link Link
	// LinkState says when the agent introduces itself, and learns what the server answers.
	LinkState *uplink.LinkState
	Journal   Journal
	// Events may be nil: then there are none.
	Events Events
	// Hello introduces the agent. The reporter adds the digests of Groups and the revisions of Disk; both may be nil.
	Hello  wire.Hello
	Groups Groups
	Disk   Disk
	// Complete adds the agent's current facts to a report. It returns soon, and may be nil.
	Complete func(r *wire.Report)
	// Busy reports whether orders are open, whose outcomes will follow. It returns soon, and may be nil: then none are.
	Busy func() bool
	// Trusted receives a sealed manifest that renews the agent's trust, and reports whether the agent goes by it now.
	// It returns soon, and may be nil.
	Trusted func(sealed []byte) bool
	// Wall is the wall clock of the host, for the times in reports; time.Now if nil.
	Wall func() time.Time
	// Heartbeat is the longest silence, unless the server allows a longer one.
	Heartbeat time.Duration
	Log       *slog.Logger
}

// Reporter collects the data for reports. All its methods except Run are non-blocking and safe to call at any time.
type Reporter struct {
	cfg  Config
	wake chan struct{}

	mu         sync.Mutex
	beginnings map[string]begunOperation
	timerSet   bool // a timer will call reportBegun
	newsDue    bool // a timer will call reportNews
	fresh      bool // there is news that no report has carried
	outcomes   map[string]process.Outcome
	order      []string // the items of outcomes, oldest first
	changed    map[process.ID]bool
	removals   map[process.ID]uint64        // the revisions of the removals
	specs      map[process.ID]*process.Spec // the specs that the server has
	unsent     map[string]bool              // items and processes with a part that could not be encoded
	backlog    backlog
}

// New returns a reporter that introduces the agent first.
func New(cfg Config) *Reporter {
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	return &Reporter{
		cfg: cfg, wake: make(chan struct{}, 1), beginnings: map[string]begunOperation{},
		outcomes: map[string]process.Outcome{}, changed: map[process.ID]bool{}, removals: map[process.ID]uint64{},
		specs: map[process.ID]*process.Spec{}, unsent: map[string]bool{},
	}
}

// backlog counts the changes of states and events, and how many of them the server has.
type backlog struct{ added, delivered int }

// Behind reports whether the server still lacks states or events: other messages may overtake these.
func (r *Reporter) Behind() bool {
	if r.cfg.LinkState.Now().MustIntroduce() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.backlog.delivered < r.backlog.added
}

// begunOperation is an operation that has begun. limit is its time limit in seconds, due is when to report it, and
// reported says that the server has it.
type begunOperation struct {
	limit    int
	due      time.Time
	reported bool
}

// beganDelay is how long an operation runs before the server learns that it has begun. Most operations are over by
// then, and their outcome is enough. It is supervisor.ShowAfter, so that one report tells of both.
const beganDelay = 2 * time.Second

// Began notes that an operation has begun and how long it may take.
func (r *Reporter) Began(item string, limit time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beginnings[item] = begunOperation{limit: max(1, int(limit/time.Second)), due: time.Now().Add(beganDelay)}
	if !r.timerSet {
		r.timerSet = true
		time.AfterFunc(beganDelay, r.reportBegun)
	}
}

// reportBegun asks for a report if an operation has been running for beganDelay, and sets the timer for the next
// operation.
func (r *Reporter) reportBegun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	next := now.Add(beganDelay)
	r.timerSet = false
	for _, b := range r.beginnings {
		switch {
		case b.reported:
		case now.Before(b.due):
			r.timerSet = true
			next = earlier(next, b.due)
		default:
			r.news()
		}
	}
	if r.timerSet {
		time.AfterFunc(next.Sub(now), r.reportBegun)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// newsDelay is how long news waits for more of it. So the end of a process and its relaunch are one report, and so are
// all changes of a short operation with its outcome, and the beginning of a long one with its state.
const newsDelay = 50 * time.Millisecond

// news asks for a report after newsDelay. The caller holds the lock.
func (r *Reporter) news() {
	r.fresh = true
	if !r.newsDue {
		r.newsDue = true
		time.AfterFunc(newsDelay, r.reportNews)
	}
}

// reportNews asks for a report of news that no report has carried yet.
func (r *Reporter) reportNews() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newsDue = false
	if r.fresh {
		r.nudge()
	}
}

// Finished records an outcome that is already on disk. While other orders are open, it waits as news for theirs.
func (r *Reporter) Finished(item string, outcome process.Outcome) {
	more := r.cfg.Busy != nil && r.cfg.Busy()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.beginnings, item)
	if _, ok := r.outcomes[item]; !ok {
		r.order = append(r.order, item)
	}
	r.outcomes[item] = outcome
	if more {
		r.news()
	} else {
		r.nudge()
	}
}

// Changed records that the state of a process has changed.
func (r *Reporter) Changed(id process.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed[id] = true
	r.backlog.added++
	r.news()
}

// Removed notes that a process was forgotten, and with which revision.
func (r *Reporter) Removed(id process.ID, revision uint64) {
	r.mu.Lock()
	r.removals[id] = revision
	r.mu.Unlock()
	r.Changed(id)
}

// Happened notes that there is a new event.
func (r *Reporter) Happened() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backlog.added++
	r.news()
}

// Ask has a report made: there is something that Complete adds.
func (r *Reporter) Ask() { r.nudge() }

func (r *Reporter) nudge() { idle.Wake(r.wake) }
