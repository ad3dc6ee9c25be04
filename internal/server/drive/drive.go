// Package drive carries out rollouts: it gives package rollout the facts about the hosts, stores its decisions, and
// turns each begun batch into one task. Everything is in the store, so another server continues after a death. The id
// of a batch's task follows from rollout and batch, and the store takes an id once: so two drivers never give a host
// the operation twice.
package drive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"drover/internal/idle"
	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

const (
	// look is the interval between two looks at the open rollouts, and lookIdle the interval while there are none.
	look     = time.Second
	lookIdle = 2 * time.Second
	// oldest is how old a batch without a task may be: its task cannot have been removed yet.
	oldest = 24 * time.Hour
	// awayFor is how long an agent may reconnect before it counts as away.
	awayFor = 10 * time.Second
)

// Store is what a driver needs of the database.
type Store interface {
	GetRollout(ctx context.Context, id, app string) (*store.Rollout, error)
	OpenRollouts(ctx context.Context) ([]string, error)
	ChangeRollout(ctx context.Context, id, app string, change func(*rollout.Rollout) error) (*store.Rollout, error)
	TaskOpen(ctx context.Context, id string) (bool, error)
	TaskItems(ctx context.Context, id, app string, fn func(store.ItemView) error) error
	GetObserved(ctx context.Context, id process.ID, agents []string, fn func(store.Observed) error) error
}

// Engine carries out tasks.
type Engine interface {
	Submit(ctx context.Context, t *store.Task, row store.AuditRow) error
	Cancel(ctx context.Context, id, app string) (store.Cancelled, error)
}

// Presence knows which agents are connected.
type Presence interface {
	Presence(key string, now time.Time) fleet.Presence
}

// Config holds the parts of a driver. All are required.
type Config struct {
	Store    Store
	Engine   Engine
	Presence Presence
	// Now is the common time of all servers of the database.
	Now func() time.Time
	Log *slog.Logger
}

// Driver drives all rollouts of a database. Only one driver should run at a time; two do no harm.
type Driver struct{ Config }

// New returns a driver.
func New(c Config) *Driver { return &Driver{c} }

// Run drives rollouts until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		open, err := d.Store.OpenRollouts(ctx)
		for _, id := range open {
			if failed := d.Step(ctx, id); failed != nil && ctx.Err() == nil {
				d.Log.ErrorContext(ctx, "cannot drive rollout", "rollout", id, "error", failed)
			}
		}
		if err != nil && ctx.Err() == nil {
			d.Log.ErrorContext(ctx, "cannot list open rollouts", "error", err)
		}
		if len(open) > 0 {
			idle.Sleep(ctx, look)
		} else {
			idle.Sleep(ctx, lookIdle)
		}
	}
	return nil
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
	facts, err := d.facts(ctx, r)
	if err != nil {
		return err
	}
	now := d.Now()
	if reflect.DeepEqual(rollout.Step(r.Rollout, facts, now), r.Rollout) {
		return nil
	}
	before := r.Rollout
	r, err = d.Store.ChangeRollout(ctx, id, "", func(r *rollout.Rollout) error {
		*r = rollout.Step(*r, facts, now)
		return nil
	})
	if err != nil {
		return err
	}
	if r.State != before.State || r.Batch != before.Batch {
		d.Log.InfoContext(ctx, "rollout proceeds", "rollout", id, "state", r.State, "reason", r.Reason,
			"batch", r.Batch)
	}
	return d.order(ctx, r)
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
			if _, taken := d.Store.TaskOpen(ctx, id); taken == nil { // by this driver or another one
				err = nil
			}
		case r.State == rollout.Aborted:
			_, err = d.Engine.Cancel(ctx, id, "")
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
	t := &store.Task{
		ID: r.BatchTask(batch), App: r.App, User: r.User, RequestID: r.RequestID, HostTimeout: r.HostTimeout,
		Ordered: true, Selector: r.Selector,
	}
	place := map[process.ID]int{}
	targets := 0
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if h.Batch != batch || h.State != rollout.Begun {
			continue
		}
		for _, id := range h.Processes {
			at, known := place[id]
			if !known {
				at = len(t.Requests)
				place[id] = at
				t.Requests = append(t.Requests, store.Request{Op: r.Op, Process: id})
			}
			target := store.Target{Key: store.ResultKey(id, h.Name), Asked: h.Name, Agent: h.Agent}
			if r.State == rollout.Aborted {
				never := process.NotBegun()
				target.Outcome = &never
			}
			t.Requests[at].Targets = append(t.Requests[at].Targets, target)
			targets++
		}
	}
	return d.Engine.Submit(ctx, t, store.AuditRow{
		At: d.Now(), App: r.App, User: r.User, RequestID: r.RequestID, Action: "rollouts.batch", Target: t.ID,
		Targets: targets, Allowed: true, Message: process.Success,
	})
}

// facts collects what is known about the begun and baking hosts.
func (d *Driver) facts(ctx context.Context, r *store.Rollout) (map[string]rollout.Fact, error) {
	facts := map[string]rollout.Fact{}
	now := d.Now()
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
	baking := map[process.ID][]string{}
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if h.State != rollout.Baking {
			continue
		}
		p := d.Presence.Presence(h.Agent, now)
		if p.Away && (p.Settling || now.Sub(p.Since) < awayFor) {
			continue // the agent may reconnect
		}
		facts[h.Agent] = rollout.Fact{Batch: h.Batch, Health: rollout.Well, Away: p.Away}
		for _, id := range h.Processes {
			baking[id] = append(baking[id], h.Agent)
		}
	}
	for id, agents := range baking {
		seen := map[string]bool{}
		err := d.Store.GetObserved(ctx, id, agents, func(o store.Observed) error {
			seen[o.Agent] = true
			health, cause := judge(&o, r.Op)
			facts[o.Agent] = worse(facts[o.Agent], health, cause, id)
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, agent := range agents {
			if !seen[agent] {
				facts[agent] = worse(facts[agent], rollout.Unwell, "unknown", id)
			}
		}
	}
	return facts, nil
}

// outcomes reads the results of a batch's task. A host is done when all of its operations are, and the first failure
// counts.
func (d *Driver) outcomes(ctx context.Context, r *store.Rollout, batch int, facts map[string]rollout.Fact) error {
	agents := map[string]string{}
	for i := range r.Hosts {
		if h := &r.Hosts[i]; h.Batch == batch && h.State == rollout.Begun {
			agents[h.Name] = h.Agent
		}
	}
	return d.Store.TaskItems(ctx, r.BatchTask(batch), "", func(v store.ItemView) error {
		agent, known := agents[v.Asked]
		if !known {
			return nil
		}
		f, again := facts[agent]
		if !again {
			f = rollout.Fact{Batch: batch, Done: true}
		}
		f.Done = f.Done && v.Done
		if o := v.Outcome; v.Done && o != nil && f.Fault == process.None {
			if _, already := process.Already(v.Op, o.Fault); !already {
				f.Fault, f.Text = o.Fault, o.Text
				f.Untouched = o.Text == task.Unavailable
			}
		}
		facts[agent] = f
		return nil
	})
}

// worse returns a fact with the worse of two judgements.
func worse(f rollout.Fact, health rollout.Health, cause string, id process.ID) rollout.Fact {
	rank := map[rollout.Health]int{rollout.Well: 0, rollout.Unsettled: 1, rollout.Unwell: 2}
	if rank[health] > rank[f.Health] {
		f.Health, f.Cause, f.Text = health, cause, fmt.Sprintf("%s is %s", id, cause)
	}
	return f
}

// judge returns whether a process is as it should be after an operation that leaves it running. A relaunch since a
// start or restart means that it was down.
func judge(o *store.Observed, op process.Op) (health rollout.Health, cause string) {
	switch s := &o.Status; s.State {
	case process.StateRunning:
		if s.Flapping {
			return rollout.Unwell, process.StateFlapping
		}
		if s.Restarts > 0 && (op == process.Start || op == process.Restart) {
			return rollout.Unwell, "relaunched"
		}
		return rollout.Well, ""
	case process.StateScheduled, process.StateFinished:
		return rollout.Well, ""
	case process.StateStarting, process.StateStopping, process.StateOperating:
		return rollout.Unsettled, s.State
	default:
		return rollout.Unwell, s.State
	}
}
