// Package rolloutdriver carries out rollouts: it gives package rollout the facts about the hosts, stores its decisions,
// and turns each begun batch into one task. Everything is in the store, so another server continues after a death. The
// id of a batch's task follows from rollout and batch, and the store takes an id once: so two drivers never give a host
// the operation twice.
package rolloutdriver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"drover/internal/idle"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

const (
	// look is the interval between two looks at the open rollouts, and lookIdle the longest interval while there are
	// none, in case a word about a new one was lost.
	look     = time.Second
	lookIdle = 10 * time.Second
	// oldest is how old a batch without a task may be: its task cannot have been removed yet.
	oldest = 24 * time.Hour
	// countShare is how many times as long as a count of the hosts that are up the pause after it is. A rollout that
	// waits for its hosts then costs a tenth of a core, however many hosts it has.
	countShare = 10
	// awayFor is how long an agent may reconnect before it counts as away.
	awayFor = 10 * time.Second
	// precision is that of the difference between the clocks of an agent and of the servers.
	precision = 2 * time.Second
)

// Rollouts has the rollouts.
type Rollouts interface {
	GetRollout(ctx context.Context, id, app string) (*store.Rollout, error)
	RolloutSteps(ctx context.Context, id string) ([]store.RolloutStep, error)
	OpenRollouts(ctx context.Context, now time.Time) (open []string, next time.Time, err error)
	ChangeRollout(ctx context.Context, id, app string, by store.RolloutChange, change func(*rollout.Rollout) error) (
		*store.Rollout, error)
}

// Results has the tasks of batches, and the states of processes.
type Results interface {
	TaskOpen(ctx context.Context, id string) (bool, error)
	TaskItems(ctx context.Context, id, app string, fn func(store.ItemView) error) error
	GetObserved(ctx context.Context, id process.ID, agents []string, fn func(store.Observed) error) error
}

// Placements has what is placed on hosts.
type Placements interface {
	LatestRevision(ctx context.Context, namespace string) (int64, error)
	PlacedOn(ctx context.Context, agents []string) ([]store.Placement, error)
}

// Store is what a driver needs of the database.
type Store interface {
	Rollouts
	Results
	Placements
}

// Engine carries out tasks.
type Engine interface {
	Submit(ctx context.Context, t *store.Task, row store.AuditRow) error
	Cancel(ctx context.Context, id, app string) (store.CancelCounts, error)
}

// Presence knows which agents are connected.
type Presence interface {
	Presence(key string, now time.Time) fleet.Presence
}

// Undoer undoes rollouts.
type Undoer interface {
	// UndoFailed undoes a rollout whose plan says so, and ends it in the same transaction. If nothing can undo it,
	// UndoFailed returns why. After an error nobody has decided.
	UndoFailed(ctx context.Context, who access.Principal, rollout string) (refused string, err error)
}

// Rights returns the present rights of an app and a user. It returns a *gate.Refusal if they may do nothing now.
type Rights interface {
	Acting(ctx context.Context, app, user string) (access.Principal, error)
}

// Config holds the parts of a driver. All but Woken are required.
type Config struct {
	Store    Store
	Engine   Engine
	Presence Presence
	Undoer   Undoer
	Rights   Rights
	// Woken receives when a rollout was created or changed. nil never does.
	Woken <-chan struct{}
	// Happened is called when there are new events.
	Happened func()
	// Now is the common time of all servers of the database.
	Now func() time.Time
	// Wall is the time for people, in which a rollout has the time at which it begins.
	Wall func() time.Time
	Log  *slog.Logger
}

// Driver drives all rollouts of a database. Only one driver should run at a time; two do no harm.
type Driver struct {
	Config
	// counts are the times of the next count of the hosts that are up, by rollout.
	counts map[string]time.Time
	// cancelled are the tasks of aborted rollouts that this driver has cancelled.
	cancelled map[string]bool
}

// New returns a driver.
func New(c Config) *Driver {
	return &Driver{Config: c, counts: map[string]time.Time{}, cancelled: map[string]bool{}}
}

// Run drives rollouts until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		open, next, err := d.Store.OpenRollouts(ctx, d.Wall())
		for _, id := range open {
			if failed := d.Step(ctx, id); failed != nil && ctx.Err() == nil {
				d.Log.ErrorContext(ctx, "cannot drive rollout", "rollout", id, "error", failed)
			}
		}
		if err == nil {
			d.forget(open)
		} else if ctx.Err() == nil {
			d.Log.ErrorContext(ctx, "cannot list open rollouts", "error", err)
		}
		if len(open) > 0 || err != nil {
			idle.Sleep(ctx, look)
			continue
		}
		wait := lookIdle
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(d.Wall()), 0))
		}
		idle.Wait(ctx, wait, d.Woken)
	}
	return nil
}

// forget drops what the driver remembers of rollouts that are not open any more.
func (d *Driver) forget(open []string) {
	maps.DeleteFunc(d.counts, func(id string, _ time.Time) bool { return !slices.Contains(open, id) })
	maps.DeleteFunc(d.cancelled, func(task string, _ bool) bool {
		return !slices.Contains(open, store.RolloutOf(task))
	})
}

// Step looks at a rollout once, and does what is to do.
func (d *Driver) Step(ctx context.Context, id string) error {
	r, err := d.Store.GetRollout(ctx, id, "")
	if err != nil {
		return err
	}
	if err := d.order(ctx, r); err != nil { // an earlier driver may have died after its decision
		return err
	}
	if err := d.unregister(ctx, r); err != nil {
		return err
	}
	if r.Undoing() && len(begunBatches(r)) == 0 {
		return d.undo(ctx, r)
	}
	now := d.Now()
	facts, err := d.facts(ctx, r, now)
	if err != nil {
		return err
	}
	ahead := now.Sub(d.Wall())
	step := func(r rollout.Rollout) rollout.Rollout {
		if at := r.At; !at.IsZero() {
			r.At = at.Add(ahead)
			r = rollout.Step(r, facts, now)
			r.At = at
			return r
		}
		return rollout.Step(r, facts, now)
	}
	if reflect.DeepEqual(step(r.Rollout), r.Rollout) {
		return nil
	}
	before := r.Rollout
	by := store.RolloutChange{At: d.Wall(), By: process.Actor{Kind: process.ActorPolicy}}
	r, err = d.Store.ChangeRollout(ctx, id, "", by, func(r *rollout.Rollout) error {
		*r = step(*r)
		return nil
	})
	if err != nil {
		return err
	}
	if r.State != before.State || r.Batch != before.Batch {
		d.Log.InfoContext(ctx, "rollout proceeds", "rollout", id, "state", r.State, "reason", r.Reason,
			"batch", r.Batch)
	}
	if r.State != before.State {
		d.Happened()
	}
	return d.order(ctx, r)
}

// undo undoes a rollout by itself, as its plan says. If that is refused, the rollout waits for a person.
func (d *Driver) undo(ctx context.Context, r *store.Rollout) error {
	var refused string
	who, err := d.Rights.Acting(ctx, r.App, r.User)
	if _, denied := errors.AsType[*gate.Refusal](err); denied {
		refused = r.User + " may do nothing any more"
	} else if err == nil {
		refused, err = d.Undoer.UndoFailed(ctx, who, r.ID)
	}
	switch {
	case refused == "" && err != nil:
		return fmt.Errorf("cannot undo: %w", err)
	case refused == "":
		d.Log.InfoContext(ctx, "rollout is undone by itself", "rollout", r.ID, "reason", r.Reason)
		return nil
	}
	d.Log.WarnContext(ctx, "cannot undo a rollout by itself", "rollout", r.ID, "reason", refused)
	by := store.RolloutChange{At: d.Wall(), By: process.Actor{Kind: process.ActorPolicy}}
	_, err = d.Store.ChangeRollout(ctx, r.ID, "", by, func(r *rollout.Rollout) error { return r.NotUndone(refused) })
	if _, changed := errors.AsType[*rollout.StateError](err); changed {
		return nil // by a person
	}
	return err
}

// order submits the tasks of begun batches that have none. It cancels those of an aborted rollout: a batch without a
// task gets one that is over, so that nobody can submit the task any more.
func (d *Driver) order(ctx context.Context, r *store.Rollout) error {
	for _, batch := range begunBatches(r) {
		id := r.BatchTask(batch)
		_, err := d.Store.TaskOpen(ctx, id)
		missing := errors.Is(err, store.ErrNotFound)
		switch {
		case err != nil && !missing:
			return err
		case missing && tooOld(r, batch, d.Now()):
			continue
		case missing:
			err = d.submit(ctx, r, batch)
		case r.State == rollout.Aborted && !d.cancelled[id]:
			_, err = d.Engine.Cancel(ctx, id, "")
			d.cancelled[id] = err == nil
		default:
			err = nil
		}
		if err != nil {
			return fmt.Errorf("cannot begin batch %d: %w", batch, err)
		}
	}
	return nil
}

// begunBatches returns the batches with begun hosts, each once.
func begunBatches(r *store.Rollout) (list []int) {
	seen := map[int]bool{}
	for i := range r.Hosts {
		if h := &r.Hosts[i]; h.State == rollout.Begun && !seen[h.Batch] {
			seen[h.Batch] = true
			list = append(list, h.Batch)
		}
	}
	return list
}

// tooOld reports whether a batch began so long ago that its task may have been removed.
func tooOld(r *store.Rollout, batch int, now time.Time) bool {
	for i := range r.Hosts {
		if h := &r.Hosts[i]; h.Batch == batch && !h.Begun.IsZero() {
			return now.Sub(h.Begun) > oldest
		}
	}
	return false
}

// submit creates the task of a batch. If the rollout is aborted, every target has its outcome: cancelled.
func (d *Driver) submit(ctx context.Context, r *store.Rollout, batch int) error {
	steps, err := d.Store.RolloutSteps(ctx, r.ID)
	if err != nil {
		return err
	}
	hosts := hostsOf(r, func(h *rollout.Host) bool { return h.Batch == batch && h.State == rollout.Begun })
	t := d.task(r, r.BatchTask(batch))
	changed, known, err := d.meanwhile(ctx, r, t, steps, hosts)
	if err != nil {
		return err
	}
	byStep := make([][]*rollout.Host, len(steps))
	for _, h := range hosts {
		for _, at := range h.Steps {
			byStep[at] = append(byStep[at], h)
		}
	}
	for at := range steps {
		s := &steps[at]
		place := map[process.Op]int{}
		for _, h := range byStep[at] {
			target := store.Target{ItemKey: store.ItemKey(s.Process, h.Name), Spelling: h.Name, Agent: h.Agent}
			op := s.Op
			if known != nil {
				op = plan.Now(op, s.Removes, s.Former != nil,
					known[store.ObservedKey{Agent: h.Agent, Process: s.Process}])
			}
			switch {
			case r.State == rollout.Aborted:
				target.Outcome = new(process.NotBegun())
			case changed[h.Agent] != "":
				op = s.Op
				target.Outcome = &process.Outcome{Fault: process.Cancelled, Text: leftAlone + changed[h.Agent]}
			case op == "" && !s.Removes:
				op = s.Op
				target.Outcome = &process.Outcome{Fault: process.Cancelled, Text: d.removedMeanwhile(h.Agent)}
			case op == "":
				op, target.Outcome = s.Op, &process.Outcome{Text: alreadyRemoved}
			}
			i, again := place[op]
			if !again {
				i = len(t.Requests)
				place[op] = i
				t.Requests = append(t.Requests, store.Request{
					Op: op, Process: s.Process, Spec: s.Spec, Removes: s.Removes,
				})
			}
			t.Requests[i].Targets = append(t.Requests[i].Targets, target)
		}
	}
	return d.give(ctx, r, t)
}

// unregister removes what the present batch of an apply has stopped in order to remove it. Its task has an id of its
// own, so that it is done once.
func (d *Driver) unregister(ctx context.Context, r *store.Rollout) error {
	if r.Settled.IsZero() || !r.State.Active() || tooOld(r, r.Batch, d.Now()) ||
		!slices.ContainsFunc(r.Steps, func(s store.RolloutStep) bool { return s.Removes }) {
		return nil
	}
	t := d.task(r, store.RemovalTask(r.BatchTask(r.Batch)))
	if _, err := d.Store.TaskOpen(ctx, t.ID); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	hosts := hostsOf(r, func(h *rollout.Host) bool {
		return h.Batch == r.Batch && (h.State == rollout.Baking || h.State == rollout.Succeeded)
	})
	known, err := d.statuses(ctx, r, hosts)
	if err != nil {
		return err
	}
	for at := range r.Steps {
		s := &r.Steps[at]
		request := store.Request{Op: process.Unregister, Process: s.Process}
		for _, h := range hosts {
			if status := known[store.ObservedKey{Agent: h.Agent, Process: s.Process}]; s.Removes && status != nil &&
				slices.Contains(h.Steps, at) && plan.Now(s.Op, true, true, status) == process.Unregister {
				request.Targets = append(request.Targets, store.Target{
					ItemKey: store.ItemKey(s.Process, h.Name), Spelling: h.Name, Agent: h.Agent,
				})
			}
		}
		if len(request.Targets) > 0 {
			t.Requests = append(t.Requests, request)
		}
	}
	if len(t.Requests) == 0 {
		return nil
	}
	return d.give(ctx, r, t)
}

// task returns an empty task of a rollout.
func (d *Driver) task(r *store.Rollout, id string) *store.Task {
	reason := "rollout " + r.ID
	if r.Schedule != "" {
		reason += " of schedule " + r.Schedule
	}
	return &store.Task{
		ID: id, App: r.App, User: r.User, RequestID: r.RequestID, HostTimeout: r.HostTimeout, Ordered: true,
		Selector: r.Selector, Through: r.Through, Message: r.Message, Reason: reason, Asks: r.Plan.OneOf,
	}
}

// give submits a task of a rollout. It is no error that this driver or another one has submitted it already.
func (d *Driver) give(ctx context.Context, r *store.Rollout, t *store.Task) error {
	targets := 0
	for i := range t.Requests {
		targets += len(t.Requests[i].Targets)
	}
	err := d.Engine.Submit(ctx, t, store.AuditRow{
		At: d.Now(), App: r.App, User: r.User, RequestID: r.RequestID, Action: "rollouts.batch", Target: t.ID,
		Targets: targets, Allowed: true, Message: process.Success,
	})
	if _, missing := d.Store.TaskOpen(ctx, t.ID); missing == nil || errors.Is(err, store.ErrRevised) {
		return nil // after a revision, the next look reads anew what is placed on the hosts
	}
	return err
}

// hostsOf returns the hosts of a rollout for which a function is true, in their order.
func hostsOf(r *store.Rollout, is func(*rollout.Host) bool) (list []*rollout.Host) {
	for i := range r.Hosts {
		if is(&r.Hosts[i]) {
			list = append(list, &r.Hosts[i])
		}
	}
	return list
}

// statuses returns the last known states of the processes of hosts.
func (d *Driver) statuses(ctx context.Context, r *store.Rollout, hosts []*rollout.Host) (
	map[store.ObservedKey]*process.Status, error,
) {
	agents := map[process.ID][]string{}
	for _, h := range hosts {
		for _, at := range h.Steps {
			id := r.Steps[at].Process
			agents[id] = append(agents[id], h.Agent)
		}
	}
	known := map[store.ObservedKey]*process.Status{}
	for id, list := range agents {
		slices.Sort(list) // two steps may be about the same process
		err := d.Store.GetObserved(ctx, id, slices.Compact(list), func(o store.Observed) error {
			known[store.ObservedKey{Agent: o.Agent, Process: id}] = &o.Status
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return known, nil
}

// facts collects what is known about the begun and baking hosts.
func (d *Driver) facts(ctx context.Context, r *store.Rollout, now time.Time) (map[string]rollout.Fact, error) {
	facts := map[string]rollout.Fact{}
	for _, batch := range begunBatches(r) {
		err := d.outcomes(ctx, r, batch, facts)
		if errors.Is(err, store.ErrNotFound) && tooOld(r, batch, now) {
			for i := range r.Hosts {
				if h := &r.Hosts[i]; h.Batch == batch && h.State == rollout.Begun {
					facts[h.Agent] = rollout.Fact{
						Batch: batch, Done: true, Fault: process.Failed,
						Text: "the outcome is unknown: no server ran for a day",
					}
				}
			}
		} else if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
	if err := d.observe(ctx, r, facts, now); err != nil {
		return nil, err
	}
	return facts, nil
}

// observe adds what is known about the processes of baking hosts. Before a batch, it adds for all hosts whether their
// processes run, if that counts.
func (d *Driver) observe(ctx context.Context, r *store.Rollout, facts map[string]rollout.Fact, now time.Time) error {
	every := mayBegin(r, now) && !r.Plan.MaxUnavailable.IsZero() && !now.Before(d.counts[r.ID])
	if every {
		defer func() { d.counts[r.ID] = now.Add(countShare * d.Now().Sub(now)) }()
	}
	hosts := hostsOf(r, func(h *rollout.Host) bool { return every || h.State == rollout.Baking })
	known, err := d.statuses(ctx, r, hosts)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		p := d.Presence.Presence(h.Agent, now)
		f := rollout.Fact{Batch: h.Batch, Health: rollout.Well, Away: p.Away, Up: !p.Away, Looked: every}
		for _, at := range h.Steps {
			step := &r.Steps[at]
			status := known[store.ObservedKey{Agent: h.Agent, Process: step.Process}]
			switch {
			case step.Op.Name() == process.Upgrade:
				f = agentFact(f, step, &p, r.Settled)
			case !step.Removes:
				f = worse(f, step, status, r.Op == store.OpApply)
			}
		}
		if h.State == rollout.Baking && p.Away && (p.Settling || now.Sub(p.Since) < awayFor) {
			continue // the agent may reconnect
		}
		facts[h.Agent] = f
	}
	return nil
}

// mayBegin reports whether a batch may begin now.
func mayBegin(r *store.Rollout, now time.Time) bool {
	if r.State != rollout.Running && r.State != rollout.Scheduled {
		return false
	}
	return r.Batch < 0 || !r.Settled.IsZero() &&
		!now.Before(r.Settled.Add(time.Duration(r.Plan.Bake+r.Plan.Pause)))
}

// outcomes reads the results of a batch's task. A host is done when all of its operations are, and the first failure
// counts. It is untouched if none of them has reached it.
func (d *Driver) outcomes(ctx context.Context, r *store.Rollout, batch int, facts map[string]rollout.Fact) error {
	agents := map[string]string{}
	for i := range r.Hosts {
		if h := &r.Hosts[i]; h.Batch == batch && h.State == rollout.Begun {
			agents[h.Name] = h.Agent
		}
	}
	return d.Store.TaskItems(ctx, r.BatchTask(batch), "", func(v store.ItemView) error {
		agent, known := agents[v.Spelling]
		if !known {
			return nil
		}
		f, again := facts[agent]
		if !again {
			f = rollout.Fact{Batch: batch, Done: true, Untouched: true}
		}
		f.Done = f.Done && v.Done
		f.Untouched = f.Untouched && v.Outcome != nil && untouched(r, v.Outcome)
		if o := v.Outcome; v.Done && o != nil && f.Fault == process.None {
			if _, already := process.Already(v.Op, o.Fault); !already {
				f.Fault, f.Text = o.Fault, o.Text
				if r.Plan.OneOf {
					f.Text = task.Asked(f.Text)
				}
				f.Changed = o.Fault == process.Cancelled && strings.HasPrefix(o.Text, leftAlone)
			}
		}
		facts[agent] = f
		return nil
	})
}

// alreadyRemoved is the outcome of the removal of a process that its host does not have. The host is not asked.
const alreadyRemoved = "was already removed"

// untouched reports whether a host was never sent an operation, or certainly never begins it. A host that ended while
// an apply was on its way gets the apply when it returns.
func untouched(r *store.Rollout, o *process.Outcome) bool {
	if o.Fault == process.None {
		return o.Text == alreadyRemoved
	}
	return o.Text == task.Unavailable || (r.Plan.OneOf || r.Op == store.OpApply) && task.NeverTaken(o.Text)
}

// worse returns a fact about a host with the judgement about another of its processes. The status is nil if the host
// does not have the process.
func worse(f rollout.Fact, step *store.RolloutStep, status *process.Status, apply bool) rollout.Fact {
	health, cause := rollout.Unwell, process.StateUnknown
	if status != nil {
		health, cause = judge(status, step.Op)
		up := health == rollout.Well || cause == relaunched
		f.Up = f.Up && up
		if !up && apply && plan.AtRest(status) { // an apply leaves it so
			health = rollout.Well
		}
	} else {
		f.Up = false
	}
	rank := map[rollout.Health]int{rollout.Well: 0, rollout.Unsettled: 1, rollout.Unwell: 2}
	if rank[health] > rank[f.Health] {
		f.Health, f.Cause, f.Text = health, cause, unwell(step.Process, cause)
	}
	return f
}

// agentFact returns a fact about a host with the judgement about an agent that was upgraded by the given time. It is
// well if its host is connected, unless it has started again since: it has ended, or the host has gone back.
func agentFact(f rollout.Fact, step *store.RolloutStep, p *fleet.Presence, settled time.Time) rollout.Fact {
	started := p.Facts.Started
	if settled.IsZero() || started.IsZero() || !started.Add(-p.Ahead).After(settled.Add(precision)) {
		return f
	}
	f.Health, f.Cause = rollout.Unwell, relaunched
	f.Text = unwell(step.Process, relaunched)
	if p.Facts.Upgrade != "" {
		f.Text += ": " + p.Facts.Upgrade
	}
	return f
}

// unwell says how a process is.
func unwell(id process.ID, cause string) string {
	if cause == relaunched {
		return id.String() + " was relaunched"
	}
	return fmt.Sprintf("%s is %s", id, cause)
}

// relaunched is the cause of a process that runs again after it was down.
const relaunched = "relaunched"

// judge returns whether a process is as it should be after an operation that leaves it running. A relaunch since a
// start or restart means that it was down.
func judge(s *process.Status, op process.Op) (health rollout.Health, cause string) {
	switch s.State {
	case process.StateRunning:
		if s.Flapping {
			return rollout.Unwell, process.StateFlapping
		}
		if s.Restarts > 0 && (op.Name() == process.Start || op.Name() == process.Restart) {
			return rollout.Unwell, relaunched
		}
		return rollout.Well, ""
	case process.StateScheduled, process.StateFinished:
		if s.EndedBadly() && op != process.Update { // an apply leaves what runs on demand as it is
			return rollout.Unwell, string(process.CauseRunFailed)
		}
		return rollout.Well, ""
	case process.StateStarting, process.StateStopping, process.StateOperating:
		return rollout.Unsettled, s.State
	default:
		return rollout.Unwell, s.State
	}
}
