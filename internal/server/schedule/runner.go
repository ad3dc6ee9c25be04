package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"drover/internal/crontab"
	"drover/internal/idle"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

const (
	// look is the longest wait between two looks at the schedules, and lookBusy the wait while the task or the rollout
	// of a run goes on, or after a failure.
	look     = 10 * time.Second
	lookBusy = 2 * time.Second
	// mostText is how many bytes of the text of an outcome the runner keeps.
	mostText = 500
	// lost is how long a host is away before nobody waits for the end of a run on it.
	lost = 5 * time.Minute
)

// Store is what a runner needs of the database.
type Store interface {
	ListSchedules(ctx context.Context, app string) ([]store.Schedule, error)
	store.ScheduleRuns
	Results
}

// Results has what runs have begun.
type Results interface {
	GetTask(ctx context.Context, id, app string) (store.TaskSummary, error)
	TaskItems(ctx context.Context, id, app string, fn func(store.ItemView) error) error
	GetRollout(ctx context.Context, id, app string) (*store.Rollout, error)
	ObservedAt(ctx context.Context, keys []store.ObservedKey, spec bool, fn func(store.Observed)) error
}

// Beginner begins runs.
type Beginner interface {
	// BeginRun stores a run with its task or rollout in one transaction. If the run cannot begin, it returns the state
	// of the run and the reason. An error means that nobody has decided about the run, except store.ErrDecided.
	BeginRun(ctx context.Context, who access.Principal, s *store.Schedule, run store.ScheduleRun) (
		state store.RunState, text string, err error)
}

// Rights returns the present rights of an app and a user. It returns a *gate.Refusal if they may do nothing now.
type Rights interface {
	Acting(ctx context.Context, app, user string) (access.Principal, error)
}

// Hosts finds the host that a result names.
type Hosts interface {
	LookupID(id string) (store.Agent, bool)
	ByKey(key string) (store.Agent, bool)
	Presence(key string, now time.Time) fleet.Presence
}

// Config holds the parts of a runner. All are required.
type Config struct {
	Store    Store
	Beginner Beginner
	Rights   Rights
	Hosts    Hosts
	// Happened is called when there are new events.
	Happened func()
	// Woken receives when a schedule, a task or a rollout has changed.
	Woken <-chan struct{}
	// Now is the wall clock that all servers of the database share. Presence is asked by Clock.
	Now, Clock func() time.Time
	Log        *slog.Logger
}

// Runner keeps all schedules of a database. Only one should run at a time; two do no harm.
type Runner struct {
	Config
	// failures are the latest runs that the runner could not begin, by schedule, until it has decided about them.
	failures map[string]failure
}

// failure is a run that a runner could not begin.
type failure struct {
	due  time.Time
	text string
}

// New returns a runner.
func New(c Config) *Runner { return &Runner{c, map[string]failure{}} }

// Run begins runs until ctx ends.
func (rn *Runner) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		next, err := rn.Round(ctx)
		if err != nil && ctx.Err() == nil {
			rn.Log.ErrorContext(ctx, "cannot keep the schedules", "error", err)
		}
		idle.Wait(ctx, next, rn.Woken)
	}
	return nil
}

// Round looks once at all schedules, and returns how long the next look may wait.
func (rn *Runner) Round(ctx context.Context) (wait time.Duration, err error) {
	open, err := rn.Store.OpenRuns(ctx)
	if err != nil {
		return lookBusy, err
	}
	list, err := rn.Store.ListSchedules(ctx, "")
	if err != nil {
		return lookBusy, err
	}
	goesOn, failing := map[string]bool{}, map[string]store.ObservedKey{}
	for i := range list {
		failing[list[i].Name] = list[i].Failing
	}
	wait = look
	var errs []error
	for i := range open {
		found, err := rn.settle(ctx, &open[i], failing[open[i].Schedule])
		errs = append(errs, err)
		goesOn[open[i].Schedule] = goesOn[open[i].Schedule] || !found.over()
		if !found.over() && !found.begun {
			wait = lookBusy
		}
	}
	maps.DeleteFunc(rn.failures, func(name string, _ failure) bool { _, known := failing[name]; return !known })
	for i := range list {
		s := &list[i]
		if s.Paused {
			delete(rn.failures, s.Name)
			continue
		}
		next, err := rn.keep(ctx, s, goesOn[s.Name])
		if err != nil {
			errs, wait = append(errs, fmt.Errorf("schedule %q: %w", s.Name, err)), lookBusy
		}
		if left := next.Sub(rn.Now()); !next.IsZero() && left < wait {
			wait = max(left, 0)
		}
	}
	return wait, errors.Join(errs...)
}

// keep does what is due of a schedule, and returns the time of its next run; zero if there is none.
func (rn *Runner) keep(ctx context.Context, s *store.Schedule, goesOn bool) (next time.Time, err error) {
	rule, err := crontab.ParseIn(s.Cron, s.Zone)
	if err != nil {
		return next, fmt.Errorf("cannot read the timetable: %w", err)
	}
	now := rn.Now()
	if corrected(rule, s.Looked, now) {
		if err := rn.correct(ctx, s, now); err != nil {
			return next, decided(err)
		}
	}
	p := judge(rule, s.Looked, now)
	if p.missed > 0 {
		r := run(s, p.last, store.RunMissed)
		r.Count, r.Text = p.missed, missedText(p, rn.failures[s.Name])
		if err := rn.put(ctx, s, r); err != nil {
			return p.next, decided(err)
		}
		delete(rn.failures, s.Name)
	}
	if p.due.IsZero() {
		return p.next, nil
	}
	r := run(s, p.due, store.RunRunning)
	if goesOn && now.Sub(p.due) < lateness/2 && rn.Hosts.Presence("", rn.Clock()).Settling {
		return now.Add(lookBusy), nil // a host may have yet to tell that the earlier run has ended
	}
	if goesOn {
		r.State, r.Text = store.RunSkipped, "an earlier run goes on"
		return p.next, decided(rn.put(ctx, s, r))
	}
	if err = decided(rn.begin(ctx, s, r)); err != nil {
		rn.failures[s.Name] = failure{due: r.Due, text: failureText(err)}
	} else {
		delete(rn.failures, s.Name)
	}
	return p.next, err
}

// failureText says that a server could not begin a run. The people who see it are not those who see the log.
func failureText(err error) string {
	const text = "the server could not begin it"
	if busy, ok := errors.AsType[*task.BusyError](err); ok {
		return text + ": " + busy.Error()
	}
	return text + ", for a reason in its log"
}

// correct follows a clock that was set back.
func (rn *Runner) correct(ctx context.Context, s *store.Schedule, now time.Time) error {
	if err := rn.Store.CorrectSchedule(ctx, *s, now); err != nil {
		return err
	}
	rn.Log.WarnContext(ctx, "the clock was ahead of a schedule: its later times come again", "schedule", s.Name,
		"ahead", s.Looked.Sub(now))
	s.Looked = now
	return nil
}

// decided drops the error that another server was first.
func decided(err error) error {
	if errors.Is(err, store.ErrDecided) {
		return nil
	}
	return err
}

// put stores a run that does not begin.
func (rn *Runner) put(ctx context.Context, s *store.Schedule, r store.ScheduleRun) error {
	r.Ended = rn.Now()
	if err := rn.Store.PutRun(ctx, r); err != nil {
		return err
	}
	s.Looked = r.Due
	rn.Log.WarnContext(ctx, "a run of a schedule did not begin", "schedule", s.Name, "due", r.Due, "state", r.State,
		"times", r.Count, "reason", r.Text)
	return nil
}

// begin begins a run with the present rights of the person of the schedule.
func (rn *Runner) begin(ctx context.Context, s *store.Schedule, r store.ScheduleRun) error {
	who, err := rn.Rights.Acting(ctx, s.App, s.User)
	if refusal, ok := errors.AsType[*gate.Refusal](err); ok {
		r.State, r.Text = store.RunMissed, denied(refusal.Reason)
		return rn.put(ctx, s, r)
	} else if err != nil {
		return err
	}
	state, text, err := rn.Beginner.BeginRun(ctx, who, s, r)
	if err != nil {
		return err
	}
	if state != store.RunRunning {
		r.State, r.Text = state, text
		return rn.put(ctx, s, r)
	}
	rn.Log.InfoContext(ctx, "a run of a schedule begins", "schedule", s.Name, "due", r.Due)
	return nil
}

// denied says why the person of a schedule may do nothing.
func denied(r gate.Reason) string {
	switch r {
	case gate.AppDisabled:
		return "the app of the schedule is disabled"
	case gate.UserDisabled:
		return "the user of the schedule is disabled"
	default:
		return "there is no app of the schedule any more"
	}
}

// settle stores the result of a run that has ended. With it goes an event, if the run is the first that has failed
// since one succeeded, or the first that has succeeded since. failing is Schedule.Failing before that.
func (rn *Runner) settle(
	ctx context.Context, r *store.ScheduleRun, failing store.ObservedKey,
) (found result, err error) {
	if found, err = rn.result(ctx, r); err != nil || found.state == store.RunRunning {
		return found, err
	}
	r.State, r.Text, r.Ended = found.state, found.text, rn.Now()
	end := store.RunEnd{Run: *r, Failing: failing}
	none, told := store.ObservedKey{}, process.Event{At: r.Ended.UnixMilli()}
	switch {
	case found.state != store.RunOK && found.agent != "" && failing == none:
		end.Failing = store.ObservedKey{Agent: found.agent, Process: found.id}
		end.Agent, told.Process, told.Kind = found.agent, found.id, process.EventScheduleFailed
		told.Cause = process.Cause{ID: process.CauseRunFailed, Text: found.text}
	case found.state == store.RunOK && failing != none:
		end.Failing = none
		end.Agent, told.Process, told.Kind = failing.Agent, failing.Process, process.EventScheduleRecovered
		told.Cause = process.Cause{Text: "a run has succeeded"}
	}
	if told.Kind != "" {
		e, err := store.ScheduleEvent(r.Schedule, r.Task+r.Rollout, told)
		if err != nil {
			return result{}, err
		}
		end.AlarmEvent = &e
	}
	if err := rn.Store.EndRun(ctx, end); err != nil {
		if !errors.Is(err, store.ErrDecided) {
			found.state = ""
		}
		return found, decided(err)
	}
	if end.AlarmEvent != nil {
		rn.Happened()
	}
	rn.Log.InfoContext(ctx, "a run of a schedule has ended", "schedule", r.Schedule, "due", r.Due, "state", r.State,
		"reason", r.Text)
	return found, nil
}
