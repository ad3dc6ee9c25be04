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
		// Of another instance, or to a command of a spec that is not in force any more, it says nothing.
		if r.record != nil && r.record.Revision == revision && r.runtime.Process != nil &&
			*r.runtime.Process == instance {
			r.answered(ctx, health, &a)
		}
	})
}

// follow has a running process asked how it is, and looks at its configuration.
func (r *runner) follow(ctx context.Context) {
	if r.record == nil || r.machine.State != lifecycle.Running || r.runtime.Process == nil {
		r.sup.cfg.Probes.Drop(r.id)
		r.countInstances()
		return
	}
	r.countInstances()
	switch c := r.record.Spec.Commands; {
	case c.Health == "" && c.Version == "":
	case !r.sup.operator.MayAsk(r.id, &r.record.Spec):
		r.sup.cfg.Probes.Drop(r.id)
	default:
		r.sup.cfg.Probes.Set(r.id, probe.Subject{
			Instance: *r.runtime.Process, StartedAt: r.runtime.Process.StartedAfterBoot(), Revision: r.record.Revision,
			Spec:   &r.record.Spec,
			Health: r.runtime.Health, Version: r.runtime.Version,
		})
	}
	r.compare(ctx)
}

// countInstances notes since when there are too few.
func (r *runner) countInstances() {
	switch few := (snapshot{record: r.record, runtime: r.runtime, machine: r.machine}).tooFew(); {
	case !few:
		r.runtime.Few = 0
	case r.runtime.Few == 0:
		r.runtime.Few = time.Now().UnixMilli()
	}
}

// answered takes in what the process said of itself.
func (r *runner) answered(ctx context.Context, health bool, a *process.Answer) {
	if !health {
		r.runtime.Version = a
		r.storeRuntime(r.runtime)
		r.publish()
		return
	}
	sick := r.runtime.Health != nil && r.runtime.Health.Bad
	r.runtime.Health = a
	r.storeRuntime(r.runtime)
	r.publish()
	if a.Bad != sick {
		r.emitHealth(a)
	}
	if a.Bad && r.mayRestart() && !r.mayNotEnd(*r.runtime.Process, "is unhealthy") && r.sup.budget.spare(r.now()) {
		r.relaunching.reserved = true
		r.blame(process.CauseUnhealthy, "pid "+itoa(r.pid())+" was ended because it is unhealthy: "+a.Text)
		r.runtime.Ending = &specstore.Ending{Cause: r.cause()}
		r.step(ctx, lifecycle.Condemned{})
	}
}

// withoutAnswers returns what is known of an instance without what it said to commands that its spec does not name any
// more.
func withoutAnswers(rt specstore.Runtime, before, after *specstore.Record) specstore.Runtime {
	if before == nil {
		return rt
	}
	was, is := &before.Spec, &after.Spec
	elsewhere := was.Identity.User != is.Identity.User || was.Identity.SetupPath != is.Identity.SetupPath
	if elsewhere || was.Commands.Health != is.Commands.Health {
		rt.Health = nil
	}
	if elsewhere || was.Commands.Version != is.Commands.Version {
		rt.Version = nil
	}
	return rt
}

// mayRestart reports whether the process is to be started again when it is unhealthy, and nothing else holds it. One
// that would not come up again is not ended.
func (r *runner) mayRestart() bool {
	return r.record.Spec.Probes.Restart && r.record.Hosted && r.record.Spec.Policy.Kind == process.Resident &&
		!r.work.busy && r.machine.State == lifecycle.Running
}

func (r *runner) emitHealth(a *process.Answer) {
	e := process.Event{Kind: process.EventHealthy, PID: r.pid(), Actor: byPolicy()}
	if a.Bad {
		e.Kind = process.EventUnhealthy
		e.Cause = process.Cause{ID: process.CauseUnhealthy, Text: sickText(a)}
	}
	r.happened(r.machine.State, r.machine.State, e)
}

func sickText(a *process.Answer) string {
	if a.Failures == 1 {
		return "health_cmd failed: " + a.Text
	}
	return "health_cmd failed " + itoa(a.Failures) + " times in a row: " + a.Text
}

// review looks at what changes without an event: the configuration files, and whether the process still counts as
// flapping.
func (r *runner) review(ctx context.Context) {
	if r.record == nil || r.work.busy {
		return
	}
	before, matches := len(r.runtime.Relaunches), r.runtime.Matches
	r.runtime.Relaunches = r.tally().Recent(r.sup.cfg.Bounds, r.now()).Relaunches
	r.flapping()
	if r.machine.State == lifecycle.Running {
		r.compare(ctx)
		if r.record.Spec.Policy.Instances > 1 {
			if seen := r.look(); seen.Alive() && *seen.ID == *r.runtime.Process {
				r.runtime.Matches = seen.Matches
				r.countInstances()
			}
		}
	}
	if before != len(r.runtime.Relaunches) || matches != r.runtime.Matches {
		r.storeRuntime(r.runtime)
		r.publish()
	}
}
