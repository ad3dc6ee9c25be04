package supervisor_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// TestOrder: operations on one process run one after another, different processes side by side.
func TestOrder(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.spec("a"), r.spec("b")
		items := []string{
			r.submit(process.Start, "a", a), r.submit(process.Stop, "a", a), r.submit(process.Stop, "a", a),
			r.submit(process.Start, "a", a),
			r.submit(process.Start, "b", b),
		}
		r.pass(0)
		if got := sorted(r.Lines()); !slices.Equal(got, []string{"start a", "start b"}) {
			t.Errorf("%v have run side by side", got)
		}
		if want := []string{items[0], items[4]}; !slices.Equal(r.sink.begun(), want) {
			t.Errorf("%v have begun, want %v", r.sink.begun(), want)
		}
		r.pass(time.Minute)
		r.expect(items[0], process.None, "success")
		r.expect(items[1], process.None, "success")
		r.expect(items[2], process.NotRunning, "no need to stop the process(a) that is not running")
		r.expect(items[3], process.None, "success")
		r.expect(items[4], process.None, "success")
		if got := r.sink.limits[0]; got != 65*time.Second {
			t.Errorf("a start is said to take up to %v", got)
		}
		if got := slices.DeleteFunc(r.Lines(), func(line string) bool { return line == "start b" }); !slices.Equal(got,
			[]string{"start a", "stop a", "start a"}) {
			t.Errorf("%v have run one after another", got)
		}
	})
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// TestOperationWaitsForTheRelaunch: what is asked for during a relaunch comes after it.
func TestOperationWaitsForTheRelaunch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		r.Script("start a", operationtest.Script{Takes: 5 * time.Second, End: func(run string) {
			r.Spawn("a", file("a"), run)
		}})
		r.Kill(file("a"))
		r.pass(time.Second)
		r.state("a", "starting", true)
		item := r.submit(process.Stop, "a", s)
		r.pass(time.Second)
		r.ran("start a", "start a")
		r.pass(time.Hour)
		r.expect(item, process.None, "success")
		r.ran("start a", "start a", "stop a")
		r.state("a", "stopped", false)
	})
}

// TestStartCancelsThePlannedRelaunch: a start that comes while a relaunch is planned is the only one.
func TestStartCancelsThePlannedRelaunch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		r.starts("a", crashing(r, "a", time.Second))
		r.Kill(file("a"))
		r.pass(5 * time.Second)
		r.state("a", "backoff", true)
		r.do(process.Start, "a", r.spec("a"))
		r.pass(time.Hour)
		r.ran("start a", "start a", "start a")
		r.state("a", "running", true)
	})
}

// TestQueryDisturbsNothing: a question is answered at once, even in the middle of a backoff, and leaves the watch on.
func TestQueryDisturbsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		who := r.instance("a")
		for range 3 {
			r.submit(process.Query, "a", s)
		}
		item := r.submit(process.Query, "a", nil)
		synctest.Wait()
		o, _ := r.sink.outcome(item)
		if o.Status == nil || o.Status.Instance.PID != who.PID || !o.Hosted {
			t.Errorf("outcome %+v", o)
		}
		if n := r.Watched(who); n != 1 {
			t.Errorf("%d watches are on the process", n)
		}
		r.state("a", "running", true)
		r.Kill(file("a"))
		r.pass(2 * time.Second)
		r.state("a", "running", true)
	})
}

// TestOutcomeIsStoredBeforeItIsTold: while the disk takes nothing, nobody hears of the outcome, and no later operation
// runs.
func TestOutcomeIsStoredBeforeItIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.disk.refuse(errors.New("no space left on device"))
		first, second := r.submit(process.Start, "a", s), r.submit(process.Stop, "a", s)
		r.pass(time.Minute)
		if o, told := r.sink.outcome(first); told {
			t.Errorf("outcome %+v is told although it is not stored", o)
		}
		r.ran("start a")
		r.disk.refuse(nil)
		r.pass(time.Minute)
		r.expect(first, process.None, "success")
		r.expect(second, process.None, "success")
		r.ran("start a", "stop a")
	})
}

func TestExpiredOrderIsNotBegun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		expires := time.Now().Add(24 * time.Hour) // of a clock that was stepped: it does not count
		late := record.Entry{Item: "late", Process: id("a"), Op: process.Reload, Spec: s, BeginBy: r.Clock() +
			3*time.Second, Expires: expires, Boot: r.disk.boot}
		r.submit(process.Start, "a", s)
		r.disk.accept(late)
		r.Submit([]record.Entry{late})
		r.pass(time.Minute)
		r.expect("late", process.Failed, "expired: the operation was not begun by "+expires.UTC().Format(time.RFC3339))
		r.ran("start a")
		r.state("a", "running", true)
		if slices.Contains(r.sink.begun(), "late") {
			t.Error("it is said to have begun")
		}
	})
}

// TestUnknownProcessesAreForgotten: whatever is asked about a process that nobody knows leaves no goroutine and no
// record.
func TestUnknownProcessesAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var items []string
		for i := range 50 {
			name := fmt.Sprintf("p%d", i)
			s := r.spec(name)
			items = append(items,
				r.submit(process.Query, name, s), r.submit(process.Unhost, name, nil),
				r.submit(process.Query, name, nil), r.submit(process.Unregister, name, nil),
			)
		}
		r.pass(time.Second)
		for _, item := range items {
			if _, ok := r.sink.outcome(item); !ok {
				t.Errorf("%s has no outcome", item)
			}
		}
		if n := r.Runners(); n != 0 {
			t.Errorf("%d processes have a goroutine of their own", n)
		}
		if known := r.ProcessIDs(); len(known) > 0 {
			t.Errorf("%v are known", known)
		}
		if r.sink.changed != 0 {
			t.Errorf("%d changes of unknown processes are told", r.sink.changed)
		}
	})
}

// TestOneAfterTheOther: operations that come just when the one before has ended find the process, known or not.
func TestOneAfterTheOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		for i := range 200 {
			item := r.submit(process.Query, "a", s)
			if i%3 == 0 {
				synctest.Wait()
			}
			if i%50 == 0 {
				r.do(process.Register, "a", s)
				r.do(process.Unregister, "a", s)
			}
			synctest.Wait()
			r.expect(item, process.None, "success")
		}
	})
}

// TestNothingIsLost: whoever submits what and when, every operation has its outcome, also while processes come and go.
func TestNothingIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const submitters, each = 4, 500
		var wg sync.WaitGroup
		for n := range submitters {
			wg.Go(func() {
				for i := range each {
					e := record.Entry{
						Item: fmt.Sprintf("item-%d-%d", n, i), Process: id("a"), Op: process.Query,
						Spec: &process.Spec{}, BeginBy: r.Clock() + time.Hour, Boot: r.disk.boot,
					}
					r.disk.accept(e)
					r.Submit([]record.Entry{e})
				}
			})
		}
		wg.Wait()
		r.pass(time.Second)
		if _, open := r.disk.taken(); len(open) > 0 {
			t.Errorf("%d of %d operations have no outcome", len(open), submitters*each)
		}
	})
}

// TestRuntimeIsKeptBeforeTheOutcome: an agent that dies just after it has stored an outcome has noted the instance, and
// the run that it belongs to, before.
func TestRuntimeIsKeptBeforeTheOutcome(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.handle.onFinish = func(string) {
			who := r.instance("a")
			if rt := r.disk.runtime(id("a")); rt.Process == nil || *rt.Process != who || rt.Run == "" {
				t.Errorf("%v runs, and noted is %+v", who, rt)
			}
		}
		r.do(process.Start, "a", s)
		r.do(process.Restart, "a", s)
		r.do(process.Reload, "a", s)
	})
}

func TestUnregister(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		who := r.instance("a")
		r.do(process.Unregister, "a", nil)
		if _, _, ok := r.Snapshot(id("a")); ok || len(r.ProcessIDs()) > 0 {
			t.Error("it is still known")
		}
		if rec, ok := r.disk.record(id("a")); ok {
			t.Errorf("it is still stored: %+v", rec)
		}
		if diff := cmp.Diff(record.Runtime{}, r.disk.runtime(id("a"))); diff != "" {
			t.Errorf("its runtime is still stored: %s", diff)
		}
		if now := r.instance("a"); now != who || r.Watched(who) != 0 {
			t.Errorf("%v is %v, watched %d times", who, now, r.Watched(who))
		}
		r.Kill(file("a"))
		r.pass(time.Hour)
		r.kill()
		r.begin()
		r.pass(time.Hour)
		r.ran("start a")

		// A new one of that name has nothing of the old one.
		r.do(process.Host, "a", s)
		if s := r.state("a", "backoff", true); s.LastStartAt != 0 {
			t.Errorf("it is said to have been started at %d", s.LastStartAt)
		}
	})
}

// TestSnapshot is what others see of a process.
func TestSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		r.pass(10 * time.Second)
		got, spec, ok := r.Snapshot(id("a"))
		started := time.Now().Add(-15 * time.Second).Unix()
		want := process.Status{
			Known: true, Hosted: true, Want: process.WantRunning, Revision: 1, State: "running", ProcName: "a",
			RegisteredAt: started + 5, LastStartAt: started, ReportedAt: time.Now().Unix(),
			Instance: process.Instance{PID: r.instance("a").PID, Cmdline: "a", Stat: "S", StartedAt: started},
		}
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("(-want +got): %s", diff)
		}
		if diff := cmp.Diff(s, spec); diff != "" {
			t.Errorf("spec (-want +got): %s", diff)
		}
		if diff := cmp.Diff(map[string]bool{operationtest.RunID(id("a"), 1): true}, r.Runs()); diff != "" {
			t.Errorf("runs (-want +got): %s", diff)
		}
		if _, _, ok := r.Snapshot(id("b")); ok {
			t.Error("a process that nobody knows has a status")
		}
		if diff := cmp.Diff([]process.ID{id("a")}, r.ProcessIDs()); diff != "" {
			t.Errorf("known (-want +got): %s", diff)
		}
		r.do(process.Stop, "a", s)
		if s := r.state("a", "stopped", false); s.Instance.PID != -1 || s.RegisteredAt != started+5 ||
			s.LastStartAt != started {
			t.Errorf("after its stop: %+v", s)
		}
	})
}

// TestWhatIsNotWantedDoesNotBegin: an operation whose turn comes waits for the word on whether it is, a kill does not
// wait for that, and who stops meanwhile leaves it to a successor.
func TestWhatIsNotWantedDoesNotBegin(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var asked []string
		said := r.asksBefore(func(item string) bool {
			asked = append(asked, item)
			return true
		})
		s := r.spec("a")
		ended, wanted := r.submit(process.Start, "a", s), r.submit(process.Start, "a", s)
		said <- false
		r.pass(time.Second)
		r.expect(ended, process.Cancelled, "cancelled: the operation was not begun")
		if lines := r.Lines(); len(lines) > 0 {
			t.Errorf("%v have run", lines)
		}
		said <- true
		r.pass(time.Minute)
		r.expect(wanted, process.None, "success")
		overtaken := r.submit(process.Reload, "a", s)
		r.pass(time.Second)
		kill := r.submit(process.Kill, "a", s)
		r.pass(time.Second)
		r.expect(overtaken, process.Failed, "ended by a kill")
		said <- true
		r.pass(time.Minute)
		r.expect(kill, process.None, "success")
		left := r.submit(process.Start, "a", s)
		r.pass(time.Second)
		r.stop()
		r.mayBegin = nil
		r.begin()
		r.pass(time.Minute)
		r.expect(left, process.None, "success")
		if want := []string{ended, wanted, overtaken, kill, left}; !slices.Equal(asked, want) {
			t.Errorf("it has asked about %v, want %v", asked, want)
		}
	})
}
