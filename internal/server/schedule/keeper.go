package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"drover/internal/clip"
	"drover/internal/crontab"
	"drover/internal/idle"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/gate"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

const (
	// look is the longest wait between two looks at the schedules, and lookBusy the wait while a run goes on or after a
	// failure.
	look     = 10 * time.Second
	lookBusy = 2 * time.Second
	// mostText is how many bytes of the text of an outcome the keeper keeps.
	mostText = 500
)

// Store is what a keeper needs of the database.
type Store interface {
	ListSchedules(ctx context.Context, app string) ([]store.Schedule, error)
	store.ScheduleRuns
	Results
	PutEvents(ctx context.Context, agent string, received time.Time, events []store.NewEvent) (int, error)
}

// Results has what runs have begun.
type Results interface {
	GetTask(ctx context.Context, id, app string) (store.TaskSummary, error)
	TaskItems(ctx context.Context, id, app string, fn func(store.ItemView) error) error
	GetRollout(ctx context.Context, id, app string) (*store.Rollout, error)
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
}

// Config holds the parts of a keeper. All are required.
type Config struct {
	Store    Store
	Beginner Beginner
	Rights   Rights
	Hosts    Hosts
	// Happened is called when there are new events.
	Happened func()
	// Woken receives when a schedule, a task or a rollout has changed.
	Woken <-chan struct{}
	// Now is the wall clock that all servers of the database share.
	Now func() time.Time
	Log *slog.Logger
}

// Keeper keeps all schedules of a database. Only one should run at a time; two do no harm.
type Keeper struct{ Config }

// New returns a keeper.
func New(c Config) *Keeper { return &Keeper{c} }

// Run begins runs until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		next, err := k.Round(ctx)
		if err != nil && ctx.Err() == nil {
			k.Log.ErrorContext(ctx, "cannot keep the schedules", "error", err)
		}
		idle.Wait(ctx, next, k.Woken)
	}
	return nil
}

// Round looks once at all schedules, and returns how long the next look may wait.
func (k *Keeper) Round(ctx context.Context) (wait time.Duration, err error) {
	open, err := k.Store.OpenRuns(ctx)
	if err != nil {
		return lookBusy, err
	}
	goesOn := map[string]bool{}
	wait = look
	var errs []error
	for i := range open {
		ended, err := k.settle(ctx, &open[i])
		if errs = append(errs, err); !ended {
			goesOn[open[i].Schedule] = true
			wait = lookBusy
		}
	}
	list, err := k.Store.ListSchedules(ctx, "")
	errs = append(errs, err)
	for i := range list {
		s := &list[i]
		if s.Paused {
			continue
		}
		next, err := k.keep(ctx, s, goesOn[s.Name])
		if err != nil {
			errs, wait = append(errs, fmt.Errorf("schedule %q: %w", s.Name, err)), lookBusy
		}
		if left := next.Sub(k.Now()); !next.IsZero() && left < wait {
			wait = max(left, 0)
		}
	}
	return wait, errors.Join(errs...)
}

// keep does what is due of a schedule, and returns the time of its next run; zero if there is none.
func (k *Keeper) keep(ctx context.Context, s *store.Schedule, goesOn bool) (next time.Time, err error) {
	rule, err := crontab.ParseIn(s.Cron, s.Zone)
	if err != nil {
		return next, fmt.Errorf("cannot read the timetable: %w", err)
	}
	p := judge(rule, s.Looked, k.Now())
	if p.missed > 0 {
		r := run(s, p.last, store.RunMissed)
		r.Count, r.Text = p.missed, missedText(p)
		if err := k.put(ctx, s, r); err != nil {
			return p.next, decided(err)
		}
	}
	if p.due.IsZero() {
		return p.next, nil
	}
	r := run(s, p.due, store.RunRunning)
	if goesOn {
		r.State, r.Text = store.RunSkipped, "an earlier run goes on"
		return p.next, decided(k.put(ctx, s, r))
	}
	return p.next, decided(k.begin(ctx, s, r))
}

// decided drops the error that another server was first.
func decided(err error) error {
	if errors.Is(err, store.ErrDecided) {
		return nil
	}
	return err
}

// put stores a run that does not begin.
func (k *Keeper) put(ctx context.Context, s *store.Schedule, r store.ScheduleRun) error {
	r.Ended = k.Now()
	if err := k.Store.PutRun(ctx, r); err != nil {
		return err
	}
	s.Looked = r.Due
	k.Log.WarnContext(ctx, "a run of a schedule did not begin", "schedule", s.Name, "due", r.Due, "state", r.State,
		"times", r.Count, "reason", r.Text)
	return nil
}

// begin begins a run with the present rights of the person of the schedule.
func (k *Keeper) begin(ctx context.Context, s *store.Schedule, r store.ScheduleRun) error {
	who, err := k.Rights.Acting(ctx, s.App, s.User)
	if refusal, ok := errors.AsType[*gate.Refusal](err); ok {
		r.State, r.Text = store.RunMissed, denied(refusal.Reason)
		return k.put(ctx, s, r)
	} else if err != nil {
		return err
	}
	state, text, err := k.Beginner.BeginRun(ctx, who, s, r)
	if err != nil {
		return err
	}
	if state != store.RunRunning {
		r.State, r.Text = state, text
		return k.put(ctx, s, r)
	}
	k.Log.InfoContext(ctx, "a run of a schedule begins", "schedule", s.Name, "due", r.Due)
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

// result is what became of a run.
type result struct {
	state store.RunState
	text  string
	// agent and id are the first host that failed and its process; agent is empty if there is none.
	agent string
	id    process.ID
}

// settle stores the result of a run that has ended, and tells an event if it has failed.
func (k *Keeper) settle(ctx context.Context, r *store.ScheduleRun) (ended bool, err error) {
	found, err := k.result(ctx, r)
	if err != nil || found.state == store.RunRunning {
		return false, err
	}
	r.State, r.Text, r.Ended = found.state, found.text, k.Now()
	if found.state == store.RunFailed && found.agent != "" {
		if err := k.tell(ctx, r, &found); err != nil {
			return false, err
		}
	}
	k.Log.InfoContext(ctx, "a run of a schedule has ended", "schedule", r.Schedule, "due", r.Due, "state", r.State,
		"reason", r.Text)
	return true, k.Store.EndRun(ctx, *r)
}

// result reads what became of a run.
func (k *Keeper) result(ctx context.Context, r *store.ScheduleRun) (found result, err error) {
	if r.Rollout != "" {
		found, err = k.ofRollout(ctx, r.Rollout)
	} else {
		found, err = k.ofTask(ctx, r.Task)
	}
	if errors.Is(err, store.ErrNotFound) {
		return result{state: store.RunFailed, text: "its result is not kept any more"}, nil
	}
	return found, err
}

func (k *Keeper) ofTask(ctx context.Context, id string) (found result, err error) {
	t, err := k.Store.GetTask(ctx, id, "")
	switch {
	case err != nil:
		return found, err
	case t.Open > 0:
		return result{state: store.RunRunning}, nil
	case t.Failed == 0:
		return result{state: store.RunOK}, nil
	}
	found = result{state: store.RunFailed}
	err = k.Store.TaskItems(ctx, id, "", func(v store.ItemView) error {
		if v.Outcome == nil || v.Outcome.Fault == process.None || found.agent != "" {
			return nil
		}
		if _, already := process.Already(v.Op, v.Outcome.Fault); already {
			return nil
		}
		a, known := k.Hosts.LookupID(v.Asked)
		if found.text = failedText(t.Failed, t.Keys, "targets", v.Process, v.Asked, v.Outcome.Text); known {
			found.agent, found.id = a.Key, v.Process
		}
		return nil
	})
	return found, err
}

func (k *Keeper) ofRollout(ctx context.Context, id string) (found result, err error) {
	r, err := k.Store.GetRollout(ctx, id, "")
	if err != nil {
		return found, err
	}
	counts := r.Counts()
	failed := counts[rollout.Failed]
	lost := r.Plan.OneOf && counts[rollout.Succeeded] > 0 // another host has done it
	switch {
	case r.State == rollout.Aborted:
		found = result{state: store.RunFailed, text: "the rollout was aborted"}
	case r.State == rollout.Done && failed > 0 && !lost, r.State == rollout.Paused && failed > 0:
		found = result{state: store.RunFailed}
	case r.State == rollout.Done && counts[rollout.Succeeded] == 0:
		return result{state: store.RunFailed, text: "no host was connected"}, nil
	case r.State == rollout.Done:
		return result{state: store.RunOK}, nil
	default:
		return result{state: store.RunRunning}, nil
	}
	for i := range r.Hosts {
		if h := &r.Hosts[i]; h.State == rollout.Failed {
			found.agent, found.id = h.Agent, r.Steps[h.Steps[0]].Process
			found.text = failedText(failed, r.Total, "hosts", found.id, h.Name, h.Text)
			if r.State == rollout.Paused {
				found.text = "the rollout is paused: " + found.text
			}
			break
		}
	}
	return found, nil
}

func failedText(failed, all int, of string, id process.ID, host, text string) string {
	return fmt.Sprintf("%d of %d %s failed; the first: %s on %s: %s", failed, all, of, id, host,
		clip.Marked(text, mostText, " …"))
}

// tell stores an event about a failed run, of the first host that failed. Its stream is the run's own, so the store
// keeps the event once, whatever dies in between.
func (k *Keeper) tell(ctx context.Context, r *store.ScheduleRun, found *result) error {
	e := process.Event{
		Stream: "schedule-" + r.Schedule + "-" + strconv.FormatInt(r.Due.UnixNano(), 36), Seq: 1, At: k.Now().UnixMilli(),
		Process: found.id, Kind: process.EventScheduleFailed, Actor: process.Actor{Kind: process.ActorPolicy},
		Cause: process.Cause{ID: process.CauseRunFailed, Text: "schedule " + r.Schedule + ": " + found.text},
	}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("cannot encode the event of a run: %w", err)
	}
	n, err := k.Store.PutEvents(ctx, found.agent, k.Now(), []store.NewEvent{{Event: e, Body: string(body)}})
	if n > 0 {
		k.Happened()
	}
	return err
}
