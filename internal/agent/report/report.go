// Package report sends the agent's knowledge to the server: the outcomes of operations, the states and the events of
// processes. It resends outcomes and events until the server acknowledges them. Of a state that changes often it
// sends only the latest. It keeps nothing on disk: until they are acknowledged, outcomes stay in the journal and
// events in their log.
package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/process"
	"drover/internal/wire"
)

// Link carries one report to the server and brings back its answer.
type Link interface {
	Report(ctx context.Context, data []byte) ([]byte, error)
}

// Processes is where the present state comes from.
type Processes interface {
	Snapshot(id process.ID) (status process.Status, spec *process.Spec, ok bool)
	Known() []process.ID
}

// Disk is what the agent has on its own.
type Disk interface {
	// Revisions returns those of the records that were there when the latest change had the revision latest.
	Revisions() (latest uint64, records map[process.ID]uint64, err error)
}

// Journal hears which outcomes the server has.
type Journal interface {
	Acknowledge(items []string) error
}

// Events are what has happened, in its order, until the server has it.
type Events interface {
	// Pending returns the oldest events that are not acknowledged: at most maxEvents, and none after those that already
	// take maxBytes. More says that there are others.
	Pending(maxEvents, maxBytes int) (events []process.Event, more bool)
	// Acknowledge drops events that Pending has returned.
	Acknowledge(events []process.Event)
}

// Groups are the process groups of this host, by namespace.
type Groups interface {
	Groups() (map[string][]process.Group, error)
}

// Config is what a reporter needs.
type Config struct {
	Link      Link
	Processes Processes
	Journal   Journal
	// Events may be nil: then there are none.
	Events Events
	// Hello introduces the agent, with the digests of Groups and what is on Disk; both may be nil.
	Hello  wire.Hello
	Groups Groups
	Disk   Disk
	// Introduced is called when the server has taken in an introduction, with the sealed manifest that answers it, if
	// there is one. It returns soon, and whether the agent is to introduce itself again. It may be nil.
	Introduced func(desired []byte) (again bool)
	// Complete adds to a report what the agent is at that moment. It returns soon, and may be nil.
	Complete func(r *wire.Report)
	// Answered is called with each report that was answered, with the answer, and with whether that is the server's own
	// word. It returns soon, and may be nil.
	Answered func(r *wire.Report, ack *wire.ReportAck, signed bool)
	// Trusted is called with a sealed manifest by which the agent is to renew what it trusts, and Strange when the
	// server does not take the agent for the one whose key it has. Both return soon, and may be nil.
	Trusted          func(sealed []byte)
	IdentityRejected func(s wire.Stranger)
	// Wall is the clock of the host, which the server is told; time.Now when nil.
	Wall func() time.Time
	// Heartbeat is the longest silence.
	Heartbeat time.Duration
	Log       *slog.Logger
}

// Reporter gathers what there is to tell. Its methods but Run do not block and may be called at any time.
type Reporter struct {
	cfg  Config
	wake chan struct{}
	// linked tells that there is a new link.
	linked chan struct{}

	// session is told with every report, and number counts them; proof is what the next one is to prove. They belong to
	// Run.
	session string
	number  int64
	proof   string

	mu            sync.Mutex
	hello         bool
	introductions int // counts the introductions
	begun         map[string]begunOperation
	timerSet      bool // remind will be called
	outcomes      map[string]process.Outcome
	order         []string // the items of outcomes, oldest first
	changed       map[process.ID]bool
	gone          map[process.ID]uint64        // the revisions with which processes were forgotten
	specs         map[process.ID]*process.Spec // what the server has of them
	unsent        map[string]bool              // items and processes of which something could not be encoded
	backlog       backlog

	// introduced is whether an introduction was taken in, strange whether the last one was taken for that of a copy;
	// they belong to Run.
	introduced, rejected bool
}

// New returns a reporter that introduces the agent first.
func New(cfg Config) *Reporter {
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	return &Reporter{
		cfg: cfg, session: newSession("", cfg.Wall()), wake: make(chan struct{}, 1), linked: make(chan struct{}, 1),
		hello: true, begun: map[string]begunOperation{},
		outcomes: map[string]process.Outcome{}, changed: map[process.ID]bool{}, gone: map[process.ID]uint64{},
		specs: map[process.ID]*process.Spec{}, unsent: map[string]bool{}, backlog: backlog{added: 1},
	}
}

// backlog counts what there was to tell of states and events, and how much of that the server has.
type backlog struct{ added, delivered int }

// Behind reports whether the server does not have all states and events yet: what it is told otherwise may come before
// these.
func (r *Reporter) Behind() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.backlog.delivered < r.backlog.added
}

// begunOperation is an operation that has begun: how long it may take, in seconds, when the server is to hear of it,
// and whether it has.
type begunOperation struct {
	limit    int
	due      time.Time
	reported bool
}

// beganDelay is how long an operation runs before the server hears that it has begun: most are over by then, and their
// outcome says it all.
const beganDelay = 100 * time.Millisecond

// Began notes that an operation has begun and how long it may take.
func (r *Reporter) Began(item string, limit time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[item] = begunOperation{limit: max(1, int(limit/time.Second)), due: time.Now().Add(beganDelay)}
	if !r.timerSet {
		r.timerSet = true
		time.AfterFunc(beganDelay, r.reportBegun)
	}
}

// reportBegun has a report made if an operation has begun for long enough to be told of, and comes again for the next.
func (r *Reporter) reportBegun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	next := now.Add(beganDelay)
	r.timerSet = false
	for _, b := range r.begun {
		switch {
		case b.reported:
		case now.Before(b.due):
			r.timerSet = true
			next = earlier(next, b.due)
		default:
			r.nudge()
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

// Finished notes an outcome that is on disk.
func (r *Reporter) Finished(item string, outcome process.Outcome) {
	r.mu.Lock()
	delete(r.begun, item)
	if _, ok := r.outcomes[item]; !ok {
		r.order = append(r.order, item)
	}
	r.outcomes[item] = outcome
	r.mu.Unlock()
	r.nudge()
}

// Changed notes that the state of a process is another one.
func (r *Reporter) Changed(id process.ID) {
	r.mu.Lock()
	r.changed[id] = true
	r.backlog.added++
	r.mu.Unlock()
	r.nudge()
}

// Gone notes that a process was forgotten, and with which revision.
func (r *Reporter) Gone(id process.ID, revision uint64) {
	r.mu.Lock()
	r.gone[id] = revision
	r.mu.Unlock()
	r.Changed(id)
}

// Happened notes that there is a new event.
func (r *Reporter) Happened() {
	r.mu.Lock()
	r.backlog.added++
	r.mu.Unlock()
	r.nudge()
}

// Connected notes that the link is new: the agent introduces itself again.
func (r *Reporter) Connected() {
	r.mu.Lock()
	r.requestIntroduction()
	r.mu.Unlock()
	r.nudge()
	idle.Wake(r.linked)
}

// Introduce has the agent introduce itself again: what it says of itself has changed.
func (r *Reporter) Introduce() {
	r.mu.Lock()
	r.requestIntroduction()
	r.mu.Unlock()
	r.nudge()
}

// Ask has a report made: there is something that Complete adds.
func (r *Reporter) Ask() { r.nudge() }

// requestIntroduction makes the next report an introduction; the caller holds the lock.
func (r *Reporter) requestIntroduction() {
	r.hello = true
	r.backlog.added++
	r.introductions++
	for item, b := range r.begun {
		b.reported = false
		r.begun[item] = b
	}
	clear(r.specs)
}

func (r *Reporter) nudge() { idle.Wake(r.wake) }

const (
	reportTimeout = 10 * time.Second
	retryAfter    = time.Second
	// longestRetry is the longest wait for a server that answers and takes no reports: from the fifth time on it
	// doubles up to that.
	longestRetry = 10 * time.Second
	fixedRetries = 4
	// What an agent that has just started waits for is the server's answer to its introduction: so many times it tries
	// again sooner.
	earlyRetry      = 250 * time.Millisecond
	maxEarlyRetries = 20
	// rejectedRetry is when an agent comes again that is not taken for the one whose key it has.
	rejectedRetry = 3 * time.Second
)

// Run sends reports until ctx ends. A report that fails is made again, from what is true then.
func (r *Reporter) Run(ctx context.Context) error {
	beat := time.NewTimer(r.cfg.Heartbeat)
	defer beat.Stop()
	logged, failures, refusals := "", 0, 0 // logged is the last failure; empty while reports arrive
	for ctx.Err() == nil {
		more, err := r.send(ctx)
		wake := r.wake
		switch {
		case err != nil:
			if text := err.Error(); text != logged && ctx.Err() == nil {
				r.cfg.Log.Warn("cannot deliver report, retrying", "error", err)
				logged = text
			}
			failures++
			switch {
			case r.rejected:
				beat.Reset(rejectedRetry)
			case !r.introduced && failures <= maxEarlyRetries:
				beat.Reset(earlyRetry)
			default:
				beat.Reset(min(retryAfter<<min(max(refusals-fixedRetries, 0), 10), longestRetry))
			}
			if refusals++; !errors.Is(err, errRefused) {
				refusals = 0
			}
			wake = r.linked // what is new waits with the rest
		case more:
			continue
		default:
			if logged != "" {
				r.cfg.Log.Info("delivering reports again")
			}
			logged, refusals = "", 0
			beat.Reset(r.cfg.Heartbeat)
		}
		select {
		case <-wake:
		case <-beat.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// send makes one report and takes in its answer; more says that there is more to tell.
func (r *Reporter) send(ctx context.Context) (more bool, err error) {
	select {
	case <-r.wake: // what it stands for is in this report
	default:
	}
	b := r.gather()
	r.number++
	b.report.Session, b.report.Number, b.report.At, b.report.Proof = r.session, r.number, r.cfg.Wall().UnixMilli(),
		r.proof
	r.gatherEvents(&b)
	r.gatherGroups(&b)
	if err := r.gatherDisk(&b); err != nil {
		r.giveBack(b)
		return false, err
	}
	if r.cfg.Complete != nil {
		r.cfg.Complete(&b.report)
	}
	data, err := b.encode()
	if err != nil {
		r.giveBack(b)
		return false, fmt.Errorf("cannot encode report: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	reply, err := r.cfg.Link.Report(ctx, data)
	if err == nil {
		err = r.handleAnswer(b, reply, wire.HasContent(data))
	}
	if err != nil {
		r.giveBack(b)
		return false, err
	}
	return b.more, nil
}

// identityRejected has the agent introduce itself until it is taken for the one whose key it has.
func (r *Reporter) identityRejected(s wire.Stranger) {
	if r.cfg.IdentityRejected != nil {
		r.cfg.IdentityRejected(s)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requestIntroduction()
}

// errRefused says that a server has answered, and has not taken the report.
var errRefused = errors.New("the server rejected it")

const (
	// longestProof is how much of what the server says is repeated, in bytes.
	longestProof = 100
	// longestComplaint is how much is logged of what nobody has signed.
	longestComplaint = 1 << 10
)

// handleAnswer takes in the server's answer, which is signed where the report was. Of another anybody on the way may be
// the author: that may ask for something, bring what is sealed, or be an error; and none of it is believed.
func (r *Reporter) handleAnswer(b batch, reply []byte, signed bool) error {
	var ack wire.ReportAck
	if err := json.Unmarshal(reply, &ack); err != nil {
		return fmt.Errorf("cannot read answer: %w", err)
	}
	if !signed {
		ack.Error = ack.Error[:min(len(ack.Error), longestComplaint)]
		ack = wire.ReportAck{At: ack.At, Hello: ack.Hello, Prove: ack.Prove, Error: ack.Error, Trust: ack.Trust}
	}
	if r.cfg.Answered != nil {
		r.cfg.Answered(&b.report, &ack, signed)
	}
	r.proof = ""
	if ack.Prove != "" && len(ack.Prove) <= longestProof {
		r.proof = ack.Prove
		r.nudge()
	}
	if len(ack.Trust) > 0 && r.cfg.Trusted != nil {
		r.cfg.Trusted(ack.Trust)
	}
	r.rejected = ack.Stranger != nil
	if r.rejected {
		r.identityRejected(*ack.Stranger)
	}
	if b.report.Hello != nil && ack.Session != "" {
		r.session = newSession(ack.Session, r.cfg.Wall())
		r.cfg.Log.Info("clock is behind the agent's last introduction, using a later session", "last", ack.Session)
	}
	if ack.Error != "" {
		return fmt.Errorf("%w: %s", errRefused, ack.Error)
	}
	if len(b.report.Events) > 0 {
		r.cfg.Events.Acknowledge(b.report.Events)
	}
	if len(b.finished) > 0 {
		if err := r.cfg.Journal.Acknowledge(b.finished); err != nil {
			return err
		}
	}
	again := ack.Hello
	if b.report.Hello != nil {
		r.introduced = true
		again = r.cfg.Introduced != nil && r.cfg.Introduced(ack.Desired)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acknowledged(b)
	if again {
		r.requestIntroduction()
		r.nudge()
	}
	return nil
}
