package drive

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
	t.Known = &store.KnownRevision{Namespace: namespace, Number: latest}
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
// created, and the operation could start it again; and who that was.
func (d *Driver) stoppedMeanwhile(ctx context.Context, r *store.Rollout, steps []store.RolloutStep, hosts []*rollout.Host,
) (map[string]string, error) {
	stopped := map[string]string{}
	if info := r.Op.Info(); !info.LeavesRunning() {
		return nil, nil //nolint:nilnil // it starts nothing
	}
	known, err := d.statuses(ctx, r, hosts)
	if err != nil {
		return nil, err
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
	return stopped, nil
}

// callerOf names an app and its user, or the user who called without an app.
func callerOf(app, user string) string {
	if access.IsPersonApp(app) {
		app = ""
	}
	return strings.Trim(app+"/"+user, "/")
}
