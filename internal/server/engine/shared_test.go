package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/bus"
	"drover/internal/server/engine"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// other is a second engine over the rig's database, and what it has told.
type other struct {
	*engine.Engine
	bus   *bus.Bus
	mu    sync.Mutex
	tasks []string
	news  int
	turns []string
	deny  bool
}

// join makes a second engine, which does nothing before run.
func (r *rig) join() *other {
	o := &other{bus: bus.New(time.Now())}
	shared := &engine.Shared{
		Finished: func(tasks []string) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.tasks = append(o.tasks, tasks...)
		},
		Turn: func(_ context.Context, what string, _ time.Duration) (bool, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.turns = append(o.turns, what)
			return !o.deny, nil
		},
		Elsewhere: func(string) bool { return false },
	}
	o.bus.Share(func(topic bus.Topic) {
		if topic == bus.Events {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.news++
		}
	})
	o.Engine = engine.New(engine.Config{
		Store: r.db, Directory: r.directory, Link: r, Identity: r.guard(), Shared: shared, Bus: o.bus,
		Retention: time.Minute, Log: slog.New(slog.DiscardHandler),
	})
	return o
}

// run runs the engine until the returned function is called.
func (o *other) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestALeaseOfTheDead: what an engine that is no more has leased another one sends, although nobody has told it.
func TestALeaseOfTheDead(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		o := r.join()
		defer o.run(t)()
		dead := r.join() // it never runs
		err := dead.Submit(t.Context(), &store.Task{ID: "t", Requests: []store.Request{{
			Op: process.Start, Process: process.ID{Namespace: "ns", Name: "nginx"}, Spec: &process.Spec{},
			Targets: []store.Target{{ItemKey: "agent-0", Spelling: "agent-0", Agent: "agent-0"}},
		}}}, store.AuditRow{At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		r.pass(6 * time.Second)
		if n := len(r.taken()); n != 0 {
			t.Fatalf("%d manifests were sent while the item was another's", n)
		}
		r.pass(4 * time.Second)
		r.takenOne()
	})
}

// TestWhatOthersFinish: who waits for a task is told when another engine has its outcome, and finds it where that news
// is lost.
func TestWhatOthersFinish(t *testing.T) {
	for _, told := range []bool{true, false} {
		bubble(t, func(t *testing.T, r *rig) {
			o := r.join()
			defer o.run(t)()
			r.submit("t", process.Query, "agent-0")
			item := r.takenOne().Item
			ended := make(chan time.Time, 1)
			go func() {
				if err := o.Wait(t.Context(), "t"); err != nil {
					t.Error(err)
				}
				ended <- time.Now()
			}()
			synctest.Wait()
			begun := time.Now()
			r.finish("agent-0", item)
			most := 2 * time.Second
			if told {
				o.TasksEnded([]string{"t"})
				most = 0
			}
			if took := (<-ended).Sub(begun); took > most {
				t.Errorf("told: %t; the wait ended after %v", told, took)
			}
		})
	}
}

// TestEventsOfOthers: listeners hear of events that another engine has stored, told or not.
func TestEventsOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		o := r.join()
		defer o.run(t)()
		woken, stop := o.bus.Listen(bus.Events)
		defer stop()
		heard := func() bool {
			select {
			case <-woken:
				return true
			default:
				return false
			}
		}
		o.bus.Arrived(bus.Events)
		if !heard() {
			t.Error("it was told, and its listeners were not")
		}
		r.pass(10 * time.Second)
		if heard() {
			t.Error("listeners are woken by nothing")
		}
		r.report("agent-0",
			wire.Report{Events: lines(process.Event{
				Stream: "s", Seq: 1, Kind: process.EventStarted,
				At: time.Now().UnixMilli(),
			})})
		if heard() {
			t.Fatal("it knows already: nothing is tried")
		}
		r.pass(3 * time.Second)
		if !heard() {
			t.Error("new events are not found")
		}
	})
}

// TestWhatIsTold: an engine tells the others what it finishes and stores.
func TestWhatIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		o := r.join()
		defer o.run(t)()
		r.submit("t", process.Query, "agent-0")
		item := r.takenOne().Item
		r.Engine = o.Engine // it takes the reports from here on
		r.finish("agent-0", item)
		r.report("agent-0",
			wire.Report{Events: lines(process.Event{
				Stream: "s", Seq: 1, Kind: process.EventStarted,
				At: time.Now().UnixMilli(),
			})})
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.tasks) != 1 || o.tasks[0] != "t" || o.news != 1 {
			t.Errorf("told were tasks %q, and news %d times", o.tasks, o.news)
		}
	})
}

// TestOneCleans: an engine whose turn it is not removes nothing.
func TestOneCleans(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		o := r.join()
		o.deny = true
		defer o.run(t)()
		r.submit("t", process.Query, "agent-0")
		r.finish("agent-0", r.takenOne().Item)
		r.pass(2 * time.Hour)
		r.shows("t", process.Success)
		o.mu.Lock()
		o.deny = false
		asked := len(o.turns)
		o.mu.Unlock()
		if asked == 0 || o.turns[0] != "retention" {
			t.Errorf("turns that were asked for are %q", o.turns)
		}
		r.pass(2 * time.Hour)
		if err := r.db.TaskItems(t.Context(), "t", "", func(store.ItemView) error { return nil }); !errors.Is(err,
			store.ErrNotFound) {
			t.Errorf("the old task is there: %v", err)
		}
	})
}

// TestAnOlderReport: the state that a report tells is not taken once a later one of its session was, and one of another
// session has the agent introduce itself.
func TestAnOlderReport(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		state := func(session string, number int64, word string) wire.ReportAck {
			t.Helper()
			return r.report("agent-0", wire.Report{Session: session, Number: number, Observed: []wire.Observation{{
				Process: process.ID{Namespace: "ns", Name: "nginx"}, Status: process.Status{State: word},
			}}})
		}
		shown := func(want string) {
			t.Helper()
			err := r.db.GetObserved(t.Context(), process.ID{Namespace: "ns", Name: "nginx"}, []string{"agent-0"},
				func(o store.Observed) error {
					if o.Status.State != want {
						return errors.New("it shows " + o.Status.State)
					}
					return nil
				})
			if err != nil {
				t.Errorf("%v, want %s", err, want)
			}
		}
		state("one", 5, "running")
		if ack := state("one", 4, "stopped"); ack.Error == "" {
			t.Error("an older report was taken")
		}
		shown("running")
		if ack := state("two", 1, "stopped"); ack.Error != "" || !ack.Hello {
			t.Errorf("another session was answered %+v", ack)
		}
		shown("running")
	})
}

// TestAnOldIntroduction: one of an earlier run of the agent, sent again, counts for nothing, and is told which session
// is the last.
func TestAnOldIntroduction(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		hello := func(session string, number int64, build string, observed ...wire.Observation) wire.ReportAck {
			t.Helper()
			return r.report("agent-0", wire.Report{
				Session: session, Number: number, Hello: &wire.Hello{
					IP: "10.0.0.0", Build: build,
					Groups: map[string]string{"odd": build},
				},
				Observed: observed,
				Events: lines(process.Event{
					Stream: build, Seq: 1, Kind: process.EventExited,
					At: time.Now().UnixMilli(),
				}),
			})
		}
		if ack := hello("s1", 4, "old", observation("old", 1)); ack.Error != "" {
			t.Fatalf("the first run got %+v", ack)
		}
		if ack := hello("s2", 1, "new", observation("new", 2)); ack.Error != "" || ack.Session != "" {
			t.Fatalf("the second run got %+v", ack)
		}
		r.taken()
		cursor, err := r.db.LastCursor(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ack := hello("s1", 4, "old", observation("old", 1)); ack.Error == "" || ack.Session != "s2" || ack.Hello {
			t.Errorf("the first run, once more, got %+v", ack)
		}
		if d := cmp.Diff(map[string]int{"new": 2}, r.observed()); d != "" {
			t.Errorf("known processes (-want +got):\n%s", d)
		}
		a, _ := r.directory.ByKey("agent-0")
		after, err := r.db.LastCursor(t.Context())
		if sent := r.taken(); a.Build != "new" || after != cursor || err != nil || len(sent) != 0 {
			t.Errorf("it is of build %q, has %d events more, %v, and was sent %d manifests", a.Build, after-cursor, err,
				len(sent))
		}
	})
}

// TestAReportSentAgain: in its own session, too, whatever an agent has signed counts once and in its turn, and has
// nothing set again.
func TestAReportSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		hello := func(number int64, groups string) wire.ReportAck {
			t.Helper()
			ack := r.report("agent-0", wire.Report{
				Session: "s1", Number: number,
				Hello: &wire.Hello{IP: "10.0.0.0", Disk: &wire.Disk{}, Groups: map[string]string{"ns": groups}},
			})
			for _, m := range r.taken() {
				for _, o := range m.Orders {
					r.finish("agent-0", o.Item)
				}
			}
			return ack
		}
		tasks := func() int {
			t.Helper()
			list, err := r.db.ListAudit(t.Context(), store.AuditFilter{Action: "restore_process_groups", Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		hello(1, "odd")
		if n := tasks(); n != 1 {
			t.Fatalf("the groups were set again %d times", n)
		}
		hello(2, wire.GroupsDigest(nil))
		for range 3 {
			r.directory.RecordLinkLost("agent-0", time.Now())
			for number := range int64(3) {
				if ack := hello(number, "odd"); ack.Error == "" {
					t.Errorf("report %d, once more, was answered %+v", number, ack)
				}
			}
		}
		if n := tasks(); n != 1 {
			t.Errorf("the groups were set again %d times", n)
		}
	})
}

// TestAgentOfAnotherServer: what another engine may reach is not given up by the one that finds nobody, and is once
// that is over.
func TestAgentOfAnotherServer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.stop()
		var over atomic.Bool
		r.shared = &engine.Shared{
			Finished:  func([]string) {},
			Turn:      func(context.Context, string, time.Duration) (bool, error) { return true, nil },
			Elsewhere: func(agent string) bool { return agent == "agent-0" && !over.Load() },
		}
		r.start()
		r.pass(time.Hour)
		r.leave()
		r.submit("t", process.Start, "agent-0", "agent-1")
		r.pass(time.Minute)
		r.shows("t", "", unavailable)
		over.Store(true)
		r.pass(time.Second)
		r.shows("t", unavailable, unavailable)
	})
}
