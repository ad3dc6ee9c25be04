package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drover/internal/process"
)

// Schedule is an operation that the servers begin at the times of a timetable.
type Schedule struct {
	// Name never changes.
	Name string
	// App and User are the person who created the schedule. A run has the rights that the person has at that time.
	App, User string
	// Created distinguishes the schedule from an earlier schedule of the same name.
	Created time.Time
	// Cron is a crontab rule, and Zone the time zone of its times; empty means the zone of the server.
	Cron, Zone string
	Message    string
	// Request is what each run asks for, in the form of drover's own API.
	Request json.RawMessage
	Paused  bool
	// Looked is the time up to which the servers have decided about all due times.
	Looked time.Time
	// MissedRuns counts the due times that no run followed, except skipped ones.
	MissedRuns int
	// Failing is the host and the process of the alarm about the schedule, from a failed run until one succeeds; zero
	// if there is no alarm.
	Failing ObservedKey
	// Last is the latest run; nil if there is none. Only reads return it.
	Last *ScheduleRun
}

// RunState is the state of a run of a schedule.
type RunState string

// The states of a run. A missed run did not begin, because no server ran at its time or because the person of the
// schedule may not do it. A skipped run did not begin, because an earlier run or another rollout went on. An empty run
// found no process. Of an unknown run nobody knows the end, because a host went away.
const (
	RunRunning RunState = "running"
	RunOK      RunState = "ok"
	RunFailed  RunState = "failed"
	RunMissed  RunState = "missed"
	RunSkipped RunState = "skipped"
	RunEmpty   RunState = "empty"
	RunUnknown RunState = "unknown"
)

// ScheduleRun is one run of a schedule.
type ScheduleRun struct {
	Schedule string
	// Created is that of the schedule. Reads do not return it.
	Created time.Time
	// Due is the time by the timetable. For a run by hand it is the time of the call.
	Due   time.Time
	State RunState
	Text  string
	// Task or Rollout is the id of what carries out the run; both are empty if the run did not begin.
	Task, Rollout string
	// Count is the number of due times that the run stands for: more than 1 only for missed ones.
	Count int
	// Ended is zero while the run goes on.
	Ended time.Time
	// User is who began the run by hand; empty for a run by the timetable.
	User string
	// Looked is Schedule.Looked as the caller has read it. A run by hand does not need it.
	Looked time.Time
}

// RunEnd is the end of a run.
type RunEnd struct {
	Run ScheduleRun
	// Failing is Schedule.Failing from the end of the run on.
	Failing ObservedKey
	// AlarmEvent is the event that begins or ends the alarm about the schedule, and Agent its host; nil if the run does
	// neither.
	AlarmEvent *NewEvent
	Agent      string
}

// ScheduleEvent completes an event about the alarm of a schedule. of is unique for the run or the removal of the event.
func ScheduleEvent(schedule, of string, e process.Event) (NewEvent, error) {
	e.Stream, e.Seq, e.Schedule = "schedule-"+schedule+"-"+of, 1, schedule
	e.Actor, e.Cause.Text = process.Actor{Kind: process.ActorPolicy}, "schedule "+schedule+": "+e.Cause.Text
	body, err := json.Marshal(&e)
	if err != nil {
		return NewEvent{}, fmt.Errorf("cannot encode the event of a schedule: %w", err)
	}
	return NewEvent{Event: e, Body: string(body)}, nil
}

// KeptRuns is how many runs of each schedule the store keeps.
const KeptRuns = 100

// ErrDecided is returned for a run about which another server has decided, or whose schedule has been paused, changed
// or removed.
var ErrDecided = errors.New("the run is decided already")

// ErrRunning is returned for a run that would begin while another run of its schedule goes on.
var ErrRunning = errors.New("another run of the schedule goes on")

// Schedules stores schedules. An empty app matches any.
type Schedules interface {
	// CreateSchedule inserts a schedule. It returns ErrExists if the name is taken.
	CreateSchedule(ctx context.Context, s Schedule) error
	// GetSchedule returns a schedule. It returns ErrNotFound for an unknown name and for a schedule of another app.
	GetSchedule(ctx context.Context, name, app string) (Schedule, error)
	// ListSchedules returns the schedules of an app, ordered by name.
	ListSchedules(ctx context.Context, app string) ([]Schedule, error)
	// PauseSchedule sets Paused. If paused is false, it also sets Looked, so that no run of the pause is missed.
	PauseSchedule(ctx context.Context, name, app string, paused bool, now time.Time) (Schedule, error)
	// RemoveSchedule deletes a schedule and its runs, and stores the event that ends the alarm about it. told reports
	// whether there was one. Tasks and rollouts go on.
	RemoveSchedule(ctx context.Context, name, app string, now time.Time) (told bool, err error)
	ScheduleRuns
}

// ScheduleRuns stores the runs of schedules. CreateTask and CreateRollouts store a run that begins (Task.Run,
// Rollout.Run) in the same transaction: then they return ErrDecided or ErrRunning as PutRun does.
type ScheduleRuns interface {
	// PutRun stores a run and moves Schedule.Looked to its due time. It returns ErrDecided if Looked differs from that
	// of the run, if there is a run of that time, or if the schedule is paused or not the same any more. For a running
	// run it returns ErrRunning if another one goes on. It removes all but the latest KeptRuns.
	PutRun(ctx context.Context, r ScheduleRun) error
	// CorrectSchedule sets Looked back to now, because the clock was ahead. It removes the ended runs that were due
	// after that, and a run that goes on is due now: the times come again. It returns ErrDecided if Looked is not that
	// of the schedule any more.
	CorrectSchedule(ctx context.Context, s Schedule, now time.Time) error
	// EndRun stores the result of a run that goes on, with Schedule.Failing and the event, in one transaction. It
	// returns ErrDecided for another run, or if somebody has removed the schedule.
	EndRun(ctx context.Context, end RunEnd) error
	// OpenRuns returns the runs that go on.
	OpenRuns(ctx context.Context) ([]ScheduleRun, error)
	// ListRuns returns up to limit runs of a schedule, latest first.
	ListRuns(ctx context.Context, schedule string, limit int) ([]ScheduleRun, error)
}
