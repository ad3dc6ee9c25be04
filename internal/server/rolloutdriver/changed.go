package rolloutdriver

import (
	"context"
	"fmt"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// leftAlone begins the outcome of a host that keeps what somebody has placed there since the beginning of the rollout.
const leftAlone = "left as it is: "

// meanwhile returns the hosts of a batch that keep what somebody has done there since the plan, and what that is. Of an
// apply it also returns the states of the processes.
func (d *Driver) meanwhile(ctx context.Context, r *store.Rollout, t *store.Task, steps []store.RolloutStep,
	hosts []*rollout.Host,
) (changed map[string]string, known map[store.ObservedKey]*process.Status, err error) {
	if r.State == rollout.Aborted {
		return nil, nil, nil
	}
	if r.Op == store.OpApply { // it reads the latest revision first
		if changed, err = d.changedMeanwhile(ctx, r, t, steps, hosts); err != nil {
			return nil, nil, err
		}
	}
	if known, err = d.statuses(ctx, r, hosts); err != nil || r.Op == store.OpApply {
		return changed, known, err
	}
	return d.stoppedMeanwhile(r, steps, hosts, known), nil, nil
}

// changedMeanwhile returns the hosts of an apply on which somebody has placed another spec since the rollout began,
// with the change. Upkeep brings only what a file has said before. changedMeanwhile has the task depend on the revision
// that it has read.
func (d *Driver) changedMeanwhile(ctx context.Context, r *store.Rollout, t *store.Task, steps []store.RolloutStep,
	hosts []*rollout.Host,
) (map[string]string, error) {
	namespace := steps[0].Process.Namespace // that of the file
	latest, err := d.Store.LatestRevision(ctx, namespace)
	if err != nil {
		return nil, err
	}
	t.ExpectedRevision = &store.ExpectedRevision{Namespace: namespace, Number: latest}
	agents := make([]string, len(hosts))
	for i, h := range hosts {
		agents[i] = h.Agent
	}
	placed, err := d.Store.PlacedOn(ctx, agents)
	if err != nil {
		return nil, err
	}
	later := map[store.ObservedKey]*store.Placement{}
	for i := range placed {
		p := &placed[i]
		if p.At.After(r.Created) && p.Through != v1.ThroughSelection && store.RolloutOf(p.Task) != r.ID {
			later[store.ObservedKey{Agent: p.Agent, Process: p.Process}] = p
		}
	}
	changed := map[string]string{}
	for _, h := range hosts {
		for _, at := range h.Steps {
			s := &steps[at]
			p := later[store.ObservedKey{Agent: h.Agent, Process: s.Process}]
			if p == nil || p.Spec.Same(s.Spec) || p.Spec.Same(s.Former) {
				continue
			}
			changed[h.Agent] = fmt.Sprintf("%s has changed %s since the plan (revision %d)",
				callerOf(p.App, p.User), s.Process, p.Revision)
			break
		}
	}
	return changed, nil
}

// stoppedMeanwhile returns the hosts on which somebody has stopped a process since the rollout of an operation was
// created, and who that was. It returns none for an operation that starts nothing.
func (d *Driver) stoppedMeanwhile(r *store.Rollout, steps []store.RolloutStep, hosts []*rollout.Host,
	known map[store.ObservedKey]*process.Status,
) map[string]string {
	stopped := map[string]string{}
	if info := r.Op.Info(); !info.LeavesRunning() {
		return stopped
	}
	now := d.Now()
	for _, h := range hosts {
		created := r.Created.Add(d.Presence.Presence(h.Agent, now).Ahead + precision) // by the clock of the host
		for _, at := range h.Steps {
			id := steps[at].Process
			s := known[store.ObservedKey{Agent: h.Agent, Process: id}]
			if s != nil && s.Want == process.WantStopped && s.Cause.ID == process.CauseStopped &&
				s.Cause.Since > created.UnixMilli() {
				stopped[h.Agent] = fmt.Sprintf("%s: %s since the plan", id, s.Cause.Text)
				break
			}
		}
	}
	return stopped
}

// removedMeanwhile says why a host does not have a process that it had at the time of the plan.
func (d *Driver) removedMeanwhile(agent string) string {
	if !d.Presence.Presence(agent, d.Now()).Joined {
		return "the host was removed from the fleet since the plan"
	}
	return "was removed since the plan: stays removed"
}

// callerOf names an app and its user, or the user who called without an app.
func callerOf(app, user string) string {
	if access.IsPersonApp(app) {
		app = ""
	}
	return strings.Trim(app+"/"+user, "/")
}
