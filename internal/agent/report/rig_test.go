package report_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drover/internal/agent/report"
	"drover/internal/agent/uplink"
	"drover/internal/process"
	"drover/internal/spec"
	"drover/internal/wire"
)

// rig is a reporter and the world around it: a server, processes, a journal. It lives in a synctest bubble.
type rig struct {
	*report.Reporter
	t         *testing.T
	linkState *uplink.LinkState

	mu     sync.Mutex
	answer func(wire.Report) (wire.ReportAck, error)
	// got are all reports, sent when each came, in seconds.
	got   []wire.Report
	sent  []float64
	sizes []int
	known map[process.ID]process.Status
	specs map[process.ID]*process.Spec
	acked []string
	// events are pending; told is what was acknowledged of them.
	events []process.Event
	told   [][]byte
	// heard is what the history was told that the database has; lost are the events that the database lacks.
	heard []map[string]uint64
	lost  []process.Event
	// busy says that orders are open.
	busy bool
	// trusts says whether renewed trust is adopted.
	trusts bool
	// full is why the journal takes nothing.
	full error
	// session and number are those of the last report; refused is the session that was refused as an earlier one, if
	// one was.
	session, refused string
	number           int64
}

// bubble runs fn with a reporter that runs; before is called before it does.
func bubble(t *testing.T, before, fn func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, known: map[process.ID]process.Status{}, specs: map[process.ID]*process.Spec{}, answer: accept}
		r.linkState = linked()
		r.Reporter = report.New(report.Config{
			Link: link{r, time.Now()}, LinkState: r.linkState, Journal: r, Events: history{r}, Heartbeat: 5 * time.Second,
			Busy:    r.isBusy,
			Trusted: func([]byte) bool { return r.trusts },
			Hello:   wire.Hello{IP: "10.0.0.1", Build: "test", BootID: "boot"}, Log: slog.New(slog.DiscardHandler),
		})
		if before != nil {
			before(t, r)
		}
		during(t, r.Reporter, r, nil, func() { fn(t, r) })
	})
}

// linked is the link state of an agent that has a link.
func linked() *uplink.LinkState {
	s := uplink.NewLinkState(slog.New(slog.DiscardHandler))
	s.Connected()
	return s
}

// during has the reporter run while fn does.
func during(t *testing.T, r *report.Reporter, processes report.Processes, orders report.Orders, fn func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, processes, orders) }()
	synctest.Wait()
	fn()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func accept(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{Version: wire.Version}, nil }

// link is the way to the server.
type link struct {
	r     *rig
	epoch time.Time
}

func (l link) Report(ctx context.Context, data []byte) ([]byte, error) {
	read, err := wire.ReadReport(data)
	if err != nil {
		l.r.t.Errorf("%v: %s", err, data)
		return nil, err
	}
	rep := *read
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 10*time.Second {
		l.r.t.Error("a report may take for ever")
	}
	l.r.mu.Lock()
	// Every report has its place, which the tests need not look at.
	if rep.Session == "" || rep.Session < l.r.session || rep.Session != l.r.session && l.r.session != l.r.refused ||
		rep.Number <= l.r.number || rep.At != time.Now().UnixMilli() {
		l.r.t.Errorf("report %d of session %q at %d follows %d of %q", rep.Number, rep.Session, rep.At, l.r.number,
			l.r.session)
	}
	l.r.session, l.r.number = rep.Session, rep.Number
	rep.Session, rep.Number, rep.At = "", 0, 0
	if rep.Incarnation == "" { // told_test.go has what concerns the states that the server has
		rep.Told, rep.Whole = 0, false
	}
	l.r.got = append(l.r.got, rep)
	l.r.sent = append(l.r.sent, time.Since(l.epoch).Seconds())
	l.r.sizes = append(l.r.sizes, len(data))
	answer := l.r.answer
	l.r.mu.Unlock()
	if answer == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ack, err := answer(rep)
	if err != nil {
		return nil, err
	}
	return json.Marshal(ack)
}

// connect makes a new link.
func (r *rig) connect() { r.linkState.Connected() }

// answers sets what the server says from now on; nil is a server that says nothing.
func (r *rig) answers(fn func(wire.Report) (wire.ReportAck, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = fn
}

func (r *rig) set(id process.ID, s process.Status) {
	r.mu.Lock()
	r.known[id] = s
	r.mu.Unlock()
	r.Changed(id)
}

func (r *rig) setBusy(busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = busy
}

func (r *rig) isBusy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy
}

func (r *rig) ProcessIDs() []process.ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []process.ID
	for id := range r.known {
		ids = append(ids, id)
	}
	return ids
}

func (r *rig) Snapshot(id process.ID) (process.Status, *process.Spec, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.known[id]
	if !ok {
		return s, nil, false
	}
	if r.specs[id] == nil {
		r.specs[id] = &process.Spec{Compat: &spec.Compat{Contact: id.Name}}
	}
	return s, r.specs[id], true
}

func (r *rig) Acknowledge(items []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full != nil {
		return r.full
	}
	r.acked = append(r.acked, items...)
	return nil
}

// history is the rig's log of events.
type history struct{ r *rig }

func (h history) Pending(maxEvents, maxBytes int) (events [][]byte, more bool) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	for _, line := range lines(h.r.events...) {
		if len(events) >= maxEvents || maxBytes <= 0 {
			return events, true
		}
		events = append(events, line)
		maxBytes -= len(line)
	}
	return events, false
}

// lines are events as a log has them.
func lines(events ...process.Event) [][]byte {
	all := make([][]byte, len(events))
	for i, e := range events {
		all[i], _ = json.Marshal(e) // a number that has no JSON would be missed
	}
	return all
}

func (h history) Rewind(heard map[string]uint64) bool {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	lost := h.r.lost
	h.r.heard, h.r.events, h.r.lost = append(h.r.heard, heard), append(lost, h.r.events...), nil
	return len(lost) > 0
}

func (h history) Acknowledge(events [][]byte) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	h.r.told = append(h.r.told, events...)
	h.r.events = h.r.events[len(events):]
}

// happen makes events that are told apart by their numbers, and wakes the reporter.
func (r *rig) happen(from, to uint64) {
	r.mu.Lock()
	for n := from; n <= to; n++ {
		r.events = append(r.events, process.Event{Stream: "s", Seq: n})
	}
	r.mu.Unlock()
	r.Happened()
}

// newsAfter is how long news waits for more of it.
const newsAfter = 50 * time.Millisecond

// take lets everything happen that is due with the news, and returns the reports since the last call.
func (r *rig) take() []wire.Report {
	pass(newsAfter)
	return r.now()
}

// now returns the reports since the last call, without any that would come later.
func (r *rig) now() []wire.Report {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got, r.sent, r.sizes = nil, nil, nil
	return got
}

// times says when the reports were sent that now has not returned, in seconds after the beginning.
func (r *rig) times() []float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// beganDelay is how long an operation runs before it is told of.
const tellAfter = 2 * time.Second

func id(name string) process.ID { return process.ID{Namespace: "ns", Name: name} }

func outcome(text string) process.Outcome { return process.Outcome{Text: text} }

// want compares reports, whose versions and order of observations are left out.
func (r *rig) want(got []wire.Report, want ...wire.Report) {
	r.t.Helper()
	for i := range got {
		if got[i].Version != wire.Version {
			r.t.Errorf("a report has version %d", got[i].Version)
		}
		got[i].Version = 0
		slices.SortFunc(got[i].Observed, func(a, b wire.Observation) int {
			return strings.Compare(a.Process.Name, b.Process.Name)
		})
		slices.SortFunc(got[i].Progress, func(a, b wire.Progress) int { return strings.Compare(a.Item, b.Item) })
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("reports (-want +got): %s", diff)
	}
}

func (r *rig) hello() *wire.Hello { return &wire.Hello{IP: "10.0.0.1", Build: "test", BootID: "boot"} }

// seen is what is told of a process whose spec the server has, first what is told before that.
func seen(name, state string) wire.Observation {
	return wire.Observation{Process: id(name), Status: process.Status{State: state}}
}

func first(name, state string) wire.Observation {
	o := seen(name, state)
	o.Spec = &process.Spec{Compat: &spec.Compat{Contact: name}}
	return o
}
