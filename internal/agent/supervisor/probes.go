package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/probe"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// Answered implements probe.Sink.
func (s *Supervisor) Answered(id process.ID, instance procfs.Identity, revision uint64, health bool, a process.Answer) {
	s.emit(id, func(ctx context.Context, r *runner) {
		// An answer counts only for this instance and for the spec in force.
		if r.proc.Record != nil && r.proc.Record.Revision == revision && r.proc.Runtime.Process != nil &&
			*r.proc.Runtime.Process == instance {
			r.answered(ctx, health, &a)
		}
	})
}

// follow sets the probes of a running process, and compares its configuration files.
func (r *runner) follow(ctx context.Context) {
	if r.proc.Record == nil || r.proc.Machine.State != lifecycle.Running || r.proc.Runtime.Process == nil {
		r.sup.cfg.Probes.Drop(r.id)
		r.countInstances()
		return
	}
	r.countInstances()
	rec, rt := r.proc.Record, &r.proc.Runtime
	switch {
	case !rec.Spec.Asks():
	case !r.sup.operator.MayAsk(r.id, &rec.Spec):
		r.sup.cfg.Probes.Drop(r.id)
	default:
		r.sup.cfg.Probes.Set(r.id, probe.Subject{
			Instance: *rt.Process, StartedAt: rt.Process.StartedAfterBoot(), Revision: rec.Revision, Spec: &rec.Spec,
			Health: rt.Health, Version: rt.Version,
		})
	}
	r.compare(ctx)
}

// countInstances records since when too few instances run.
func (r *runner) countInstances() {
	switch few := r.proc.HasTooFew(); {
	case !few:
		r.proc.Runtime.Few = 0
	case r.proc.Runtime.Few == 0:
		r.proc.Runtime.Few = time.Now().UnixMilli()
	}
}

// answered records an answer of a probe.
func (r *runner) answered(ctx context.Context, health bool, a *process.Answer) {
	if !health {
		r.proc.Runtime.Version = a
		r.storeRuntime(r.proc.Runtime)
		r.publish()
		return
	}
	sick := r.proc.Runtime.Health != nil && r.proc.Runtime.Health.Bad
	r.proc.Runtime.Health = a
	r.storeRuntime(r.proc.Runtime)
	r.publish()
	if a.Bad != sick {
		r.tell(r.proc.HealthChanged(a))
	}
	if a.Bad && r.mayRestart() && !r.mayNotEnd(*r.proc.Runtime.Process, "is unhealthy") && r.sup.budget.spare(r.now()) {
		r.proc.Unhealthy(time.Now(), a.Text)
		r.step(ctx, lifecycle.Condemned{Placed: true})
	}
}

// withoutAnswers returns the runtime without the answers of commands that the new spec has changed.
func withoutAnswers(rt specstore.Runtime, before, after *specstore.Record) specstore.Runtime {
	if before == nil {
		return rt
	}
	was, is := &before.Spec, &after.Spec
	elsewhere := was.Identity.User != is.Identity.User || was.Identity.SetupPath != is.Identity.SetupPath
	if elsewhere || was.HealthCheck() != is.HealthCheck() {
		rt.Health = nil
	}
	if elsewhere || was.Commands.Version != is.Commands.Version {
		rt.Version = nil
	}
	return rt
}

// mayRestart reports whether drover may end the process because it is unhealthy: the spec asks for it, nothing else
// holds the process, and drover would relaunch it.
func (r *runner) mayRestart() bool {
	rec := r.proc.Record
	return rec.Spec.Probes.Restart && rec.Hosted && rec.Spec.Policy.Kind == process.Resident &&
		r.proc.Machine.State == lifecycle.Running
}

// review checks what changes without an event: the configuration files, the number of instances, and whether the
// process is still flapping.
func (r *runner) review(ctx context.Context) {
	if r.proc.Record == nil || r.proc.Machine.Busy() {
		return
	}
	before, matches := len(r.proc.Runtime.Relaunches), r.proc.Runtime.Matches
	r.proc.Runtime.Relaunches = r.proc.Tally().Recent(r.sup.cfg.Bounds, r.now()).Relaunches
	r.tell(r.proc.Flapping(r.unchanged())...)
	if r.proc.Machine.State == lifecycle.Running {
		r.compare(ctx)
		if r.proc.Record.Spec.Policy.Instances > 1 {
			if seen := r.look(); seen.Alive() && *seen.ID == *r.proc.Runtime.Process {
				r.proc.Runtime.Matches = seen.Matches
				r.countInstances()
			}
		}
	}
	if before != len(r.proc.Runtime.Relaunches) || matches != r.proc.Runtime.Matches {
		r.storeRuntime(r.proc.Runtime)
		r.publish()
	}
}
