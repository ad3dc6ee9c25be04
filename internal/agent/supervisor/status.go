package supervisor

import (
	"cmp"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// The words that are shown instead of a lifecycle state that would hide something.
const (
	shownFlapping  = "flapping"
	shownUnhealthy = "unhealthy"
)

// snapshot may be called by any goroutine.
func (r *runner) snapshot() (process.Status, *process.Spec, bool) {
	f := r.shared.load()
	if f.record == nil {
		return process.Status{}, nil, false
	}
	flapping := f.flapping(r.sup.cfg.Bounds, r.now())
	s := process.Status{
		Known: true, Hosted: f.record.Hosted, Want: f.record.Want, Revision: f.record.Revision,
		State: f.state(flapping), Message: f.message(r.now()),
		ProcName: f.record.Spec.Identity.ProcName, RegisteredAt: f.record.RegisteredAt,
		LastStartAt: f.runtime.LastStartAt,
		ReportedAt:  time.Now().Unix(), Instance: process.Instance{PID: -1},
		Flapping: flapping, Restarts: f.runtime.Restarts, LastExit: f.runtime.LastExit, Runs: f.runs,
	}
	for _, c := range f.runtime.Config {
		if c.Since != 0 {
			s.Config = append(s.Config, process.Drift{
				Path: c.Path, Want: c.Want, Have: c.Have, Problem: c.Problem,
				Since: c.Since,
			})
		}
	}
	if next, ok := r.sup.cfg.Timetables.Next(r.id); ok {
		s.NextRun = next.UnixMilli()
	}
	if f.machine.State == lifecycle.Scheduled && s.NextRun != 0 {
		s.Message = join(s.Message, "next run at "+time.UnixMilli(s.NextRun).UTC().Format(time.RFC3339))
	}
	if f.runtime.Process != nil {
		r.describe(f, &s)
	}
	causes := f.causes(&s, r.sup.cfg.Bounds)
	if text := r.sup.operator.NotInForce(&f.record.Spec); text != "" {
		causes = append(causes, process.Cause{
			ID: process.CauseNotInForce, Text: text,
			Since: 1000 * f.record.RegisteredAt,
		})
	}
	if len(causes) > 0 {
		s.Cause, s.Further = causes[0], causes[1:]
	}
	if s.Cause.Text != "" {
		s.Message = s.Cause.Text
	}
	return s, &f.record.Spec, true
}

// describe adds what is known of the running instance.
func (r *runner) describe(f snapshot, s *process.Status) {
	i, _, err := r.sup.operator.Processes.Instance(*f.runtime.Process)
	if err != nil {
		return
	}
	s.Health, s.Version = f.runtime.Health, f.runtime.Version
	r.sup.operator.Describe(r.id, *f.runtime.Process, &i)
	s.Instance = i
	s.LastStartAt = max(s.LastStartAt, i.StartedAt)
	if u, ok := r.sup.cfg.Usages.Usage(r.id); ok {
		s.Usage = &u
	}
}

// state is the word that is shown: a process that only seems to be up is not shown as running.
func (snap snapshot) state(flapping bool) string {
	switch snap.machine.State {
	case lifecycle.Running:
		if !flapping && snap.runtime.Health != nil && snap.runtime.Health.Bad {
			return shownUnhealthy
		}
		fallthrough
	case lifecycle.Starting, lifecycle.Backoff:
		if flapping {
			return shownFlapping
		}
	case lifecycle.Unknown, lifecycle.Stopped, lifecycle.Scheduled, lifecycle.Stopping, lifecycle.GivenUp,
		lifecycle.Finished, lifecycle.Operating:
	}
	return string(snap.machine.State)
}

func (snap snapshot) flapping(b lifecycle.Bounds, now time.Duration) bool {
	return lifecycle.Tally{Relaunches: snap.runtime.Relaunches}.Flapping(b, now)
}

// causes are why the process is not as it should be, or why it does not run, the worst first.
func (snap snapshot) causes(s *process.Status, b lifecycle.Bounds) (all []process.Cause) {
	why := snap.runtime.Cause
	why.Text = s.Message
	if snap.rival != 0 {
		all = append(all, process.Cause{ID: process.CauseRival, Text: operation.RivalText(snap.rival) +
			"; this drover only watches it"})
	}
	if snap.machine.State != lifecycle.Running {
		if s.State == shownFlapping { // what is shown comes first
			all = append(all, process.Cause{
				ID: process.CauseFlapping, Text: flappingText(b, ""),
				Since: snap.runtime.Flaps,
			})
		}
		if why = snap.causeOfRest(why); why.ID != "" || why.Text != "" {
			all = append(all, why)
		}
		return all
	}
	if s.Flapping {
		all = append(all, process.Cause{
			ID: process.CauseFlapping, Text: flappingText(b, s.Message),
			Evidence: why.Evidence, Since: snap.runtime.Flaps,
		})
	}
	if s.Health != nil && s.Health.Bad {
		all = append(all, process.Cause{ID: process.CauseUnhealthy, Text: sickText(s.Health), Since: s.Health.Since})
	}
	for _, d := range s.Config {
		all = append(all, process.Cause{ID: process.CauseDrift, Text: driftText(d), Since: d.Since})
	}
	if why.ID != "" && why.ID != process.CauseOutside { // an operation that has failed, a run that was left out
		all = append(all, why)
	}
	if short, ok := snap.shortage(); ok {
		all = append(all, short)
	}
	if snap.tooFew() {
		all = append(all, process.Cause{
			ID: process.CauseTooFew, Text: operation.TooFew(snap.runtime.Matches, snap.record.Spec.Policy),
			Since: snap.runtime.Few,
		})
	}
	if why.ID == process.CauseOutside { // which is nothing bad
		all = append(all, why)
	}
	return all
}

// tooFew reports whether fewer instances of a running process were seen than its spec expects.
func (snap snapshot) tooFew() bool {
	return snap.record != nil && snap.record.Spec.Policy.Instances > 1 && snap.machine.State == lifecycle.Running &&
		snap.runtime.Matches < snap.record.Spec.Policy.Instances
}

// causeOfRest fills in what follows from the state alone.
func (snap snapshot) causeOfRest(why process.Cause) process.Cause {
	switch snap.machine.State {
	case lifecycle.Operating:
		return process.Cause{
			ID: process.CauseOperating, Since: snap.active.since,
			Text: cmp.Or(string(snap.active.op), "an operation") + " under way since " +
				time.UnixMilli(snap.active.since).UTC().Format(time.RFC3339),
		}
	case lifecycle.Scheduled:
		if why.ID == "" || why.ID == process.CauseFinished {
			why.ID = process.CauseWaitsForSchedule
		}
	case lifecycle.Stopped, lifecycle.Finished:
		if why.ID == "" {
			why = snap.record.Rest
		}
	case lifecycle.Backoff:
		if snap.machine.Held {
			why.ID = process.CauseHeldBack
		}
	case lifecycle.Unknown, lifecycle.Running, lifecycle.Starting, lifecycle.GivenUp, lifecycle.Stopping:
	}
	return why
}

// message says what an operator needs to know beside the state.
func (snap snapshot) message(now time.Duration) string {
	p := snap.record.Spec.Policy
	switch snap.machine.State {
	case lifecycle.Backoff:
		if snap.runtime.Cause.ID == process.CausePolicy {
			return snap.runtime.Note
		}
		wait := max(snap.machine.RetryAt-now, 0).Round(time.Second)
		next := "next start in " + wait.String() + ", attempt " + itoa(snap.machine.Attempts+1) + " of " +
			itoa(p.StartRetries)
		if snap.machine.Held {
			next += ", held back because many processes of this host are being started"
		}
		return join(snap.runtime.Note, next)
	case lifecycle.GivenUp:
		return givenUpText(&snap.runtime, snap.machine.Attempts)
	case lifecycle.Running:
		if snap.machine.Pending {
			return join(snap.runtime.Note, "another run is due and begins when this one has ended")
		}
	case lifecycle.Starting:
		if p.Kind == process.Periodic {
			return join(snap.runtime.Note, "a run is being started")
		}
		return join(snap.runtime.Note, "start "+itoa(snap.machine.Attempts)+" of "+itoa(p.StartRetries)+" is under way")
	case lifecycle.Unknown, lifecycle.Stopped, lifecycle.Operating, lifecycle.Scheduled, lifecycle.Stopping,
		lifecycle.Finished:
	}
	return snap.runtime.Note
}

func givenUpText(rt *specstore.Runtime, attempts int) string {
	if rt.Cause.ID == process.CauseCPULimit || rt.Cause.ID == process.CauseMemLimit ||
		rt.Cause.ID == process.CauseGroupLimit {
		return join("given up after "+process.Count(len(rt.Breaches), "breach", "breaches")+" of a limit", rt.Note)
	}
	return join("given up after "+process.Count(attempts, "start", "starts")+" that did not last", rt.Note)
}

func join(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + "; " + b
}
