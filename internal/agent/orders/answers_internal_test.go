package orders

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/metrics"
	"drover/internal/agent/record"
	"drover/internal/agent/report"
	"drover/internal/agent/specstore"
	"drover/internal/agent/uplink"
	"drover/internal/process"
	"drover/internal/wire"
)

// desk is an agent that is asked: its disk and its reporter are real, the test is the supervisor and the server. It
// lives in a synctest bubble.
type desk struct {
	*Intake
	tracker  *Tracker
	reporter *report.Reporter
	store    *specstore.Store
	t        *testing.T
	disk     *notebook
	// takes says how long the answer to an item takes, and answers what it is; without one it is that of a success.
	takes   map[string]time.Duration
	answers map[string]process.Outcome
	limit   time.Duration
	// way is how long a report takes to the server.
	way time.Duration

	mu    sync.Mutex
	asked []record.Entry
	told  []wire.Progress
	// begun is what the last receipt says of questions that have begun, by their limits in seconds.
	begun map[string]int
}

// notebook is a disk on which something may come between: before what is noted is there, or after that.
type notebook struct {
	Disk
	before, after func()
}

func (n *notebook) Accept(entries []record.Entry) (fresh, known []record.Entry, err error) {
	n.before()
	fresh, known, err = n.Disk.Accept(entries)
	n.after()
	return fresh, known, err
}

// desks runs a test at a desk, whose reports arrive.
func desks(t *testing.T, test func(t *testing.T, d *desk)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := specstore.Open(dir, "this boot")
		if err != nil {
			t.Fatal(err)
		}
		none := func() {}
		log := slog.New(slog.DiscardHandler)
		d := &desk{
			t: t, store: store, disk: &notebook{Disk: store, before: none, after: none}, limit: 7 * time.Second,
			takes: map[string]time.Duration{}, answers: map[string]process.Outcome{},
		}
		linkState := uplink.NewLinkState(log)
		linkState.Connected()
		d.reporter = report.New(report.Config{
			Link: d, LinkState: linkState, Journal: store, Heartbeat: time.Hour, Log: log,
		})
		clock := func() time.Duration { return 0 }
		d.tracker = NewTracker(d.reporter, clock)
		d.Intake = New(Config{
			Disk: d.disk, Tracker: d.tracker, Questions: d, Clock: clock, Metrics: metrics.New("test"), Log: log,
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := d.reporter.Run(ctx, nobodyKnown{}, nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		test(t, d)
		cancel()
		running.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// nobodyKnown are no processes.
type nobodyKnown struct{}

func (nobodyKnown) ProcessIDs() []process.ID { return nil }

func (nobodyKnown) Snapshot(process.ID) (process.Status, *process.Spec, bool) {
	return process.Status{}, nil, false
}

// Submit is the desk's Queue: each question begins at once.
func (d *desk) Submit(questions []record.Entry) {
	d.mu.Lock()
	d.asked = append(d.asked, questions...)
	d.mu.Unlock()
	for _, q := range questions {
		go func() {
			d.tracker.Began(q.Item, d.limit)
			time.Sleep(d.takes[q.Item]) // the bubble's time
			d.finish(q.Item)
		}()
	}
}

func (d *desk) finish(item string) {
	d.tracker.Finished(item, d.outcome(item))
}

func (d *desk) outcome(item string) process.Outcome {
	if o, ok := d.answers[item]; ok {
		return o
	}
	return process.Outcome{Text: process.Success + " of " + item}
}

// Report is the desk's report.Link: a server that takes everything.
func (d *desk) Report(_ context.Context, data []byte) ([]byte, error) {
	var r wire.Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	time.Sleep(d.way) // the bubble's time
	d.mu.Lock()
	d.told = append(d.told, r.Progress...)
	d.mu.Unlock()
	return json.Marshal(wire.ReportAck{Version: wire.Version})
}

// ask asks for a receipt's worth of questions, and returns the answers, which have to be right, and what was noted.
func (d *desk) ask(ctx context.Context, items ...string) (answered, noted []string) {
	d.t.Helper()
	questions := make([]record.Entry, 0, len(items))
	for _, item := range items {
		questions = append(questions, record.Entry{
			Item: item, Process: process.ID{Namespace: "ns", Name: item},
			Op: process.Query,
		})
	}
	receipt := wire.Receipt{Begun: map[string]int{}}
	d.Intake.answer(ctx, questions, &receipt)
	noted = receipt.Accepted
	d.mu.Lock()
	d.begun = receipt.Begun
	d.mu.Unlock()
	soon := receipt.Answers
	for item, o := range soon {
		if diff := cmp.Diff(d.outcome(item), o); diff != "" {
			d.t.Errorf("%s (-want +got):\n%s", item, diff)
		}
	}
	return slices.Sorted(maps.Keys(soon)), noted
}

// pass lets time go by and everybody come to rest.
func (d *desk) pass(after time.Duration) {
	time.Sleep(after) // the bubble's time
	synctest.Wait()
}

// heard returns what reports have told since it was last called: items, behind those that have begun how long they may
// take.
func (d *desk) heard() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	var heard []string
	for _, p := range d.told {
		if p.Outcome == nil {
			heard = append(heard, p.Item+" within "+(time.Duration(p.Limit)*time.Second).String())
			continue
		}
		heard = append(heard, p.Item)
	}
	d.told = nil
	return heard
}

// onDisk returns the questions that a successor would answer.
func (d *desk) onDisk() []string {
	d.t.Helper()
	open, _, err := d.store.Journal()
	if err != nil {
		d.t.Fatal(err)
	}
	return itemsIn(open)
}

func (d *desk) timesAsked() []string { return itemsIn(d.asked) }

func itemsIn(entries []record.Entry) (items []string) {
	for _, e := range entries {
		items = append(items, e.Item)
	}
	return items
}

func (d *desk) want(what string, got []string, want ...string) {
	d.t.Helper()
	if !slices.Equal(got, want) {
		d.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestQuickQuestions are answered in the receipt, as soon as the last one is, and leave nothing anywhere.
func TestQuickQuestions(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		d.disk.before = func() { t.Error("a question was noted") }
		d.takes["b"] = 5 * time.Millisecond
		begin := time.Now()
		answered, noted := d.ask(t.Context(), "a", "b", "c")
		if took := time.Since(begin); took != 5*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		d.want("answered", answered, "a", "b", "c")
		d.want("noted", noted)
		d.pass(time.Minute)
		d.want("told in reports", d.heard())
		if n := len(d.tracker.answers.open); n != 0 {
			t.Errorf("%d questions are kept", n)
		}
		for _, q := range d.asked {
			if q.Boot != "this boot" { // else it would live by the wall clock
				t.Errorf("%s was accepted in boot %q", q.Item, q.Boot)
			}
		}
	})
}

// TestAnswersComeBehindTheState: as long as a state or an event is on its way to the server, an answer that knows of it
// is not ahead of it.
func TestAnswersComeBehindTheState(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		for name, happens := range map[string]func(){
			"state": func() { d.reporter.Changed(process.ID{Namespace: "ns", Name: "a"}) },
			"event": d.reporter.Happened,
		} {
			d.way = 50 * time.Millisecond
			happens()
			answered, noted := d.ask(t.Context(), name)
			d.want("answered before the "+name+" was there", answered)
			d.want("noted before the "+name+" was there", noted, name)
			d.pass(time.Second)
			d.want("told after the "+name, d.heard(), name)
			d.want("left on disk", d.onDisk())
			d.way = 0
			answered, noted = d.ask(t.Context(), "then")
			d.want("answered then", answered, "then")
			d.want("noted then", noted)
		}
	})
}

// TestSlowQuestions hold the receipt up for a while only. The server hears that they have begun, whether or not they
// run commands, before it hears that they are over; then nothing is left on disk.
func TestSlowQuestions(t *testing.T) {
	for name, limit := range map[string]time.Duration{"with commands": 7 * time.Second, "without": 0} {
		t.Run(name, func(t *testing.T) {
			desks(t, func(t *testing.T, d *desk) {
				d.limit = limit
				d.takes["slow"] = 3 * time.Second
				begin := time.Now()
				answered, noted := d.ask(t.Context(), "quick", "slow")
				if took := time.Since(begin); took != answerWithin {
					t.Errorf("the receipt was held up for %v", took)
				}
				d.want("answered", answered, "quick")
				d.want("noted", noted, "slow")
				d.want("on disk", d.onDisk(), "slow")
				if got := d.begun["slow"]; got != int(max(time.Second, limit).Seconds()) || len(d.begun) != 1 {
					t.Errorf("the receipt says that these have begun: %v", d.begun)
				}
				d.pass(time.Minute)
				d.want("told in reports", d.heard(), "slow within "+max(time.Second, limit).String(), "slow")
				d.want("on disk at last", d.onDisk())
			})
		})
	}
}

// TestQuestionThatBeginsLate: one that waits for its process first is told of when it begins.
func TestQuestionThatBeginsLate(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		d.cfg.Questions = forgetful{}
		d.ask(t.Context(), "a")
		d.pass(time.Minute)
		d.want("told before it has begun", d.heard())
		d.tracker.Began("a", 3*time.Second)
		d.pass(3 * time.Second)
		d.want("told", d.heard(), "a within 3s")
		d.finish("a")
		d.want("told at last", d.heard(), "a")
	})
}

// forgetful takes questions and does nothing.
type forgetful struct{}

func (forgetful) Submit([]record.Entry) {}

// TestQuestionIsNotOverBeforeItHasBegun: nobody can hear the answer while the reporter is told that it will take
// longer.
func TestQuestionIsNotOverBeforeItHasBegun(t *testing.T) {
	a := newAnswers()
	expected, _ := a.expect([]record.Entry{{Item: "a"}})
	a.began("a", time.Second)
	told := 0
	for range 2 {
		a.settle(expected[0], func(limit time.Duration) {
			told++
			if a.mu.TryLock() {
				t.Error("the answer may come meanwhile")
			}
			if limit != time.Second {
				t.Errorf("limit %v", limit)
			}
		})
	}
	if told != 1 {
		t.Errorf("it was told %d times that it has begun", told)
	}
}

// TestQuestionThatComesTwice while it has no answer is asked once, and all receipts have it.
func TestQuestionThatComesTwice(t *testing.T) {
	for name, c := range map[string]struct {
		takes   time.Duration
		first   []string
		reports []string
	}{
		"both in time":       {90 * time.Millisecond, []string{"a"}, nil},
		"one comes too late": {130 * time.Millisecond, nil, []string{"a within 7s", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			desks(t, func(t *testing.T, d *desk) {
				d.takes["a"] = c.takes
				var first []string
				var asking sync.WaitGroup
				asking.Go(func() { first, _ = d.ask(t.Context(), "a") })
				d.pass(50 * time.Millisecond)
				second, _ := d.ask(t.Context(), "a")
				asking.Wait()
				d.want("first receipt", first, c.first...)
				d.want("second receipt", second, "a")
				d.want("asked", d.timesAsked(), "a")
				d.pass(time.Minute)
				if got := d.heard(); len(c.reports) > 0 != slices.Contains(got, "a") {
					t.Errorf("told in reports: %q", got)
				}
				d.want("on disk at last", d.onDisk())
				d.ask(t.Context(), "a")
				d.want("asked again after it was over", d.timesAsked(), "a", "a")
				d.pass(time.Minute)
			})
		})
	}
}

// TestAnswerWhileTheQuestionIsNoted is in the receipt, and however soon the server has acknowledged it, no note is left
// for a successor.
func TestAnswerWhileTheQuestionIsNoted(t *testing.T) {
	for name, when := range map[string]func(d *desk, then func()){
		"before the note is there": func(d *desk, then func()) { d.disk.before = then },
		"after that":               func(d *desk, then func()) { d.disk.after = then },
	} {
		for name, receipts := range map[string]int{name: 1, "of a second receipt, " + name: 2} {
			t.Run(name, func(t *testing.T) {
				desks(t, func(t *testing.T, d *desk) {
					d.cfg.Questions = forgetful{}
					for range receipts - 1 {
						d.ask(t.Context(), "a")
					}
					when(d, func() {
						d.finish("a")
						d.pass(time.Minute) // what is to be reported is, and is acknowledged
					})
					answered, noted := d.ask(t.Context(), "a")
					d.want("answered", answered, "a")
					d.want("noted", noted)
					d.pass(time.Minute)
					d.want("on disk", d.onDisk())
				})
			})
		}
	}
}

// TestAnswersThatDoNotFit into a receipt, or can't be encoded, go into reports and keep no others from their place.
func TestAnswersThatDoNotFit(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		large := process.Outcome{Text: strings.Repeat("x", maxAnswers/2)}
		d.answers["large"], d.answers["larger"] = large, process.Outcome{Text: large.Text + large.Text}
		d.answers["second"] = large
		d.answers["odd"] = process.Outcome{Status: &process.Status{Instance: process.Instance{CPU: math.NaN()}}}
		answered, noted := d.ask(t.Context(), "odd", "larger", "large", "second", "small")
		d.want("answered", answered, "large", "small")
		d.want("noted", noted)
		d.pass(time.Minute)
		d.want("told in reports", d.heard(), "odd", "larger", "second")
	})
}

// TestQuestionsWhenTheAgentStops are noted at once, but for those that have their answer.
func TestQuestionsWhenTheAgentStops(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		d.takes["open"], d.takes["quick"] = time.Minute, time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Millisecond, cancel)
		begin := time.Now()
		answered, noted := d.ask(ctx, "open", "quick")
		if took := time.Since(begin); took != 2*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		d.want("answered", answered, "quick")
		d.want("noted", noted, "open")
		d.want("on disk", d.onDisk(), "open")
		d.pass(time.Hour)
	})
}

// TestQuestionsThatCannotBeNoted are neither answered nor accepted: they come again, and the answer goes into a report
// meanwhile.
func TestQuestionsThatCannotBeNoted(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		store := d.disk.Disk
		d.disk.Disk = fullDisk{store}
		d.takes["slow"] = 250 * time.Millisecond
		answered, noted := d.ask(t.Context(), "quick", "slow")
		d.want("answered", answered, "quick")
		d.want("noted", noted)
		d.disk.Disk = store
		_, noted = d.ask(t.Context(), "slow")
		d.want("noted when it comes again", noted, "slow")
		d.pass(time.Minute)
		d.want("asked", d.timesAsked(), "quick", "slow")
		if got := d.heard(); !slices.Contains(got, "slow") {
			t.Errorf("told in reports: %q", got)
		}
		d.want("on disk at last", d.onDisk())
	})
}

// fullDisk notes nothing.
type fullDisk struct{ Disk }

func (fullDisk) Accept([]record.Entry) (fresh, known []record.Entry, err error) {
	return nil, nil, syscall.ENOSPC
}

// TestQuestionsOfAnEarlierAgent are answered in reports. The server reminds a successor of those that it has accepted:
// they are asked once, too.
func TestQuestionsOfAnEarlierAgent(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		left := []record.Entry{
			{Item: "again", Op: process.Query},
			{Item: "once", Op: process.Query},
			{Item: "command", Op: process.Start},
		}
		if _, _, err := d.disk.Accept(left); err != nil {
			t.Fatal(err)
		}
		d.tracker.answers.adopt(left)
		if n := len(d.tracker.answers.open); n != 2 {
			t.Errorf("%d questions, want 2", n)
		}
		_, noted := d.ask(t.Context(), "again")
		d.want("noted", noted, "again")
		d.want("asked", d.timesAsked())
		d.tracker.Began("again", time.Second)
		d.pass(3 * time.Second)
		d.finish("once")
		d.finish("again")
		d.want("told in reports", d.heard(), "again within 1s", "once", "again")
		d.want("on disk at last", d.onDisk(), "command")
	})
}
