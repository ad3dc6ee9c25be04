package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
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

// kept reports whether another supervisor still keeps the process that drover has taken over.
func (r *runner) kept() bool {
	k, c := r.proc.Runtime.Keeper, r.sup.operator.Claims
	return k != nil && c != nil && c.Keeps(*k)
}

// reclaim checks whether the rival or the keeper has gone. If so, this drover keeps the process running from now on.
func (r *runner) reclaim(ctx context.Context) {
	if r.claims.rival == 0 && r.proc.Runtime.Keeper == nil || r.proc.Machine.Busy() {
		return
	}
	if r.claim(); r.claims.rival != 0 {
		return
	}
	if r.kept() {
		r.findKept(ctx)
		return
	}
	if r.proc.Runtime.Keeper != nil {
		r.proc.Runtime.Keeper = nil
		r.storeRuntime(r.proc.Runtime)
	}
	r.schedule()
	if r.proc.Runtime.Process == nil {
		r.step(ctx, lifecycle.Began{})
		r.step(ctx, lifecycle.Ended{})
		return
	}
	r.publish()
}

// findKept finds the instance that the keeper has started in place of the one that drover took over.
func (r *runner) findKept(ctx context.Context) {
	if r.proc.Record == nil || !r.proc.Record.Spec.Foreground() || r.proc.Runtime.Process != nil {
		return
	}
	pid := r.sup.operator.Claims.Keeping(*r.proc.Runtime.Keeper)
	for _, c := range r.sup.operator.Trees.Copies(&r.proc.Record.Spec, pid) {
		k := r.sup.operator.Claims.Keeper(c.ID)
		if k == nil || pid == 0 && !c.SameLine || !k.Same(*r.proc.Runtime.Keeper) ||
			!r.sup.operator.Reserve(r.id, c.ID) {
			continue
		}
		r.sighted(instance.Sighting{ID: &c.ID, Matches: 1})
		r.proc.Runtime.Outside, r.proc.Runtime.LastStartAt = true, c.Since.Unix()
		r.storeRuntime(r.proc.Runtime)
		r.found(ctx, nil)
		return
	}
}
