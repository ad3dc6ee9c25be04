package orders

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/agent/record"
	"drover/internal/process"
	"drover/internal/wire"
)

// handedOn is a queue that notes what it gets: "item", or "item late" where it can only be ended.
type handedOn struct{ items []string }

func (q *handedOn) Submit(entries []record.Entry) {
	for _, e := range entries {
		item := e.Item
		if e.Expired("boot", time.Hour/2, time.Now()) {
			item += " late"
		}
		q.items = append(q.items, item)
	}
}

// asking is a gate that the test plays the server of; the clock of the servers began at epoch when the host was
// booted.
type asking struct {
	*gate
	t     *testing.T
	queue *handedOn

	mu       sync.Mutex // the time that passes orders nothing between goroutines
	now      time.Duration
	requests int
}

func (a *asking) since() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

func (a *asking) pass(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now += d
}

// asked returns how often it has asked since the last call.
func (a *asking) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.requests
	a.requests = 0
	return n
}

var epoch = time.Unix(1e9, 0)

func newAsking(t *testing.T) *asking {
	a := &asking{t: t, queue: &handedOn{}}
	a.gate = &gate{clock: a.since, requestReport: func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.requests++
	}}
	return a
}

func (a *asking) server() time.Time { return epoch.Add(a.since()) }

// report sends a report whose answer takes some time, and is written when half of that is over.
func (a *asking) report(takes time.Duration, ack wire.ReportAck) (open []string) {
	r := wire.Report{Open: a.unsure()}
	a.pass(takes / 2)
	ack.At = a.server().UnixMilli()
	a.pass(takes / 2)
	a.answer(&r, &ack)
	return r.Open
}

// submit has orders come, which begin if they may.
func (a *asking) submit(orders []record.Entry, until time.Time) {
	a.queue.Submit(a.admit(orders, until))
}

func (a *asking) answer(r *wire.Report, ack *wire.ReportAck) {
	a.queue.Submit(a.answered(r, ack))
}

// gets fails unless these were handed on since it was last called.
func (a *asking) gets(want ...string) {
	a.t.Helper()
	if !slices.Equal(a.queue.items, want) {
		a.t.Errorf("handed on were %q, want %q", a.queue.items, want)
	}
	a.queue.items = nil
}

func orders(items ...string) []record.Entry {
	all := commands(items...)
	for i := range all {
		all[i].Boot = "boot"
	}
	return all
}

func TestOrdersThatComeInTimeBeginAtOnce(t *testing.T) {
	a := newAsking(t)
	a.submit(orders("before the clock is known"), a.server().Add(3*time.Second))
	a.gets()
	a.report(20*time.Millisecond, wire.ReportAck{})
	a.gets("before the clock is known")
	a.asked()
	a.pass(time.Hour / 4)
	a.submit(orders("1", "2"), a.server().Add(3*time.Second))
	a.submit(nil, time.Time{})
	a.gets("1", "2")
	if n := a.asked(); n != 0 {
		t.Errorf("it has asked %d times", n)
	}
}

// TestBusy: as long as an order waits for its turn or has begun.
func TestBusy(t *testing.T) {
	a := newAsking(t)
	a.report(20*time.Millisecond, wire.ReportAck{})
	a.submit(orders("1", "2"), a.server().Add(3*time.Second))
	if wanted, err := a.mayBegin(t.Context(), "1"); !wanted || err != nil {
		t.Errorf("the first may begin: %v, %v", wanted, err)
	}
	for _, item := range []string{"1", "2"} {
		if !a.busy() {
			t.Errorf("it is not busy before the end of %s", item)
		}
		a.forget(item)
	}
	if a.busy() {
		t.Error("it is busy after the end of all")
	}
}

// TestOrdersThatComeLateAreAskedAbout: what lay in a queue while the host was frozen, or came over a network that hung,
// begins only if the server still wants it.
func TestOrdersThatComeLateAreAskedAbout(t *testing.T) {
	a := newAsking(t)
	a.report(20*time.Millisecond, wire.ReportAck{})
	until := a.server().Add(3 * time.Second)
	a.pass(3 * time.Second)
	a.submit(orders("1", "2", "3"), until)
	a.gets()
	if n := a.asked(); n != 1 {
		t.Errorf("it has asked %d times", n)
	}
	// An answer that is an error, or anybody's, decides nothing.
	a.report(0, wire.ReportAck{Error: "database away"})
	a.gets()
	// One that comes again in time is wanted.
	a.queue.Submit(a.readmit(orders("3", "never held"), a.server().Add(3*time.Second)))
	a.queue.Submit(a.readmit(orders("1"), until))
	a.gets("3")
	if open := a.report(time.Second, wire.ReportAck{Ended: []string{"1", "another"}}); !slices.Equal(open,
		[]string{"1", "2"}) {
		t.Errorf("it has asked about %q", open)
	}
	a.gets("1", "2")
	for item, want := range map[string]bool{"1": false, "2": true} {
		if may, err := a.mayBegin(t.Context(), item); may != want || err != nil {
			t.Errorf("order %s may begin: %v %v, want %v", item, may, err, want)
		}
	}
	if open := a.report(0, wire.ReportAck{}); len(open) > 0 {
		t.Errorf("it still asks about %q", open)
	}
}

// TestClockOfTheServersIsNeverTakenForEarlier: an answer on which somebody sat makes the agent ask, and never begin
// what is late.
func TestClockOfTheServersIsNeverTakenForEarlier(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Second, time.Minute} {
		a := newAsking(t)
		a.report(0, wire.ReportAck{})
		a.report(takes, wire.ReportAck{})
		a.submit(orders("late"), a.server().Add(-2*time.Millisecond))
		a.gets()
	}
}

// turn has the turn of an order come, and returns how it ends: "begun", "ended", or "stopped" where ctx ends first.
func (a *asking) turn(ctx context.Context, item string) <-chan string {
	said := make(chan string, 1)
	go func() {
		switch wanted, err := a.mayBegin(ctx, item); {
		case err != nil:
			said <- "stopped"
		case wanted:
			said <- "begun"
		default:
			said <- "ended"
		}
	}()
	return said
}

// TestAnOrderWhoseTurnComesLateIsAskedAbout: it was in time, but has had to wait for another one, and nobody knows
// whether the server has heard that it was taken. So the server's word counts, which may come before the turn does.
func TestAnOrderWhoseTurnComesLateIsAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t)
		a.report(0, wire.ReportAck{})
		until := a.server().Add(3 * time.Second)
		a.submit(orders("1", "2", "3", "4", "5", "6"), until)
		a.gets("1", "2", "3", "4", "5", "6")
		if got := <-a.turn(t.Context(), "1"); got != "begun" {
			t.Errorf("in time it is %s", got)
		}
		a.forget("6")
		if open := a.report(0, wire.ReportAck{}); len(open) > 0 {
			t.Errorf("in time it asks about %q", open)
		}
		a.pass(4 * time.Second)
		time.Sleep(4 * time.Second) // the timer's clock is another one
		synctest.Wait()
		if a.asked() == 0 {
			t.Error("it does not ask before the turn comes")
		}
		two := a.turn(t.Context(), "2")
		stopping, stop := context.WithCancel(t.Context())
		three := a.turn(stopping, "3")
		synctest.Wait()
		stop()
		if got := <-three; got != "stopped" {
			t.Errorf("when the agent stops it is %s", got)
		}
		// An error decides nothing.
		a.report(0, wire.ReportAck{Error: "database away"})
		synctest.Wait()
		select {
		case got := <-two:
			t.Errorf("without the server's word it is %s", got)
		default:
		}
		if open := a.report(0, wire.ReportAck{Ended: []string{"2", "4"}}); !slices.Equal(open,
			[]string{"2", "3", "4", "5"}) {
			t.Errorf("it asks about %q", open)
		}
		for item, want := range map[string]string{"4": "ended", "5": "begun", "3": "begun"} {
			if got := <-a.turn(t.Context(), item); got != want {
				t.Errorf("%s is %s, want %s", item, got, want)
			}
		}
		if got := <-two; got != "ended" {
			t.Errorf("it is %s", got)
		}
		if open := a.report(0, wire.ReportAck{}); len(open) > 0 || len(a.pending) > 0 {
			t.Errorf("it still asks about %q, and keeps %v", open, a.pending)
		}
		// Where there is no word it ends when it may no longer begin anyway.
		held := orders("7")
		held[0].BeginBy = a.since() + time.Minute
		a.submit(held, a.server().Add(3*time.Second))
		a.pass(2 * time.Minute)
		a.queue.Submit(a.expire("boot"))
		if got := <-a.turn(t.Context(), "7"); got != "ended" {
			t.Errorf("without a word it is %s", got)
		}
		time.Sleep(time.Minute) // no timer is left
	})
}

// TestOrdersThatNobodyAnswersFor: they are handed on to be ended once they may no longer begin, and not before.
func TestOrdersThatNobodyAnswersFor(t *testing.T) {
	a := newAsking(t)
	held := orders("1", "2")
	held[0].BeginBy = time.Minute
	a.hold(held)
	a.pass(time.Minute - a.since())
	a.queue.Submit(a.expire("boot"))
	a.gets()
	a.pass(time.Second)
	a.queue.Submit(a.expire("boot"))
	a.gets("1 late")
	if open := a.report(0, wire.ReportAck{}); !slices.Equal(open, []string{"2"}) {
		t.Errorf("it asks about %q", open)
	}
}

func TestManyOrdersAreAskedAboutInTurn(t *testing.T) {
	a := newAsking(t)
	var items []string
	for n := range maxAsked + 1 {
		items = append(items, fmt.Sprint(n))
	}
	a.hold(orders(items...))
	a.report(0, wire.ReportAck{})
	if n := a.asked(); n != 1 || len(a.queue.items) != maxAsked {
		t.Errorf("%d were handed on, and it has asked %d times more", len(a.queue.items), n)
	}
	a.report(0, wire.ReportAck{})
	a.gets(items...)
}

// TestWhatAnEarlierAgentHasLeft: what it had begun goes on, and what it had not is asked about; after a reboot nothing
// of a command is begun.
func TestWhatAnEarlierAgentHasLeft(t *testing.T) {
	entry := func(item string, op process.Op, boot string) record.Entry {
		return record.Entry{Item: item, Op: op, Boot: boot}
	}
	underway, unsure := divide([]record.Entry{
		entry("begun", process.Start, "boot"), entry("waiting", process.Start, "boot"),
		entry("question", process.Query, "boot"),
		entry("before the reboot", process.Stop, "earlier"), entry("flag", process.Host, "earlier"),
		entry("begun flag", process.Unhost, "earlier"),
	}, "boot", func(item string) bool { return item == "begun" || item == "begun flag" })
	if got := itemsOf(underway); !slices.Equal(got, []string{"begun", "question", "before the reboot", "begun flag"}) {
		t.Errorf("under way are %q", got)
	}
	if got := itemsOf(unsure); !slices.Equal(got, []string{"waiting", "flag"}) {
		t.Errorf("asked about are %q", got)
	}
}

// TestCancellationThatCannotBeStored: a held order stays as it was, and the next cancellation ends it.
func TestCancellationThatCannotBeStored(t *testing.T) {
	a := newAsking(t)
	a.report(20*time.Millisecond, wire.ReportAck{})
	a.submit(orders("held"), a.server().Add(-time.Second))
	if !a.cancel("held") {
		t.Fatal("it cannot be cancelled")
	}
	a.uncancel([]string{"held"})
	if !a.gate.holds("held") || len(a.cancelled) > 0 {
		t.Errorf("the gate holds %v, and has cancelled %v", a.gate.heldOrders, a.cancelled)
	}
	if !a.cancel("held") {
		t.Fatal("it cannot be cancelled again")
	}
	a.ended([]string{"held"})
	if len(a.gate.heldOrders)+len(a.cancelled) > 0 {
		t.Errorf("the gate keeps %v and %v", a.gate.heldOrders, a.cancelled)
	}
}

// TestCancelledOrdersNeverBegin: an order is cancelled in every state before its beginning, and in none after it.
func TestCancelledOrdersNeverBegin(t *testing.T) {
	a := newAsking(t)
	a.report(20*time.Millisecond, wire.ReportAck{})
	until := a.server().Add(time.Minute)
	a.submit(orders("queued", "begun"), until)
	a.submit(orders("held"), a.server().Add(-time.Second))
	if may, err := a.mayBegin(t.Context(), "begun"); !may || err != nil {
		t.Fatalf("an order in time may begin: %v %v", may, err)
	}
	for item, want := range map[string]bool{"queued": true, "held": true, "begun": false} {
		if got := a.cancel(item); got != want {
			t.Errorf("%s: it is cancelled: %v, want %v", item, got, want)
		}
	}
	a.ended([]string{"queued", "held"})
	if may, _ := a.mayBegin(t.Context(), "queued"); may {
		t.Error("a cancelled order may begin")
	}
	if open := a.report(0, wire.ReportAck{}); len(open) > 0 {
		t.Errorf("the agent asks about %q", open)
	}
	for _, item := range []string{"queued", "begun"} {
		a.forget(item)
	}
	if len(a.begun)+len(a.cancelled)+len(a.pending)+len(a.gate.heldOrders) > 0 {
		t.Errorf("the gate keeps %v %v %v %v", a.begun, a.cancelled, a.pending, a.gate.heldOrders)
	}
}

// TestClockBoundTightens: an order that was late by the bound of the servers' clock of a slow answer, and is in time by
// the bound of a faster answer, is asked about all the same. Nothing else would wake the queue that waits for the word.
func TestClockBoundTightens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t)
		a.report(0, wire.ReportAck{})
		a.submit(orders("x"), a.server().Add(3*time.Second))
		a.gets("x")
		a.report(8*time.Second, wire.ReportAck{}) // the clock of the servers may be four seconds later than it is
		a.submit(orders("y"), a.server().Add(5*time.Second))
		r, at := wire.Report{Open: a.unsure()}, a.server() // a report that is answered at once, and whose answer is slow
		a.pass(2 * time.Second)
		began := make(chan bool, 1)
		go func() {
			may, err := a.mayBegin(t.Context(), "y")
			began <- may && err == nil
		}()
		synctest.Wait()
		a.answer(&r, &wire.ReportAck{At: at.UnixMilli()})
		if open := a.report(0, wire.ReportAck{}); !slices.Contains(open, "y") {
			t.Errorf("the report asks about %q, want y too", open)
		}
		synctest.Wait()
		select {
		case may := <-began:
			if !may {
				t.Error("the order does not begin")
			}
		default:
			t.Error("the order waits for an answer that nobody requests")
		}
	})
}
