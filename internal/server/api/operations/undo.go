package operations

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/plan"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// UndoRollout begins a rollout that brings back the specs that hosts had before an apply: on all hosts at once, unless
// the parameters have a plan.
func (h *Handler) UndoRollout(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := c.Subject("id")
	o, wrong := h.PlanOptionsOf(&c.Params)
	if err := call.Together(c.Params.Done(), wrong); err != nil {
		return call.Reply{}, err
	}
	p, err := o.Plan(atOnce())
	if err != nil {
		return call.Reply{}, err
	}
	if p.UndoOnFailure {
		return call.Reply{}, call.Invalid("undo_on_failure", "is for an apply, not for its undo")
	}
	undo, err := h.undo(ctx, c, id, p, o.At, h.undoneBy(c))
	if err != nil {
		return call.Reply{}, err
	}
	return call.Reply{
		Status: http.StatusAccepted, Body: ViewRollout(undo), Location: "/rollouts/" + url.PathEscape(undo.ID),
	}, nil
}

// atOnce returns the default plan of an undo: all hosts in one batch, without hosts that are away.
func atOnce() *v1.RolloutPlan {
	return &v1.RolloutPlan{Batch: v1.HostCount{Percent: 100}, SkipAway: true}
}

// UndoFailed undoes a rollout whose plan says so, with the rights of a principal. refused says why the rollout cannot
// be undone; it is empty if the undo began. After an error nobody has decided, and the caller repeats the call.
func (h *Handler) UndoFailed(ctx context.Context, who access.Principal, id string) (refused string, err error) {
	c := &call.Call{Call: &edge.Call{Principal: who, Audit: store.AuditRow{
		At: h.Now(), App: who.App, User: who.User, RequestID: "rollout " + id, Action: "rollouts.undo", Allowed: true,
	}}}
	if _, err = h.undo(ctx, c, id, atOnce(), time.Time{}, h.undoneByItself); err == nil {
		return "", nil
	}
	p := call.ProblemOf(err)
	if p.Status == http.StatusForbidden {
		c.Audit.Code, c.Audit.Message = p.Status, p.Detail
		h.Record(ctx, c.Call, edge.Ending{Denied: true})
	}
	if p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests {
		return "", cmp.Or(p.Cause, error(p))
	}
	return p.Detail, nil
}

// undo stores a rollout that brings back the specs from before the rollout with an id. ending ends that rollout if it
// is paused.
func (h *Handler) undo(ctx context.Context, c *call.Call, id string, p *v1.RolloutPlan, at time.Time, ending undoing) (
	*store.Rollout, error,
) {
	r, err := h.Rollouts.GetRollout(ctx, id, c.App())
	if err != nil {
		return nil, h.onlyOwn(ctx, c, id, call.StoreProblem(err, "rollout", id))
	}
	if err := undoable(r); err != nil {
		return nil, err
	}
	former, err := h.Rollouts.RolloutSteps(ctx, id)
	if err != nil {
		return nil, call.Failure("read the rollout", err)
	}
	known, err := h.processes.Reported(ctx, c, r.Steps[0].Process.Namespace)
	if err != nil {
		return nil, err
	}
	steps, changed, removed, err := h.stepsBack(ctx, r, former, known)
	if err != nil {
		return nil, err
	}
	if err := h.MayApply(c, steps); err != nil { // first, because a host that the caller may not see is no removal
		return nil, err
	}
	if err := notAsLeft(id, changed, removed); err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return nil, h.nothingToUndo(ctx, c, id)
	}
	undo := h.NewRollout(c, store.OpApply)
	undo.Through, undo.Message, undo.Undoes = v1.ThroughUndo, "undo of "+r.ID, r.ID
	undo.Ends = ending(r, undo.ID)
	h.LayRollout(undo, p, at, steps)
	if err := h.selectAsBefore(ctx, c, undo, known); err != nil {
		return nil, err
	}
	return undo, h.StoreRollouts(ctx, c, []*store.Rollout{undo})
}

// sameBegun reports whether the same hosts of a rollout have begun at the same times.
func sameBegun(a, b []rollout.Host) bool {
	return slices.EqualFunc(a, b, func(a, b rollout.Host) bool { return a.Begun.Equal(b.Begun) })
}

// undoing returns the change that ends a rollout in favour of its undo, given by id; nil if the rollout has ended
// already.
type undoing func(r *store.Rollout, undo string) *store.RolloutEnd

// undoneBy returns the undoing for a caller. Its change fails if the rollout has gone on since the caller read it.
func (h *Handler) undoneBy(c *call.Call) undoing {
	return func(r *store.Rollout, _ string) *store.RolloutEnd {
		if !r.State.Active() {
			return nil
		}
		return &store.RolloutEnd{RolloutChange: h.ChangeBy(c), Change: func(now *rollout.Rollout) error {
			if !sameBegun(now.Hosts, r.Hosts) {
				return call.Problemf(http.StatusConflict, "rollout %s went on meanwhile: undo it again", r.ID)
			}
			return aborted("undone by " + c.Principal.Name())(now)
		}}
	}
}

// undoneByItself is the undoing for a rollout whose plan has undo_on_failure. Its change fails if somebody has changed
// the rollout meanwhile.
func (h *Handler) undoneByItself(r *store.Rollout, undo string) *store.RolloutEnd {
	by := store.RolloutChange{At: h.Now(), By: process.Actor{Kind: process.ActorPolicy}}
	return &store.RolloutEnd{RolloutChange: by, Change: func(now *rollout.Rollout) error {
		if !now.Undoing() || !sameBegun(now.Hosts, r.Hosts) {
			return call.Problemf(http.StatusConflict, "somebody has changed rollout %s meanwhile", r.ID)
		}
		return aborted(now.Reason + ": undone by rollout " + undo)(now)
	}}
}

// placedBefore returns the specs that hosts should have had before the rollout of an apply, if the rollout has missed
// hosts: a host that was away may never have reported the former spec.
func (h *Handler) placedBefore(ctx context.Context, r *store.Rollout) (map[store.ObservedKey]*process.Spec, error) {
	if !slices.ContainsFunc(r.Hosts, func(x rollout.Host) bool { return !x.Begun.IsZero() && missed(&x) }) {
		return nil, nil //nolint:nilnil // nobody asks
	}
	f, first := store.RevisionFilter{Namespace: r.Steps[0].Process.Namespace}, int64(0)
	for more := true; more; {
		rows, next, err := h.Revisions.ListRevisions(ctx, f, call.MaxPage)
		if err != nil {
			return nil, call.Failure("list the revisions", err)
		}
		for i := range rows {
			if more = !rows[i].At.Before(r.Created); !more {
				break
			}
			if store.RolloutOf(rows[i].Task) == r.ID {
				first = rows[i].Number
			}
		}
		f.Before, more = next, more && next != 0
	}
	if first <= 1 {
		return nil, nil //nolint:nilnil // nothing was placed
	}
	placed, err := h.Revisions.PlacedAt(ctx, f.Namespace, first-1)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, call.Failure("read the revision", err)
	}
	all := map[store.ObservedKey]*process.Spec{}
	for _, p := range placed {
		all[store.ObservedKey{Agent: p.Agent, Process: process.ID{Namespace: f.Namespace, Name: p.Name}}] = p.Spec
	}
	return all, nil
}

// removedFrom returns the processes that somebody has removed by hand from the hosts of a rollout.
func (h *Handler) removedFrom(ctx context.Context, r *store.Rollout) (map[store.ObservedKey]bool, error) {
	agents := make([]string, len(r.Hosts))
	for i := range r.Hosts {
		agents[i] = r.Hosts[i].Agent
	}
	removed, err := h.Upkeep.RemovedOn(ctx, agents)
	if err != nil {
		return nil, call.Failure("read the rollout", err)
	}
	all := map[store.ObservedKey]bool{}
	for _, key := range removed {
		all[key] = true
	}
	return all, nil
}

// missed reports whether a rollout has not reached a host of a batch that has begun.
func missed(x *rollout.Host) bool {
	return x.Cause == rollout.CauseAway || x.Cause == rollout.CauseCancelled
}

// aborted returns a change that aborts a rollout and stores the reason.
func aborted(reason string) func(*rollout.Rollout) error {
	return func(r *rollout.Rollout) error {
		err := r.Abort()
		if err == nil {
			r.Reason = reason
		}
		return err
	}
}

// undoable rejects the undo of a rollout that is under way, or of an operation.
func undoable(r *store.Rollout) error {
	begun := r.Counts()[rollout.Begun]
	switch {
	case r.Op.Name() == process.Upgrade:
		return call.Problemf(http.StatusUnprocessableEntity,
			"nothing undoes an upgrade: sign the earlier version with --downgrade, and upgrade the hosts to it")
	case r.Op != store.OpApply:
		return call.Problemf(http.StatusUnprocessableEntity,
			"rollout %s is of the operation %s, which nothing undoes: expected the rollout of an apply", r.ID, r.Op)
	case r.State == rollout.Scheduled:
		return call.Problemf(http.StatusConflict, "rollout %s is scheduled and has changed nothing: end it with "+
			"'drover rollout abort %s'", r.ID, r.ID)
	case r.State == rollout.Running:
		return call.Problemf(http.StatusConflict, "rollout %s is running: pause it with 'drover rollout pause %s', "+
			"or end it with 'drover rollout abort %s'", r.ID, r.ID, r.ID)
	case begun > 0:
		return call.Problemf(http.StatusConflict, "rollout %s is still under way on %s: wait for them", r.ID,
			process.Count(begun, "host", "hosts"))
	}
	return nil
}

// notAsLeft refuses the undo of a rollout after which somebody has changed or removed processes.
func notAsLeft(id string, changed, removed []string) error {
	switch {
	case len(removed) == 0 && len(changed) == 0:
		return nil
	case len(removed) == 0:
		return call.Problemf(http.StatusConflict,
			"%s changed since rollout %s, such as %s: apply the file that you want instead",
			process.Count(len(changed), "process has", "processes have"), id, changed[0])
	case len(changed) == 0:
		return call.Problemf(http.StatusConflict,
			"%s removed since rollout %s, such as %s: apply the file that you want instead",
			process.Count(len(removed), "process was", "processes were"), id, removed[0])
	}
	return call.Problemf(http.StatusConflict,
		"%d processes were changed or removed since rollout %s, such as %s: apply the file that you want instead",
		len(changed)+len(removed), id, changed[0])
}

// stepsBack returns the steps that bring back the specs of the hosts that a rollout has reached. Hosts that were away
// or cancelled have steps without effect there, because by the revision of their batch they should have the new specs.
// The processes that are gone have such steps, too, so that no file says that the host should have them. changed are
// processes, with their hosts, whose specs are neither those of the rollout nor the former ones. removed are those that
// somebody has removed since, and that the undo would bring back.
func (h *Handler) stepsBack(ctx context.Context, r *store.Rollout, former []store.RolloutStep, known []plan.Known) (
	steps []plan.Step, changed, removed []string, err error,
) {
	before, err := h.placedBefore(ctx, r)
	if err != nil {
		return nil, nil, nil, err
	}
	gone, err := h.removedFrom(ctx, r)
	if err != nil {
		return nil, nil, nil, err
	}
	var wanted []plan.Wanted
	var without []plan.Step
	present := map[store.ObservedKey]*process.Spec{}
	for i := range known {
		if k := &known[i]; k.Spec != nil {
			present[store.ObservedKey{Agent: k.Agent, Process: k.Process}] = k.Spec.Unnumbered()
		}
	}
	reached := map[store.ObservedKey]bool{}
	for i := range r.Hosts {
		x := &r.Hosts[i]
		if _, joined := h.Directory.ByKey(x.Agent); x.Begun.IsZero() || x.Cause == rollout.CauseChanged || !joined {
			continue
		}
		for _, at := range x.Steps {
			s := &former[at]
			key := store.ObservedKey{Agent: x.Agent, Process: s.Process}
			now := present[key]
			switch place := s.Process.String() + " on " + x.Name; {
			case now == nil && s.Spec != nil && s.Former != nil && !missed(x):
				removed = append(removed, place)
			case now != nil && !isOf(s, now):
				changed = append(changed, place)
			}
			reached[key] = true
			back := plan.Step{Op: process.Stop, Process: s.Process, Agent: x.Agent, Host: x.Name, Removes: true}
			stays := missed(x) && now == nil && gone[key] // somebody removed it before the rollout came to the host
			if old := cmp.Or(s.Former, before[key]); old != nil && (s.Former != nil || missed(x)) && !stays {
				of, _ := process.CopyOf(old, s.Process)
				back.Op, back.Removes, back.Spec = process.Update, false, old.Unnumbered()
				wanted = append(wanted, plan.Wanted{
					Process: s.Process, Agent: x.Agent, Host: x.Name, Spec: back.Spec, Entry: of.Name,
				})
			}
			if missed(x) || gone[key] {
				without = append(without, back)
			}
		}
	}
	known = slices.DeleteFunc(slices.Clone(known), func(k plan.Known) bool {
		return !reached[store.ObservedKey{Agent: k.Agent, Process: k.Process}]
	})
	_, steps = plan.Make(wanted, known, plan.Options{Prune: plan.PruneAll})
	made := map[store.ObservedKey]bool{}
	for _, s := range steps {
		made[store.ObservedKey{Agent: s.Agent, Process: s.Process}] = true
	}
	without = slices.DeleteFunc(without, func(s plan.Step) bool {
		return made[store.ObservedKey{Agent: s.Agent, Process: s.Process}]
	})
	return append(steps, without...), changed, removed, nil
}

// isOf reports whether a spec is the spec of a step, or the spec before that step.
func isOf(s *store.RolloutStep, now *process.Spec) bool {
	return s.Spec != nil && s.Spec.Unnumbered().Same(now) || s.Former != nil && s.Former.Unnumbered().Same(now)
}

// nothingToUndo returns the problem of an undo without steps: usually another undo came first, which the problem names.
func (h *Handler) nothingToUndo(ctx context.Context, c *call.Call, id string) error {
	list, err := h.Rollouts.ListRollouts(ctx, store.RolloutFilter{Sight: c.Sight()}, 0, call.MaxPage)
	if err != nil {
		return call.Failure("list the rollouts", err)
	}
	for i := range list {
		if r := &list[i]; r.Undoes == id {
			return call.Problemf(http.StatusConflict, "rollout %s is undone already: by rollout %s, which %s began at %s", id, r.ID,
				beganBy(r.App, r.User), r.Created.UTC().Format(time.RFC3339))
		}
	}
	return call.Problemf(http.StatusConflict, "rollout %s has changed nothing that is still so", id)
}

// Upkeep is the part of the store that says how hosts differ from their files. An apply that changes nothing on a host
// writes it, too.
type Upkeep interface {
	store.Upkeeping
	store.Filings
}
