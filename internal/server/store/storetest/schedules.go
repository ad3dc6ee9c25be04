//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

func newSchedule(name string) store.Schedule {
	return store.Schedule{
		Name: name, App: "app", User: "anna", Created: at(1), Cron: "0 3 * * *", Zone: "Europe/Berlin", Message: "why",
		Request: []byte(`{"op":"restart"}`), Looked: epoch,
	}
}

func newRun(s store.Schedule, due time.Time, state store.RunState) store.ScheduleRun {
	return store.ScheduleRun{
		Schedule: s.Name, Created: s.Created, Due: due, State: state, Text: "text", Count: 1, Looked: s.Looked,
	}
}

func schedules(t *testing.T, s store.Store) {
	nightly, weekly := newSchedule("nightly"), newSchedule("weekly")
	weekly.App, weekly.Paused = "another", true
	must(t, s.CreateSchedule(t.Context(), weekly))
	must(t, s.CreateSchedule(t.Context(), nightly))
	if err := s.CreateSchedule(t.Context(), nightly); !errors.Is(err, store.ErrExists) {
		t.Errorf("a taken name gives %v", err)
	}
	list, err := s.ListSchedules(t.Context(), "")
	must(t, err)
	same(t, "schedules", []store.Schedule{nightly, weekly}, list)
	list, err = s.ListSchedules(t.Context(), "app")
	must(t, err)
	same(t, "schedules of an app", []store.Schedule{nightly}, list)
	if _, err := s.GetSchedule(t.Context(), "nightly", "another"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another app gets %v", err)
	}

	missed := newRun(nightly, at(time.Hour), store.RunMissed)
	missed.Count, missed.Ended = 7, at(2*time.Hour)
	must(t, s.PutRun(t.Context(), missed))
	got, err := s.GetSchedule(t.Context(), "nightly", "app")
	must(t, err)
	if got.MissedRuns != 7 || !got.Looked.Equal(at(time.Hour)) || got.Last == nil || got.Last.Count != 7 ||
		!got.Last.Ended.Equal(missed.Ended) {
		t.Errorf("after a missed run: %+v", got)
	}
	if err := s.PutRun(t.Context(), newRun(nightly, at(2*time.Hour), store.RunEmpty)); !errors.Is(err, store.ErrDecided) {
		t.Errorf("a run from an old state gives %v", err)
	}

	for _, paused := range []bool{true, true, false, false} { // each twice changes nothing more
		got, err = s.PauseSchedule(t.Context(), "nightly", "app", paused, at(3*time.Hour))
		must(t, err)
		same(t, "paused", paused, got.Paused)
		if paused {
			if err := s.PutRun(t.Context(), newRun(got, at(2*time.Hour), store.RunEmpty)); !errors.Is(err, store.ErrDecided) {
				t.Errorf("a run of a paused schedule gives %v", err)
			}
		}
	}
	same(t, "looked after the pause", at(3*time.Hour), got.Looked)
	if _, err := s.PauseSchedule(t.Context(), "weekly", "app", true, epoch); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the pause of another app's schedule gives %v", err)
	}

	if _, err := s.RemoveSchedule(t.Context(), "nightly", "another", at(0)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the removal by another app gives %v", err)
	}
	told, err := s.RemoveSchedule(t.Context(), "nightly", "", at(0))
	must(t, err)
	same(t, "events about the alarm of a schedule without one", false, told)
	again := newSchedule("nightly")
	again.Created, again.Looked = at(9), got.Looked
	must(t, s.CreateSchedule(t.Context(), again))
	runs, err := s.ListRuns(t.Context(), "nightly", 10)
	must(t, err)
	same(t, "runs of a new schedule with an old name", 0, len(runs))
	if err := s.PutRun(t.Context(), newRun(got, at(4*time.Hour), store.RunEmpty)); !errors.Is(err, store.ErrDecided) {
		t.Errorf("a run of the old schedule gives %v", err)
	}
}

// scheduleRuns: a run is stored with its task, once, and only from the state that its server has read.
func scheduleRuns(t *testing.T, s store.Store) {
	nightly := newSchedule("nightly")
	must(t, s.CreateSchedule(t.Context(), nightly))
	begin := func(id string, run store.ScheduleRun) error {
		run.Task = id
		return Create(t.Context(), s, &store.Task{
			ID: id, Created: epoch, Run: &run, Reason: "schedule " + run.Schedule, Asks: true,
			Requests: []store.Request{request(process.Start, id, "a")},
		}, store.AuditRow{At: epoch})
	}
	run := newRun(nightly, at(time.Hour), store.RunRunning)
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() { errs[i] = begin(fmt.Sprint("t", i), run) })
	}
	group.Wait()
	begun, id := 0, ""
	for i, err := range errs {
		switch {
		case err == nil:
			begun++
			id = fmt.Sprint("t", i)
		case !errors.Is(err, store.ErrDecided):
			t.Errorf("a second server gets %v", err)
		}
	}
	if begun != 1 {
		t.Fatalf("%d servers begin the same run", begun)
	}
	tasks, err := s.ListTasks(t.Context(), store.TaskFilter{}, 0, 10)
	must(t, err)
	if len(tasks) != 1 || tasks[0].ID != id || tasks[0].Reason != "schedule nightly" {
		t.Errorf("the tasks are %+v", tasks)
	}
	if it := leaseOne(t, s, at(time.Minute)); !it.Asks || it.Reason != "schedule nightly" {
		t.Errorf("the item is %+v", it)
	}
	open, err := s.OpenRuns(t.Context())
	must(t, err)
	if len(open) != 1 || open[0].Task != id {
		t.Errorf("the open runs are %+v", open)
	}

	nightly.Looked = at(time.Hour)
	if err := begin("next", newRun(nightly, at(2*time.Hour), store.RunRunning)); !errors.Is(err, store.ErrRunning) {
		t.Errorf("a run beside another one gives %v", err)
	}
	byHand := newRun(nightly, at(90*time.Minute), store.RunRunning)
	byHand.User, byHand.Looked = "ben", time.Time{}
	if err := begin("by hand", byHand); !errors.Is(err, store.ErrRunning) {
		t.Errorf("a run by hand beside another one gives %v", err)
	}
	if _, err := s.GetTask(t.Context(), "by hand", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the task of a refused run: %v", err)
	}
	ended := open[0]
	ended.State, ended.Text, ended.Ended = store.RunFailed, "because", at(2*time.Hour)
	failing := store.ObservedKey{Agent: "a", Process: process.ID{Namespace: "shop", Name: "web"}}
	end := store.RunEnd{Run: ended, Failing: failing, AlarmEvent: alarm(t, "first", process.EventScheduleFailed), Agent: "a"}
	must(t, s.EndRun(t.Context(), end))
	end.Run.State, end.Failing, end.AlarmEvent = store.RunOK, store.ObservedKey{}, alarm(t, "again", process.EventScheduleRecovered)
	if err := s.EndRun(t.Context(), end); !errors.Is(err, store.ErrDecided) {
		t.Errorf("a second end of a run gives %v", err)
	}
	failed, err := s.GetSchedule(t.Context(), "nightly", "")
	must(t, err)
	same(t, "failing", failing, failed.Failing)
	must(t, begin("by hand", byHand))
	got, err := s.GetSchedule(t.Context(), "nightly", "")
	must(t, err)
	same(t, "looked after a run by hand", nightly.Looked, got.Looked)

	byRollout := newRun(nightly, at(3*time.Hour), store.RunRunning)
	byRollout.Rollout = "ro-1"
	r := newRollout("ro-1", "a")
	r.Run, r.Schedule = &byRollout, "nightly"
	if err := createRollout(t.Context(), s, r, store.AuditRow{}); !errors.Is(err, store.ErrRunning) {
		t.Errorf("a rollout beside a run gives %v", err)
	}
	byHand.Task, byHand.State = "by hand", store.RunOK
	must(t, s.EndRun(t.Context(), store.RunEnd{Run: byHand}))
	must(t, createRollout(t.Context(), s, r, store.AuditRow{}))
	stored, err := s.GetRollout(t.Context(), "ro-1", "")
	must(t, err)
	same(t, "schedule of the rollout", "nightly", stored.Schedule)
	listed, err := s.ListSchedules(t.Context(), "")
	must(t, err)
	same(t, "failing after a success", store.ObservedKey{}, listed[0].Failing)
	runs, err := s.ListRuns(t.Context(), "nightly", 10)
	must(t, err)
	var brief []string
	for _, r := range runs {
		brief = append(brief, fmt.Sprint(r.Due.Sub(epoch), " ", r.State, " ", r.Text, " ", r.Rollout, r.User))
	}
	same(t, "runs", []string{"3h0m0s running text ro-1", "1h30m0s ok text ben", "1h0m0s failed because "}, brief)
}

// scheduleRunsKept: the store keeps the latest runs, and each run that goes on.
func scheduleRunsKept(t *testing.T, s store.Store) {
	often := newSchedule("often")
	must(t, s.CreateSchedule(t.Context(), often))
	must(t, s.PutRun(t.Context(), newRun(often, at(0).Add(time.Second), store.RunRunning)))
	often.Looked = at(time.Second)
	for i := range store.KeptRuns + 5 {
		due := at(time.Duration(i+1) * time.Minute)
		must(t, s.PutRun(t.Context(), newRun(often, due, store.RunEmpty)))
		often.Looked = due
	}
	runs, err := s.ListRuns(t.Context(), "often", 1000)
	must(t, err)
	if n := len(runs); n != store.KeptRuns+1 || runs[n-1].State != store.RunRunning {
		t.Errorf("%d runs are kept, the oldest is %+v", n, runs[n-1])
	}
}

// schedulesCorrected: a clock that was ahead leaves no run of the future, once.
func schedulesCorrected(t *testing.T, s store.Store) {
	a, other := newSchedule("a"), newSchedule("b")
	must(t, s.CreateSchedule(t.Context(), a))
	must(t, s.CreateSchedule(t.Context(), other))
	for i, state := range []store.RunState{store.RunEmpty, store.RunEmpty, store.RunRunning} {
		due := at(time.Duration(i+1) * time.Hour)
		must(t, s.PutRun(t.Context(), newRun(a, due, state)))
		a.Looked = due
	}
	must(t, s.PutRun(t.Context(), newRun(other, at(3*time.Hour), store.RunEmpty)))
	now := at(90 * time.Minute)
	must(t, s.CorrectSchedule(t.Context(), a, now))
	if err := s.CorrectSchedule(t.Context(), a, now); !errors.Is(err, store.ErrDecided) {
		t.Errorf("a second correction gives %v", err)
	}
	got, err := s.GetSchedule(t.Context(), "a", "")
	must(t, err)
	same(t, "looked", now, got.Looked)
	for name, want := range map[string]string{
		"a": "[1h30m0s running 1h0m0s empty]", "b": "[3h0m0s empty]",
	} {
		runs, err := s.ListRuns(t.Context(), name, 10)
		must(t, err)
		var brief []string
		for _, r := range runs {
			brief = append(brief, fmt.Sprint(r.Due.Sub(epoch), " ", r.State))
		}
		same(t, "runs of "+name, want, fmt.Sprint(brief))
	}
}

// useSchedules calls the methods of store.Schedules.
func useSchedules(t *testing.T, s store.Store) {
	t.Helper()
	used := newSchedule("used")
	must(t, s.CreateSchedule(t.Context(), used))
	must(t, s.CorrectSchedule(t.Context(), used, at(-time.Minute)))
	used.Looked = at(-time.Minute)
	must(t, s.PutRun(t.Context(), newRun(used, at(time.Hour), store.RunRunning)))
	must(t, s.EndRun(t.Context(), store.RunEnd{
		Run: store.ScheduleRun{Schedule: "used", Due: at(time.Hour), State: store.RunOK}, Agent: "a",
		AlarmEvent: alarm(t, "used", process.EventScheduleRecovered),
	}))
	_, err := s.OpenRuns(t.Context())
	must(t, err)
	_, err = s.ListRuns(t.Context(), "used", 1)
	must(t, err)
	_, err = s.ListSchedules(t.Context(), "")
	must(t, err)
	_, err = s.PauseSchedule(t.Context(), "used", "", true, epoch)
	must(t, err)
	must(t, s.CreateSchedule(t.Context(), newSchedule("removed")))
	_, err = s.RemoveSchedule(t.Context(), "removed", "", epoch)
	must(t, err)
}

// alarm returns an event about the schedule nightly.
func alarm(t *testing.T, of string, kind process.EventKind) *store.NewEvent {
	t.Helper()
	e, err := store.ScheduleEvent("nightly", of, process.Event{
		Process: process.ID{Namespace: "shop", Name: "web"}, Kind: kind, At: epoch.UnixMilli(),
	})
	must(t, err)
	return &e
}

// scheduleAlarms: the alarm about a schedule begins with the end of a run, and ends at the latest with the schedule.
func scheduleAlarms(t *testing.T, s store.Store) {
	failing := store.ObservedKey{Agent: "a", Process: process.ID{Namespace: "shop", Name: "web"}}
	told := func() (kinds []process.EventKind) {
		events, _, err := s.EventsAfter(t.Context(), 0, store.EventFilter{}, 10)
		must(t, err)
		for _, e := range events {
			if e.Agent != "a" || e.Event.Process != failing.Process || e.Event.Schedule != "nightly" {
				t.Errorf("it tells %+v", e)
			}
			kinds = append(kinds, e.Event.Kind)
		}
		return kinds
	}
	nightly := newSchedule("nightly")
	must(t, s.CreateSchedule(t.Context(), nightly))
	run := newRun(nightly, at(time.Hour), store.RunRunning)
	must(t, s.PutRun(t.Context(), run))
	run.State, run.Ended = store.RunFailed, at(2*time.Hour)
	end := store.RunEnd{Run: run, Failing: failing, AlarmEvent: alarm(t, "first", process.EventScheduleFailed), Agent: "a"}
	must(t, s.EndRun(t.Context(), end))
	end.AlarmEvent = alarm(t, "second", process.EventScheduleFailed)
	if err := s.EndRun(t.Context(), end); !errors.Is(err, store.ErrDecided) {
		t.Errorf("a second end of a run gives %v", err)
	}
	removed, err := s.RemoveSchedule(t.Context(), "nightly", "", at(3*time.Hour))
	must(t, err)
	same(t, "events about the removal", true, removed)
	if err := s.EndRun(t.Context(), end); !errors.Is(err, store.ErrDecided) {
		t.Errorf("the end of a run of a removed schedule gives %v", err)
	}
	same(t, "events", []process.EventKind{process.EventScheduleFailed, process.EventScheduleRecovered}, told())

	nightly.Created = at(4 * time.Hour)
	must(t, s.CreateSchedule(t.Context(), nightly))
	if err := s.EndRun(t.Context(), end); !errors.Is(err, store.ErrDecided) {
		t.Errorf("the end of a run of an earlier schedule gives %v", err)
	}
	again, err := s.GetSchedule(t.Context(), "nightly", "")
	must(t, err)
	same(t, "failing of a new schedule", store.ObservedKey{}, again.Failing)
}
