package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/process"
)

// claimState is the claims of a hosted process against other drovers of the host.
type claimState struct {
	place, instance string
	// rival is the pid of another drover that claimed the process first: the rival acts, and this drover only looks. 0
	// means that there is none.
	rival int
}

// claim brings the claims in line with the record and the instance. A rival that was first stays first until it has
// ended or has released the process: two drovers that take turns would both start the process.
func (r *runner) claim() {
	c := r.sup.operator.Claims
	if c == nil {
		return
	}
	var want claimState
	if r.proc.Record != nil && r.proc.Record.Hosted {
		want.place = instance.ClaimOfPlace(r.id, &r.proc.Record.Spec)
		if r.proc.Runtime.Process != nil {
			want.instance = instance.ClaimOfInstance(*r.proc.Runtime.Process)
		}
	}
	have := r.claims
	if want == have || have.rival != 0 && want.place == have.place && !r.dropClaims(c, want) {
		return
	}
	for _, old := range []string{have.place, have.instance} {
		if old != "" && old != want.place && old != want.instance {
			c.Drop(old)
		}
	}
	if want.place != "" {
		want.rival = c.Take(want.place)
	}
	if want.instance != "" && want.rival == 0 {
		want.rival = c.Take(want.instance)
	}
	r.claims = want
	if (have.rival != 0) != (want.rival != 0) {
		r.proc.RivalSince = time.Now().UnixMilli()
		r.sup.cfg.Log.Warn("claim of the process changed", "process", r.id, "another_drover", want.rival)
	}
}

// dropClaims reports whether the rival has ended, or has released the claims that this drover wants. If the process is
// down, only the rival's end counts, because the rival may be about to start the process.
func (r *runner) dropClaims(c operation.Claims, want claimState) bool {
	if c.Rival(instance.ClaimOfDrover(r.claims.rival)) == 0 {
		return true
	}
	return want.instance != "" && c.Rival(want.place) == 0 && c.Rival(want.instance) == 0
}

// The times of a process that has ended while the program that kept it lives. Such a program starts its process again
// within seconds, or it has let go of the process. drover looks keptLooks times for the next instance.
const (
	keptLook  = 5 * time.Second
	keptLooks = 5
	keptTime  = keptLooks*keptLook - time.Second
)

// keptEnd is the end of a process that a program kept.
type keptEnd struct {
	// at is when the end was noticed, since boot; 0 while there is nothing to look for. from is the first time at
	// which the next instance may have begun.
	at, from time.Duration
}

// hasForeignSupervisor reports whether another supervisor still keeps the process that drover has taken over.
func (r *runner) hasForeignSupervisor() bool {
	k, c := r.proc.Runtime.ForeignSupervisor, r.sup.operator.Claims
	return k != nil && c != nil && c.Supervises(*k) && (r.keptEnd.at == 0 || r.now() < r.keptEnd.at+keptTime)
}

// awaitForeignSuccessor looks for the next instance after the end of a process that a program keeps; seen says that
// this agent saw the end.
func (r *runner) awaitForeignSuccessor(seen bool) {
	k, e := r.proc.Runtime.ForeignSupervisor, &r.keptEnd
	switch {
	case k == nil || k.Parent == nil || r.proc.Runtime.Process != nil:
		e.at = 0
	case e.at == 0:
		e.at = r.now()
		e.from = e.at - time.Second
		if was := r.proc.Runtime.Ended; was != nil && !seen {
			e.from = was.StartedAfterBoot() + 1
		}
		for n := range keptLooks {
			time.AfterFunc(time.Duration(n+1)*keptLook, func() { r.post(reclaim) })
		}
	}
}

// reclaim checks whether the rival or the other supervisor has gone. If so, this drover keeps the process running from
// now on.
func reclaim(ctx context.Context, r *runner) {
	if r.claims.rival == 0 && r.proc.Runtime.ForeignSupervisor == nil || r.proc.Machine.Busy() {
		return
	}
	if r.claim(); r.claims.rival != 0 {
		return
	}
	if kept := r.hasForeignSupervisor(); r.findForeignSuccessor(ctx, kept) || kept {
		return
	}
	// After the wait, the process has been down for longer than a delay.
	now := r.keptEnd.at != 0 && r.proc.Record.Spec.Restarts().When != process.Never
	if r.proc.Runtime.ForeignSupervisor != nil {
		r.proc.Runtime.ForeignSupervisor = nil
		r.storeRuntime(r.proc.Runtime)
	}
	r.schedule()
	if r.proc.Runtime.Process == nil {
		r.step(ctx, lifecycle.Began{})
		r.step(ctx, lifecycle.Ended{Now: now})
		return
	}
	r.publish()
}

// recheck drops the cause of an operation that was refused, once what stood in its way has gone.
func recheck(_ context.Context, r *runner) {
	if r.proc.Record == nil || r.proc.Machine.Busy() || r.obstructed() {
		return
	}
	r.proc.Clear()
	r.storeRuntime(r.proc.Runtime)
	r.publish()
}

// rechecked reports whether the condition of a cause is looked at again and again.
func rechecked(id process.CauseID) bool {
	return id == process.CauseCopy || id == process.CauseRival || id == process.CauseKept
}

// obstructed reports whether the condition of a cause that is rechecked still holds; true for another cause.
func (r *runner) obstructed() bool {
	rt, c := &r.proc.Runtime, r.sup.operator.Claims
	switch rt.Cause.ID {
	case process.CauseCopy:
		return r.hasCopy()
	case process.CauseRival:
		return c != nil && (r.claims.rival != 0 || c.Rival(instance.ClaimOfPlace(r.id, &r.proc.Record.Spec)) != 0 ||
			rt.Process != nil && c.Rival(instance.ClaimOfInstance(*rt.Process)) != 0)
	case process.CauseKept:
		return c != nil && rt.ForeignSupervisor != nil && c.Supervises(*rt.ForeignSupervisor)
	default:
		return true
	}
}

// hasCopy reports whether a copy of the process runs that no drover watches.
func (r *runner) hasCopy() bool {
	self, ran := operation.RunPrefix(r.id), r.proc.Runtime.Run != "" || r.proc.Runtime.LastStartAt != 0
	var all []instance.Identity
	for _, c := range r.sup.operator.Trees.Copies(&r.proc.Record.Spec, 0, func(run string) bool {
		prefix := operation.PrefixOf(run)
		return prefix == self && ran || prefix != self && r.sup.Knows(prefix)
	}) {
		all = append(all, c.ID)
	}
	return len(r.sup.Claimed(r.id, all)) < len(all)
}

// findForeignSuccessor reports whether it finds the instance that the other supervisor has started in place of the one
// that drover took over. When that supervisor seems to have let go, the command line need not be that of the spec: a
// program may have changed it.
func (r *runner) findForeignSuccessor(ctx context.Context, kept bool) bool {
	other := r.proc.Runtime.ForeignSupervisor
	if other == nil || !kept && other.Parent == nil || r.proc.Record == nil || r.proc.Runtime.Process != nil ||
		!r.proc.Record.Spec.Foreground() && !r.proc.Record.Spec.ByName() {
		return false
	}
	spec, o := &r.proc.Record.Spec, r.sup.operator
	pid := o.Claims.SupervisedPID(*other)
	started := func(string) bool { return true } // the process of such a supervisor is born in no run of drover
	for _, c := range o.Trees.Copies(spec, pid, started) {
		k := o.Claims.ForeignSupervisor(c.ID)
		if k == nil || !k.Same(*other) || pid <= 0 && kept && !c.SameLine && !spec.ByName() ||
			pid < 0 && c.ID.StartedAfterBoot() < r.keptEnd.from || !o.Reserve(r.id, c.ID) {
			continue
		}
		r.recordSighting(instance.Sighting{ID: &c.ID, Matches: 1})
		r.proc.Runtime.Outside, r.proc.Runtime.Adopted, r.proc.Runtime.LastStartAt = true, true, c.Since.Unix()
		r.storeRuntime(r.proc.Runtime)
		r.followNewInstance(ctx, nil)
		return true
	}
	return false
}
