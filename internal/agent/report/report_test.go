package report_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/report"
	"drover/internal/process"
	"drover/internal/wire"
)

// rig is a reporter and the world around it: a server, processes, a journal. It lives in a synctest bubble.
type rig struct {
	*report.Reporter
	t *testing.T

	mu     sync.Mutex
	answer func(wire.Report) (wire.ReportAck, error)
	// got are all reports, sent when each came, in seconds.
	got   []wire.Report
	sent  []float64
	sizes []int
	known map[process.ID]process.Status
	specs map[process.ID]*process.Spec
	acked []string
	// full is why the journal takes nothing.
	full error
}

// bubble runs fn with a reporter that runs; before is called before it does.
func bubble(t *testing.T, before, fn func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, known: map[process.ID]process.Status{}, specs: map[process.ID]*process.Spec{}, answer: accept}
		r.Reporter = report.New(report.Config{
			Link: link{r, time.Now()}, Processes: r, Journal: r, Heartbeat: 5 * time.Second,
			Hello: wire.Hello{IP: "10.0.0.1", Build: "test", BootID: "boot"}, Log: slog.New(slog.DiscardHandler),
		})
		if before != nil {
			before(t, r)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		fn(t, r)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func accept(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{Version: wire.Version}, nil }

// link is the way to the server.
type link struct {
	r     *rig
	epoch time.Time
}

func (l link) Report(ctx context.Context, data []byte) ([]byte, error) {
	var rep wire.Report
	if err := json.Unmarshal(data, &rep); err != nil {
		l.r.t.Errorf("%v: %s", err, data)
	}
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 10*time.Second {
		l.r.t.Error("a report may take for ever")
	}
	l.r.mu.Lock()
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

func (r *rig) Known() []process.ID {
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
		r.specs[id] = &process.Spec{Contact: id.Name}
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

// take lets everything happen that is due, and returns the reports since the last call.
func (r *rig) take() []wire.Report {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got, r.sent, r.sizes = nil, nil, nil
	return got
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

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
		slices.SortFunc(got[i].Observed, func(a, b wire.Observation) int { return strings.Compare(a.Process.Name, b.Process.Name) })
		slices.SortFunc(got[i].Progress, func(a, b wire.Progress) int { return strings.Compare(a.Item, b.Item) })
	}
	if diff := cmp.Diff(want, got); diff != "" {
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
	o.Spec = &process.Spec{Contact: name}
	return o
}

// TestHello: the agent introduces itself first, after each connect and when it is asked to, with everything that it knows.
func TestHello(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.set(id("a"), process.Status{State: "running"})
		r.set(id("b"), process.Status{State: "stopped"})
	}, func(_ *testing.T, r *rig) {
		everything := wire.Report{Hello: r.hello(), Observed: []wire.Observation{first("a", "running"), first("b", "stopped")}}
		r.want(r.take(), everything)

		r.Connected()
		r.want(r.take(), everything)

		r.answers(func(rep wire.Report) (wire.ReportAck, error) { return wire.ReportAck{Hello: rep.Hello == nil}, nil })
		r.Changed(id("a"))
		r.want(r.take(), wire.Report{Observed: []wire.Observation{seen("a", "running")}}, everything)
	})
}

// TestHelloIsRepeatedUntilItArrives.
func TestHelloIsRepeatedUntilItArrives(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.set(id("a"), process.Status{State: "running"})
		r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("no responders") })
	}, func(_ *testing.T, r *rig) {
		everything := wire.Report{Hello: r.hello(), Observed: []wire.Observation{first("a", "running")}}
		pass(2 * time.Second)
		r.want(r.take(), everything, everything, everything)
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(), everything)
		pass(time.Second)
		r.want(r.take())
	})
}

// TestHeartbeat: an agent that has nothing to say says so.
func TestHeartbeat(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		pass(12 * time.Second)
		r.Changed(id("gone"))
		pass(6 * time.Second)
		if diff := cmp.Diff([]float64{0, 5, 10, 12, 17}, r.sent); diff != "" {
			t.Errorf("reports at (-want +got): %s", diff)
		}
		gone := wire.Report{Observed: []wire.Observation{{Process: id("gone"), Gone: true}}}
		r.want(r.take(), wire.Report{Hello: r.hello()}, wire.Report{}, wire.Report{}, gone, wire.Report{})
	})
}

// TestOutcome: an outcome is told until it is acknowledged, and then never again.
func TestOutcome(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		r.Began("item-1", 65*time.Second)
		r.want(r.take(), wire.Report{Progress: []wire.Progress{{Item: "item-1", Limit: 65}}})
		pass(4 * time.Second)
		r.want(r.take())

		told := wire.Report{Progress: []wire.Progress{{Item: "item-1", Outcome: &process.Outcome{Text: "success"}}}}
		for _, failure := range []func(wire.Report) (wire.ReportAck, error){
			func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("no responders") },
			func(wire.Report) (wire.ReportAck, error) {
				return wire.ReportAck{Error: "database is locked"}, nil
			},
		} {
			r.answers(failure)
			r.Finished("item-1", outcome("success"))
			pass(1500 * time.Millisecond)
			r.want(r.take(), told, told)
		}
		if len(r.acked) > 0 {
			t.Errorf("%v are taken as acknowledged", r.acked)
		}
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(), told)
		if diff := cmp.Diff([]string{"item-1"}, r.acked); diff != "" {
			t.Errorf("acknowledged (-want +got): %s", diff)
		}
		pass(2 * time.Second)
		r.want(r.take())
	})
}

// TestUnreadableAnswer, and one that never comes, count as none.
func TestUnreadableAnswer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		r.answers(nil)
		r.Finished("item-1", outcome("success"))
		pass(9 * time.Second)
		r.Finished("item-2", outcome("success"))
		pass(900 * time.Millisecond)
		first := wire.Progress{Item: "item-1", Outcome: &process.Outcome{Text: "success"}}
		second := wire.Progress{Item: "item-2", Outcome: &process.Outcome{Text: "success"}}
		r.want(r.take(), wire.Report{Progress: []wire.Progress{first}})
		r.answers(accept)
		pass(2 * time.Second)
		r.want(r.take(), wire.Report{Progress: []wire.Progress{first, second}})
		if diff := cmp.Diff([]string{"item-1", "item-2"}, r.acked); diff != "" {
			t.Errorf("acknowledged (-want +got): %s", diff)
		}
	})
}

// TestAcknowledgementThatIsNotNoted: what the journal does not know to be acknowledged is told again.
func TestAcknowledgementThatIsNotNoted(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		r.full = errors.New("no space left on device")
		r.Finished("item-1", outcome("success"))
		pass(500 * time.Millisecond)
		r.mu.Lock()
		r.full = nil
		r.mu.Unlock()
		pass(time.Second)
		if got := r.take(); len(got) != 2 || len(r.acked) != 1 {
			t.Errorf("%d reports, acknowledged %v", len(got), r.acked)
		}
	})
}

// TestBegunIsToldAgain to a server that may be another one, as long as it has not ended.
func TestBegunIsToldAgain(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		r.Began("item-1", 65*time.Second)
		r.Began("item-2", 0)
		r.take()
		r.Finished("item-2", outcome("success"))
		r.take()
		r.Connected()
		r.want(r.take(), wire.Report{Hello: r.hello(), Progress: []wire.Progress{{Item: "item-1", Limit: 65}}})
	})
	bubble(t, func(_ *testing.T, r *rig) {
		r.Began("short", 0)
	}, func(_ *testing.T, r *rig) {
		r.want(r.take(), wire.Report{Hello: r.hello(), Progress: []wire.Progress{{Item: "short", Limit: 1}}})
	})
}

// TestEndedBeforeItIsTold: an operation that began and ended while nobody listened is told as ended only.
func TestEndedBeforeItIsTold(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("no responders") })
		r.Began("item-1", time.Minute)
		synctest.Wait()
		r.Finished("item-1", outcome("success"))
		r.take()
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(), wire.Report{Progress: []wire.Progress{{Item: "item-1", Outcome: &process.Outcome{Text: "success"}}}})
	})
}

// TestLatestStateOnly: of what changes while a report is under way, or cannot be delivered, only the end counts.
func TestLatestStateOnly(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("no responders") })
		r.set(id("a"), process.Status{State: "starting"})
		synctest.Wait()
		for i := range 100 {
			r.set(id("a"), process.Status{State: fmt.Sprint(i)})
			r.set(id("b"), process.Status{State: "backoff"})
		}
		r.want(r.take(), wire.Report{Observed: []wire.Observation{first("a", "starting")}})
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(), wire.Report{Observed: []wire.Observation{first("a", "99"), first("b", "backoff")}})

		r.mu.Lock()
		delete(r.known, id("a"))
		r.mu.Unlock()
		r.Changed(id("a"))
		r.want(r.take(), wire.Report{Observed: []wire.Observation{{Process: id("a"), Gone: true}}})
	})
}

// TestSpecIsToldOnce: with the first state that arrives, when it is another one, and after each introduction.
func TestSpecIsToldOnce(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		observed := func(o wire.Observation) wire.Report { return wire.Report{Observed: []wire.Observation{o}} }
		r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("link lost") })
		r.set(id("a"), process.Status{State: "starting"})
		r.want(r.take(), observed(first("a", "starting")))
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(), observed(first("a", "starting")))
		r.set(id("a"), process.Status{State: "running"})
		r.want(r.take(), observed(seen("a", "running")))

		r.mu.Lock()
		r.specs[id("a")] = &process.Spec{Contact: "another"}
		r.mu.Unlock()
		r.Changed(id("a"))
		another := seen("a", "running")
		another.Spec = &process.Spec{Contact: "another"}
		r.want(r.take(), observed(another))
		r.Changed(id("a"))
		r.want(r.take(), observed(seen("a", "running")))

		r.Connected()
		r.want(r.take(), wire.Report{Hello: r.hello(), Observed: []wire.Observation{another}})

		r.mu.Lock()
		delete(r.known, id("a"))
		r.mu.Unlock()
		r.Changed(id("a"))
		r.want(r.take(), observed(wire.Observation{Process: id("a"), Gone: true}))
		r.set(id("a"), process.Status{State: "stopped"})
		another.Status.State = "stopped"
		r.want(r.take(), observed(another))
	})
}

// TestReconnectWhileAReportIsUnderWay: the answer to a report of before does not stand for the introduction.
func TestReconnectWhileAReportIsUnderWay(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		asked, goOn := make(chan struct{}), make(chan struct{})
		r.answers(func(wire.Report) (wire.ReportAck, error) {
			close(asked)
			<-goOn
			r.answers(accept)
			return wire.ReportAck{}, nil
		})
		r.set(id("a"), process.Status{State: "running"})
		<-asked
		r.Connected()
		close(goOn)
		r.want(r.take(), wire.Report{Observed: []wire.Observation{first("a", "running")}},
			wire.Report{Hello: r.hello(), Observed: []wire.Observation{first("a", "running")}})
	})
}

// TestAllChangesArrive: whatever happens at whatever moment of a report is told in the end.
func TestAllChangesArrive(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 300 {
					item := fmt.Sprintf("item-%d-%d", w, i)
					r.Began(item, time.Minute)
					r.set(id(fmt.Sprint(w)), process.Status{State: fmt.Sprint(i)})
					r.Finished(item, outcome(item))
				}
			})
		}
		wg.Wait()
		pass(time.Second)
		last, outcomes := map[string]string{}, map[string]int{}
		for _, rep := range r.take() {
			for _, o := range rep.Observed {
				last[o.Process.Name] = o.Status.State
			}
			for _, p := range rep.Progress {
				if p.Outcome != nil {
					outcomes[p.Item]++
				}
			}
		}
		if diff := cmp.Diff(map[string]string{"0": "299", "1": "299", "2": "299", "3": "299"}, last); diff != "" {
			t.Errorf("states (-want +got): %s", diff)
		}
		if len(outcomes) != 1200 || len(r.acked) != 1200 {
			t.Errorf("%d outcomes are told, %d acknowledged; want 1200", len(outcomes), len(r.acked))
		}
		for item, n := range outcomes {
			if n != 1 {
				t.Errorf("%s is told %d times", item, n)
			}
		}
	})
}
