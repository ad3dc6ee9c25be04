package report

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drover/internal/agent/uplink/linkstate"
	"drover/internal/wire"
)

const (
	reportTimeout = 10 * time.Second
	firstRetry    = time.Second
	// longestRetry is the longest pause if a server answers and rejects the reports. From the fifth rejection on, the
	// pause doubles up to that.
	longestRetry = 10 * time.Second
	fixedRetries = 4
	// An agent that has just started waits for the server's answer to its introduction: it makes this many retries at
	// a shorter interval.
	earlyRetry      = 250 * time.Millisecond
	maxEarlyRetries = 20
	// rejectedRetry is the retry delay after the server rejects the agent's identity.
	rejectedRetry = 3 * time.Second
	// offlineRetry is the retry delay without a link. A new link ends it; until then, no report can arrive.
	offlineRetry = 10 * time.Second
)

// retryAfter is the pause after a failed report. failures counts the failed reports in the life of the agent, refusals
// the answers in a row that rejected a report before this one.
func retryAfter(m linkstate.Machine, failures, refusals int) time.Duration {
	switch {
	case m.State == linkstate.Offline:
		return offlineRetry
	case m.State == linkstate.Estranged:
		return rejectedRetry
	case m.HoldsBack() && failures <= maxEarlyRetries:
		return earlyRetry
	}
	return min(firstRetry<<min(max(refusals-fixedRetries, 0), 10), longestRetry)
}

// exchange is the conversation of one life of the agent with the server. It belongs to Run.
type exchange struct {
	reporter  *Reporter
	processes Processes
	orders    Orders // may be nil
	// session and number are part of every report; number counts the reports.
	session string
	number  int64
	// lastStates is the number of the last acknowledged report of the session that has told states; 0 without one.
	lastStates int64
	// incarnation is that of the servers' database, as the agent knows it; empty before the first answer. lacks is set
	// while the database lacks a part of what the agent has to tell after an introduction.
	incarnation string
	lacks       bool
	beats       beats
}

// Run sends reports until ctx ends, with the states of the processes and the questions of orders, which may be nil.
// After a failure it makes a new report from the state at that time.
func (r *Reporter) Run(ctx context.Context, processes Processes, orders Orders) error {
	x := &exchange{
		reporter: r, processes: processes, orders: orders, session: newSession("", r.cfg.Wall()),
		beats: beats{usual: r.cfg.Heartbeat},
	}
	beat := time.NewTimer(r.cfg.Heartbeat)
	defer beat.Stop()
	logged, failures, refusals := "", 0, 0 // logged is the last logged failure; empty while reports arrive
	for ctx.Err() == nil {
		more, err := x.send(ctx)
		wake, due := r.wake, r.cfg.LinkState.IntroductionDue()
		switch {
		case err != nil:
			if text := err.Error(); text != logged && ctx.Err() == nil {
				r.cfg.Log.Warn("cannot deliver report, retrying", "error", err)
				logged = text
			}
			failures++
			beat.Reset(retryAfter(r.cfg.LinkState.Now(), failures, refusals))
			if refusals++; !errors.Is(err, errRefused) {
				refusals = 0
			}
			wake, due = nil, r.cfg.LinkState.Linked() // news must wait for the retry too
		case more:
			continue
		default:
			if logged != "" {
				r.cfg.Log.Info("delivering reports again")
			}
			logged, refusals = "", 0
			beat.Reset(x.beats.after(time.Now()))
		}
		select {
		case <-wake:
		case <-due:
		case <-beat.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// send makes one report and handles its answer; more says that there is more to report.
func (x *exchange) send(ctx context.Context) (more bool, err error) {
	r := x.reporter
	select {
	case <-r.wake: // this report covers the wake-up
	default:
	}
	b := r.gather(x.processes)
	x.number++
	b.report.Session, b.report.Number = x.session, x.number
	b.report.Told, b.report.Incarnation = x.lastStates, x.incarnation
	r.gatherEvents(&b)
	r.gatherGroups(&b)
	if err := r.gatherDisk(&b); err != nil {
		r.giveBack(b)
		return false, err
	}
	if r.cfg.Complete != nil {
		r.cfg.Complete(&b.report)
	}
	if x.orders != nil {
		b.report.Open = x.orders.Unsure()
	}
	b.report.At = r.cfg.Wall().UnixMilli() // the server compares it with the time of the seal, which comes next
	x.lacks = x.lacks || b.report.Hello != nil && !b.alone
	b.report.Whole = x.lacks && !b.alone && !b.more
	data, err := b.encode()
	if err != nil {
		r.giveBack(b)
		return false, fmt.Errorf("cannot encode report: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	reply, err := r.cfg.Link.Report(ctx, data)
	if err == nil {
		err = x.handleAnswer(b, reply)
	}
	if err != nil {
		r.giveBack(b)
		return false, err
	}
	return b.more && (!b.alone || r.hasNews()), nil
}

// hasEvents reports whether there are events to tell. It reads from disk.
func (r *Reporter) hasEvents() bool {
	if r.cfg.Events == nil {
		return false
	}
	events, _ := r.cfg.Events.Pending(1, 1)
	return len(events) > 0
}

// follow notes the incarnation of the database that an answer names, and reports whether it is another one than before.
func (x *exchange) follow(ack *wire.ReportAck) (changed bool) {
	if ack.Incarnation == "" || ack.Incarnation == x.incarnation {
		return false
	}
	if x.incarnation != "" {
		x.reporter.cfg.Log.Warn("the database of the servers was restored from a copy, reporting everything anew",
			"incarnation", ack.Incarnation)
	}
	x.incarnation, x.lastStates = ack.Incarnation, 0
	return true
}

// accepted notes what the database has after a report that the server has taken, and what it still lacks.
func (x *exchange) accepted(b batch, ack *wire.ReportAck) {
	if len(b.report.Observed) > 0 {
		x.lastStates = b.report.Number
	}
	if b.report.Whole {
		x.lacks = false
	}
	if b.report.Hello != nil {
		x.rewind(ack)
	}
	if r := x.reporter; b.alone && !ack.Known {
		x.lastStates, x.lacks = 0, true
		events := r.hasEvents()
		r.mu.Lock()
		r.tellAll(x.processes, events)
		r.mu.Unlock()
	}
}

// rewind has the events sent again that the database has lost, by the answer to an introduction. It is a copy, or the
// copy of a standby that had lagged.
func (x *exchange) rewind(ack *wire.ReportAck) {
	r := x.reporter
	if ack.Incarnation == "" || r.cfg.Events == nil || !r.cfg.Events.Rewind(ack.Heard) {
		return
	}
	r.cfg.Log.Info("the database of the servers lacks events that it had, sending them again")
	r.mu.Lock()
	r.backlog.added++
	r.mu.Unlock()
}

// errRefused says that a server answered and rejected the report.
var errRefused = errors.New("the server rejected it")

// handleAnswer handles the server's answer.
func (x *exchange) handleAnswer(b batch, reply []byte) error {
	r := x.reporter
	var ack wire.ReportAck
	if err := json.Unmarshal(reply, &ack); err != nil {
		return fmt.Errorf("cannot read answer: %w", err)
	}
	if ack.Error == "" && ack.Stranger == nil && x.follow(&ack) && b.report.Hello == nil {
		r.giveBack(b) // the servers have taken nothing of this report
		r.cfg.LinkState.Outdated()
		return nil
	}
	if x.orders != nil {
		x.orders.Answered(&b.report, &ack)
	}
	if len(ack.Trust) > 0 && r.cfg.Trusted != nil && r.cfg.Trusted(ack.Trust) {
		r.nudge() // whoever replaces keys waits until all hosts go by them
	}
	if b.report.Hello != nil && ack.Session != "" {
		x.session, x.lastStates = newSession(ack.Session, r.cfg.Wall()), 0
		r.cfg.Log.Info("clock is behind the agent's last introduction, using a later session", "last", ack.Session)
	}
	switch {
	case ack.Stranger != nil:
		r.cfg.LinkState.Rejected(*ack.Stranger)
		return fmt.Errorf("%w: %s", errRefused, cmp.Or(ack.Error, ack.Stranger.Reason))
	case ack.Error != "":
		r.cfg.LinkState.Refused()
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
	x.beats.ask(ack.Beat, time.Now())
	x.accepted(b, &ack)
	switch {
	case b.report.Hello != nil:
		r.cfg.LinkState.Accepted(x.orders != nil && x.orders.Introduced(ack.Desired))
	case ack.Hello:
		r.cfg.LinkState.Outdated()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acknowledged(b)
	return nil
}
