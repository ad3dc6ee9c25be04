package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/rollout"
	"drover/internal/server/schedule"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/server/store/storetest"
)

// rig is a runner over a real database. It begins each run as a task for one host.
type rig struct {
	*sqlite.DB
	t      *testing.T
	runner *schedule.Runner
	now    time.Time
	// refusal rejects the person of the schedule, and state is that of runs that do not begin.
	refusal error
	state   store.RunState
	// dies fails before or after the task is stored.
	before, after        bool
	tried, begun, events int
	// away is how long the hosts have been away. settling says that they may have yet to tell what they did.
	away     time.Duration
	settling bool
	// noResult fails before the result of a run is stored, and between is called then.
	noResult bool
	between  func()
}

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newRig(t *testing.T) *rig {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := &rig{DB: db, t: t, now: epoch}
	r.runner = r.another()
	r.must(db.CreateSchedule(t.Context(), store.Schedule{
		Name: "nightly", App: "app", User: "anna", Created: epoch, Cron: "0 3 * * *", Zone: "UTC", Request: []byte("{}"),
		Looked: epoch,
	}))
	return r
}

// another returns a runner as of another server.
func (r *rig) another() *schedule.Runner {
	return schedule.New(schedule.Config{
		Store: r, Beginner: r, Rights: r, Hosts: r, Happened: func() { r.events++ },
		Now: func() time.Time { return r.now }, Clock: func() time.Time { return r.now }, Log: slog.New(slog.DiscardHandler),
	})
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) Acting(_ context.Context, app, user string) (access.Principal, error) {
	return access.Principal{App: app, User: user}, r.refusal
}

func (r *rig) EndRun(ctx context.Context, end store.RunEnd) error {
	if r.noResult {
		return errors.New("killed before the result")
	}
	if r.between != nil {
		r.between()
	}
	return r.DB.EndRun(ctx, end)
}

func (r *rig) LookupID(id string) (store.Agent, bool) { return store.Agent{Key: "key of " + id}, true }

func (r *rig) ByKey(key string) (store.Agent, bool) { return store.Agent{Key: key}, true }

func (r *rig) Presence(string, time.Time) fleet.Presence {
	return fleet.Presence{Away: r.away > 0, Since: r.now.Add(-r.away), Settling: r.settling}
}

func (r *rig) BeginRun(ctx context.Context, who access.Principal, s *store.Schedule, run store.ScheduleRun) (
	store.RunState, string, error,
) {
	if r.before {
		return "", "", errors.New("killed before the write")
	}
	if r.state != "" {
		return r.state, "reason", nil
	}
	r.tried++
	run.Task = fmt.Sprint("op-", r.tried)
	err := storetest.Create(ctx, r, &store.Task{
		ID: run.Task, App: who.App, User: who.User, Created: r.now, Run: &run, Reason: "schedule " + s.Name,
		Requests: []store.Request{{
			Op: process.Restart, Process: process.ID{Namespace: "shop", Name: "web"}, Spec: &process.Spec{},
			Targets: []store.Target{{ItemKey: "k", Spelling: "web-1", Agent: "key of web-1"}},
		}},
	}, store.AuditRow{})
	if err == nil {
		r.begun++
	}
	if r.after {
		return "", "", errors.New("killed after the write")
	}
	return store.RunRunning, "", err
}

// to sets the clock, and has runners look.
func (r *rig) to(day, hour, minute int, runners ...*schedule.Runner) (wait time.Duration) {
	r.t.Helper()
	r.now = time.Date(2026, 1, day, hour, minute, 0, 0, time.UTC)
	for _, k := range append(runners, r.runner) {
		var err error
		if wait, err = k.Round(r.t.Context()); err != nil && !r.before && !r.after {
			r.t.Fatal(err)
		}
	}
	return wait
}

// finish ends the tasks.
func (r *rig) finish(fault process.Fault) {
	r.t.Helper()
	items, err := r.LeaseItems(r.t.Context(), r.now.AddDate(1, 0, 0), r.now.AddDate(2, 0, 0), 100)
	r.must(err)
	for _, it := range items {
		_, err := r.Finish(r.t.Context(), storetest.Reported(it.Agent, map[string]process.Outcome{
			it.ID: {Fault: fault, Text: "why " + strings.Repeat("x", 1000)},
		}))
		r.must(err)
	}
}

// runs returns the runs, oldest first.
func (r *rig) runs() (list []string) {
	r.t.Helper()
	runs, err := r.ListRuns(r.t.Context(), "nightly", 100)
	r.must(err)
	for _, run := range slices.Backward(runs) {
		text := fmt.Sprint(run.Due.Format("02 15:04"), " ", run.State)
		if run.Count > 1 {
			text += fmt.Sprint(" x", run.Count)
		}
		list = append(list, text)
	}
	return list
}

func (r *rig) want(runs ...string) {
	r.t.Helper()
	if got := r.runs(); !slices.Equal(got, runs) {
		r.t.Errorf("the runs are %q, want %q", got, runs)
	}
}

// TestRuns: a run begins at its time, once, and its end is recorded. A run that is due while it goes on is skipped.
func TestRuns(t *testing.T) {
	r := newRig(t)
	if wait := r.to(1, 20, 0); wait != 10*time.Second {
		t.Errorf("it looks again after %s", wait)
	}
	r.now = time.Date(2026, 1, 2, 2, 59, 57, 0, time.UTC)
	if wait, err := r.runner.Round(t.Context()); err != nil || wait != 3*time.Second {
		t.Errorf("three seconds before a run it looks again after %s, error %v", wait, err)
	}
	r.want()
	r.to(2, 3, 0, r.another())
	r.to(2, 3, 0)
	r.want("02 03:00 running")
	r.to(3, 3, 0)
	r.want("02 03:00 running", "03 03:00 skipped")
	r.finish(process.None)
	r.to(4, 3, 0)
	r.want("02 03:00 ok", "03 03:00 skipped", "04 03:00 running")
	if r.begun != 2 || r.events != 0 {
		t.Errorf("%d runs began, %d events", r.begun, r.events)
	}
	s, err := r.GetSchedule(t.Context(), "nightly", "")
	r.must(err)
	if s.MissedRuns != 0 {
		t.Errorf("%d runs are missed", s.MissedRuns)
	}
}

// TestRunAfterARestart: a run is not skipped for an earlier one as long as its host may have yet to tell that it ended.
func TestRunAfterARestart(t *testing.T) {
	r := newRig(t)
	r.to(2, 3, 0)
	r.settling = true
	if wait := r.to(3, 3, 0, r.another()); wait > 2*time.Second {
		t.Errorf("it looks again after %s", wait)
	}
	r.want("02 03:00 running")
	r.finish(process.None)
	r.to(3, 3, 0)
	r.want("02 03:00 ok", "03 03:00 running")
}

// TestFailedRun: it is an event of the host that failed, once.
func TestFailedRun(t *testing.T) {
	r := newRig(t)
	r.to(2, 3, 0)
	r.finish(process.CheckFailed)
	r.to(2, 3, 1, r.another())
	r.to(2, 3, 2)
	r.want("02 03:00 failed")
	events, _, err := r.EventsAfter(t.Context(), 0, store.EventFilter{}, 10)
	r.must(err)
	if len(events) != 1 || r.events != 1 {
		t.Fatalf("the events are %+v, %d wakes", events, r.events)
	}
	e := events[0]
	if e.Agent != "key of web-1" || e.Event.Kind != process.EventScheduleFailed || e.Event.Process.Name != "web" ||
		!strings.HasPrefix(e.Event.Cause.Text, "schedule nightly: 1 of 1 targets failed; the first: shop/web on web-1: why x") ||
		len(e.Event.Cause.Text) > 700 {
		t.Errorf("the event is %+v", e)
	}
}

// told returns the events of a kind and their places, oldest first.
func (r *rig) told() (list []string) {
	r.t.Helper()
	events, _, err := r.EventsAfter(r.t.Context(), 0, store.EventFilter{}, 100)
	r.must(err)
	for _, e := range events {
		list = append(list, fmt.Sprint(e.Event.Kind, " ", e.Event.Schedule, " ", e.Event.Process, " ", e.Agent))
	}
	return list
}

// TestOneAlarm: runs that fail again and again are one alarm, until a run succeeds or somebody removes the schedule.
func TestOneAlarm(t *testing.T) {
	r := newRig(t)
	const failed, recovered = "schedule-failed nightly shop/web key of web-1", "schedule-recovered nightly shop/web key of web-1"
	day := 2
	run := func(fault process.Fault) {
		r.to(day, 3, 0)
		r.finish(fault)
		r.to(day, 3, 1, r.another())
		day++
	}
	run(process.None)
	for range 3 {
		run(process.CheckFailed)
	}
	r.state = store.RunEmpty
	r.to(day, 3, 0) // a run that does not begin says nothing
	day++
	r.state = ""
	if got := r.told(); !slices.Equal(got, []string{failed}) {
		t.Errorf("three failed runs tell %q", got)
	}
	run(process.None)
	run(process.None)
	if got := r.told(); !slices.Equal(got, []string{failed, recovered}) {
		t.Errorf("after two runs that succeed they have told %q", got)
	}
	run(process.CheckFailed)
	if told, err := r.RemoveSchedule(t.Context(), "nightly", "", r.now); err != nil || !told {
		t.Errorf("the removal tells: %t, %v", told, err)
	}
	if got := r.told(); !slices.Equal(got, []string{failed, recovered, failed, recovered}) {
		t.Errorf("with the removal they have told %q", got)
	}
}

// TestRemovedMeanwhile: the end of a run of a schedule that somebody has just removed begins no alarm, because nothing
// would end it. The same holds for a run that another server has ended.
func TestRemovedMeanwhile(t *testing.T) {
	for name, meanwhile := range map[string]func(r *rig){
		"removed": func(r *rig) {
			_, err := r.RemoveSchedule(t.Context(), "nightly", "", r.now)
			r.must(err)
		},
		"ended": func(r *rig) {
			open, err := r.OpenRuns(t.Context())
			r.must(err)
			open[0].State = store.RunOK
			r.must(r.DB.EndRun(t.Context(), store.RunEnd{Run: open[0]}))
		},
	} {
		r := newRig(t)
		r.to(2, 3, 0)
		r.finish(process.CheckFailed)
		r.between = func() {
			r.between = nil
			meanwhile(r)
		}
		r.to(2, 3, 1)
		r.to(2, 3, 2)
		if got := r.told(); len(got) > 0 || r.events > 0 {
			t.Errorf("%s: it has told %q", name, got)
		}
	}
}

// TestAlarmOfATimeThatComesAgain: after a clock was set back, a time comes a second time. Its run can fail again.
func TestAlarmOfATimeThatComesAgain(t *testing.T) {
	r := newRig(t)
	run := func(day int, fault process.Fault) {
		r.to(day, 3, 0)
		r.finish(fault)
		r.to(day, 3, 1)
	}
	run(3, process.CheckFailed)
	run(4, process.None)
	r.to(2, 12, 0) // the clock was ahead
	run(3, process.CheckFailed)
	const failed, recovered = "schedule-failed nightly shop/web key of web-1", "schedule-recovered nightly shop/web key of web-1"
	if got := r.told(); !slices.Equal(got, []string{failed, recovered, failed}) {
		t.Errorf("they have told %q", got)
	}
}

// TestResultDies: a runner that dies before the result tells nothing, and the next one tells the event once.
func TestResultDies(t *testing.T) {
	r := newRig(t)
	r.to(2, 3, 0)
	r.finish(process.CheckFailed)
	r.noResult = true
	r.now = r.now.Add(time.Minute)
	if _, err := r.runner.Round(t.Context()); err == nil {
		t.Fatal("the loss of a result is no error")
	}
	r.noResult = false
	r.to(2, 3, 2, r.another())
	if got := r.told(); len(got) != 1 {
		t.Errorf("it has told %q", got)
	}
}

// TestFailedRollout: a run without a failed host is an event, too, of its first host.
func TestFailedRollout(t *testing.T) {
	for name, change := range map[string]func(*rollout.Rollout) error{
		"the rollout was aborted": (*rollout.Rollout).Abort,
		"no host was connected": func(ro *rollout.Rollout) error {
			ro.State, ro.Hosts[0].State, ro.Hosts[0].Cause = rollout.Done, rollout.Skipped, rollout.CauseAway
			return nil
		},
	} {
		r := newRig(t)
		web := process.ID{Namespace: "shop", Name: "web"}
		hosts := []rollout.Host{{Agent: "key of web-1", Name: "web-1", Steps: []int{0}}}
		r.must(r.CreateRollouts(t.Context(), []*store.Rollout{{
			ID: "ro", App: "app", User: "anna", Created: r.now, Op: process.Restart, Total: 1,
			Steps: []store.RolloutStep{{Op: process.Restart, Process: web}}, Rollout: rollout.New(rollout.Plan{}, time.Time{}, hosts),
			Schedule: "nightly", Run: &store.ScheduleRun{
				Schedule: "nightly", Created: epoch, Due: epoch.Add(15 * time.Hour), State: store.RunRunning, Count: 1, Rollout: "ro",
				Looked: epoch,
			},
		}}, store.AuditRow{}))
		_, err := r.ChangeRollout(t.Context(), "ro", "", store.RolloutChange{}, change)
		r.must(err)
		r.to(2, 3, 1)
		r.want("02 03:00 failed")
		events, _, err := r.EventsAfter(t.Context(), 0, store.EventFilter{
			Kinds: []process.EventKind{process.EventScheduleFailed},
		}, 10)
		r.must(err)
		if len(events) != 1 || events[0].Agent != "key of web-1" || events[0].Event.Process != web ||
			events[0].Event.Cause.Text != "schedule nightly: "+name {
			t.Errorf("%s: the events are %+v", name, events)
		}
	}
}

// TestMissed: runs that were due while no server ran are counted, and only the one of this minute begins.
func TestMissed(t *testing.T) {
	r := newRig(t)
	r.to(5, 12, 0)
	r.want("05 03:00 missed x4")
	r.to(8, 3, 1)
	r.want("05 03:00 missed x4", "07 03:00 missed x2", "08 03:00 running")
	s, err := r.GetSchedule(t.Context(), "nightly", "")
	r.must(err)
	if s.MissedRuns != 6 || !strings.Contains(text(t, r, 1), "no server ran from 2026-01-06T03:00:00Z to 2026-01-07T03:00:00Z") {
		t.Errorf("%d are missed: %s", s.MissedRuns, text(t, r, 1))
	}
}

// text returns the text of the latest run but n.
func text(t *testing.T, r *rig, n int) string {
	t.Helper()
	runs, err := r.ListRuns(t.Context(), "nightly", 100)
	r.must(err)
	return runs[n].Text
}

// TestRefused: a person without rights, a selection of nothing, and another rollout.
func TestRefused(t *testing.T) {
	r := newRig(t)
	r.refusal = &gate.Refusal{Reason: gate.UserDisabled}
	r.to(2, 3, 0)
	if got := text(t, r, 0); got != "the user of the schedule is disabled" {
		t.Errorf("the reason is %q", got)
	}
	r.refusal = nil
	for day, state := range map[int]store.RunState{3: store.RunEmpty} {
		r.state = state
		r.to(day, 3, 0)
	}
	r.state = store.RunSkipped
	r.to(4, 3, 0)
	r.state = store.RunMissed
	r.to(5, 3, 0)
	r.want("02 03:00 missed", "03 03:00 empty", "04 03:00 skipped", "05 03:00 missed")
	s, err := r.GetSchedule(t.Context(), "nightly", "")
	r.must(err)
	if s.MissedRuns != 2 {
		t.Errorf("%d are missed", s.MissedRuns)
	}
	_, err = r.PauseSchedule(t.Context(), "nightly", "", true, r.now)
	r.must(err)
	r.state = ""
	r.to(6, 3, 0)
	_, err = r.PauseSchedule(t.Context(), "nightly", "", false, r.now)
	r.must(err)
	r.to(7, 2, 0)
	if r.begun != 0 || len(r.runs()) != 4 {
		t.Errorf("during a pause %d runs began: %q", r.begun, r.runs())
	}
}

// TestCannotBegin: a run that the server could not begin for a minute is missed, and not because no server ran.
func TestCannotBegin(t *testing.T) {
	r := newRig(t)
	r.before = true
	r.to(2, 3, 0)
	r.to(2, 3, 1)
	r.to(2, 3, 2)
	r.to(5, 3, 2)
	r.want("02 03:00 missed", "05 03:00 missed x3")
	if got := text(t, r, 1); got != "the server could not begin it, for a reason in its log" {
		t.Errorf("the reason is %q", got)
	}
	if got := text(t, r, 0); !strings.HasPrefix(got, "no server ran from") {
		t.Errorf("later the reason is %q", got)
	}
	if n := r.runner.Failures(); n != 0 {
		t.Errorf("it remembers %d runs after its decision", n)
	}
	r.to(6, 3, 0)
	if n := r.runner.Failures(); n != 1 {
		t.Errorf("it remembers %d runs that could not begin", n)
	}
	_, err := r.RemoveSchedule(t.Context(), "nightly", "", r.now)
	r.must(err)
	r.to(6, 3, 1)
	if n := r.runner.Failures(); n != 0 {
		t.Errorf("it remembers %d runs of no schedule", n)
	}
}

// TestRunnerDies: before and after the write of a run. Each run begins once.
func TestRunnerDies(t *testing.T) {
	r := newRig(t)
	r.before = true
	r.to(2, 3, 0)
	r.want()
	r.before, r.after = false, true
	r.to(2, 3, 0)
	r.after = false
	r.runner = r.another()
	r.to(2, 3, 0)
	r.want("02 03:00 running")
	r.before = true
	r.finish(process.None)
	r.to(3, 3, 0)
	r.before = false
	r.to(3, 3, 5) // too late by then
	r.want("02 03:00 ok", "03 03:00 missed")
	if r.begun != 1 {
		t.Errorf("%d runs began", r.begun)
	}
}

// TestClockWasAhead: a clock that was ahead delays no run, decides no later time, and hides no run.
func TestClockWasAhead(t *testing.T) {
	r := newRig(t)
	r.to(9, 3, 0) // a week ahead
	r.finish(process.None)
	r.to(9, 3, 1)
	r.want("08 03:00 missed x7", "09 03:00 ok")
	r.to(1, 13, 0, r.another())
	r.want()
	r.to(2, 3, 0)
	r.want("02 03:00 running")
	r.to(2, 3, 1) // a small step back repeats nothing
	r.now = r.now.Add(-2 * time.Minute)
	r.to(2, 2, 59)
	r.finish(process.None)
	r.to(2, 3, 0)
	r.want("02 03:00 ok")
	r.to(9, 3, 0)
	r.to(3, 2, 0) // while the run goes on
	r.finish(process.None)
	r.to(3, 3, 0)
	r.to(9, 3, 0)
	r.want("02 03:00 ok", "03 02:00 ok", "03 03:00 running", "08 03:00 missed x5", "09 03:00 skipped")
}

// TestClockOfEachHour: after a step back of an hour, a schedule of each hour goes on with the clock, as periodic
// processes do.
func TestClockOfEachHour(t *testing.T) {
	r := newRig(t)
	_, err := r.RemoveSchedule(t.Context(), "nightly", "", r.now)
	r.must(err)
	r.must(r.CreateSchedule(t.Context(), store.Schedule{
		Name: "nightly", App: "app", User: "anna", Created: epoch, Cron: "*/30 * * * *", Zone: "UTC", Request: []byte("{}"),
		Looked: epoch,
	}))
	r.to(1, 12, 30)
	r.finish(process.None)
	r.to(1, 13, 0)
	r.finish(process.None)
	r.to(1, 12, 5)
	r.want()
	r.to(1, 12, 30)
	r.want("01 12:30 running")
}

// resting is a database without schedules.
type resting struct {
	schedule.Store
	looks int
}

func (r *resting) OpenRuns(context.Context) ([]store.ScheduleRun, error) { return nil, nil }

func (r *resting) ListSchedules(context.Context, string) ([]store.Schedule, error) {
	r.looks++
	return nil, nil
}

// TestAtRest: without due runs the runner waits for a word.
func TestAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, woken := &resting{}, make(chan struct{}, 1)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- schedule.New(schedule.Config{Store: db, Woken: woken, Now: time.Now, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
		}()
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if db.looks != 6 {
			t.Errorf("it looks %d times a minute", db.looks)
		}
		woken <- struct{}{}
		synctest.Wait()
		if db.looks != 7 {
			t.Errorf("after a word it has looked %d times, want once", db.looks-6)
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
