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
	"drover/internal/server/gate"
	"drover/internal/server/schedule"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/server/store/storetest"
)

// rig is a keeper over a real database. It begins each run as a task for one host.
type rig struct {
	*sqlite.DB
	t      *testing.T
	keeper *schedule.Keeper
	now    time.Time
	// refusal rejects the person of the schedule, and state is that of runs that do not begin.
	refusal error
	state   store.RunState
	// dies fails before or after the task is stored.
	before, after bool
	begun, events int
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
	r.keeper = r.another()
	r.must(db.CreateSchedule(t.Context(), store.Schedule{
		Name: "nightly", App: "app", User: "anna", Created: epoch, Cron: "0 3 * * *", Zone: "UTC", Request: []byte("{}"),
		Looked: epoch,
	}))
	return r
}

// another returns a keeper as of another server.
func (r *rig) another() *schedule.Keeper {
	return schedule.New(schedule.Config{
		Store: r, Beginner: r, Rights: r, Hosts: r, Happened: func() { r.events++ },
		Now: func() time.Time { return r.now }, Log: slog.New(slog.DiscardHandler),
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

func (r *rig) LookupID(id string) (store.Agent, bool) { return store.Agent{Key: "key of " + id}, true }

func (r *rig) BeginRun(ctx context.Context, who access.Principal, s *store.Schedule, run store.ScheduleRun) (
	store.RunState, string, error,
) {
	if r.before {
		return "", "", errors.New("killed before the write")
	}
	if r.state != "" {
		return r.state, "reason", nil
	}
	run.Task = fmt.Sprint("op-", run.Due.Unix())
	err := storetest.Create(ctx, r, &store.Task{
		ID: run.Task, App: who.App, User: who.User, Created: r.now, Run: &run, Schedule: s.Name,
		Requests: []store.Request{{
			Op: process.Restart, Process: process.ID{Namespace: "shop", Name: "web"}, Spec: &process.Spec{},
			Targets: []store.Target{{Key: "k", Asked: "web-1", Agent: "key of web-1"}},
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

// to sets the clock, and has keepers look.
func (r *rig) to(day, hour, minute int, keepers ...*schedule.Keeper) (wait time.Duration) {
	r.t.Helper()
	r.now = time.Date(2026, 1, day, hour, minute, 0, 0, time.UTC)
	for _, k := range append(keepers, r.keeper) {
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
	items, err := r.LeaseItems(r.t.Context(), r.now.Add(time.Hour), r.now.Add(2*time.Hour), 100)
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
	if wait, err := r.keeper.Round(t.Context()); err != nil || wait != 3*time.Second {
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
	if s.Missed != 0 {
		t.Errorf("%d runs are missed", s.Missed)
	}
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

// TestMissed: runs that were due while no server ran are counted, and only the one of this minute begins.
func TestMissed(t *testing.T) {
	r := newRig(t)
	r.to(5, 12, 0)
	r.want("05 03:00 missed x4")
	r.to(8, 3, 1)
	r.want("05 03:00 missed x4", "07 03:00 missed x2", "08 03:00 running")
	s, err := r.GetSchedule(t.Context(), "nightly", "")
	r.must(err)
	if s.Missed != 6 || !strings.Contains(text(t, r, 1), "no server ran from 2026-01-06T03:00:00Z to 2026-01-07T03:00:00Z") {
		t.Errorf("%d are missed: %s", s.Missed, text(t, r, 1))
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
	if s.Missed != 2 {
		t.Errorf("%d are missed", s.Missed)
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

// TestKeeperDies: before and after the write of a run. Each run begins once.
func TestKeeperDies(t *testing.T) {
	r := newRig(t)
	r.before = true
	r.to(2, 3, 0)
	r.want()
	r.before, r.after = false, true
	r.to(2, 3, 0)
	r.after = false
	r.keeper = r.another()
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

// TestAtRest: without due runs the keeper waits for a word.
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
