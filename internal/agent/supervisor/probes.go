package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/notify"
	"drover/internal/agent/operation"
	"drover/internal/agent/probe"
	"drover/internal/agent/ready"
	"drover/internal/agent/record"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// Answered implements probe.Sink.
func (s *Supervisor) Answered(
	id process.ID, instance instance.Identity, revision uint64, health bool, a process.Answer,
) {
	s.emit(id, func(ctx context.Context, r *runner) {
		// An answer counts only for this instance and for the spec in force.
		if r.proc.Record != nil && r.proc.Record.Revision == revision && r.proc.Runtime.Process != nil &&
			*r.proc.Runtime.Process == instance {
			r.answered(ctx, health, &a)
		}
	})
}

// follow sets the probes of a running process, and compares its configuration files. A process that has yet to say that
// it is ready has no probes before that, or before its time for it is over.
func (r *runner) follow(ctx context.Context) {
	r.awaitReady(ctx)
	if r.proc.Record == nil || r.proc.Machine.State != lifecycle.Running || r.proc.Runtime.Process == nil {
		r.sup.cfg.Probes.Drop(r.id)
		r.countInstances()
		return
	}
	r.countInstances()
	r.listen()
	rec, rt := r.proc.Record, &r.proc.Runtime
	starts := rt.Unready != nil && !rt.Unready.Late && rec.Spec.AsksReady()
	switch {
	case !rec.Spec.Asks():
	case starts || !r.sup.operator.MayAsk(r.id, &rec.Spec):
		r.sup.cfg.Probes.Drop(r.id)
	default:
		r.sup.cfg.Probes.Set(r.id, probe.Subject{
			Instance: *rt.Process, StartedAt: rt.Process.StartedAfterBoot(), Revision: rec.Revision, Spec: &rec.Spec,
			Health: rt.Health, Version: rt.Version, Run: r.socketRun(),
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
	restarts := a.Bad && r.mayRestart()
	if text, open := r.withheld(); restarts && open {
		r.blameBreaker(text)
		return
	}
	r.pardonBreaker()
	if restarts && !r.mayNotEnd(*r.proc.Runtime.Process, "is unhealthy") && r.sup.budget.Spare(r.now()) {
		r.proc.Unhealthy(time.Now(), a.Text)
		r.step(ctx, lifecycle.Condemned{Placed: true})
	}
}

// withSpec returns the runtime of a process that has got a new spec: without the answers of commands that the spec has
// changed, and with its revision if the process needs no new start.
func withSpec(rt record.Runtime, before, after *record.Record) record.Runtime {
	if before == nil {
		return rt
	}
	was, is := &before.Spec, &after.Spec
	started := rt.StartDigest
	if started == "" && rt.Revision == was.Revision { // an older agent has started it
		started = was.StartDigest()
	}
	if rt.Revision != 0 && started == is.StartDigest() {
		rt.Revision = is.Revision
	}
	elsewhere := was.User != is.User || was.Dir() != is.Dir()
	if elsewhere || was.HealthCheck() != is.HealthCheck() {
		rt.Health = nil
	}
	if elsewhere || was.VersionCommand != is.VersionCommand {
		rt.Version = nil
	}
	return rt
}

// mayRestart reports whether drover may end the process because it is unhealthy: the spec asks for it, nothing else
// holds the process, and drover would relaunch it.
func (r *runner) mayRestart() bool {
	rec := r.proc.Record
	return rec.Spec.Health.Restarts() && rec.Hosted && rec.Spec.Kind() == process.Resident &&
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
		if r.proc.Record.Spec.Instances() > 1 {
			if seen := r.find(); seen.Alive() && *seen.ID == *r.proc.Runtime.Process {
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

const (
	// readyAtOnce is how many attempts at readiness may run at the same time, attemptLimit the longest time of one.
	readyAtOnce  = 16
	attemptLimit = 5 * time.Second
	// The pause between two attempts grows from soon to slow. It is later once the process is late.
	soon, slow, later = 50 * time.Millisecond, time.Second, 5 * time.Second
	// saidEvery is the least time between two texts of a process that are taken over.
	saidEvery = time.Second
)

// readiness is the wait for a running process to become ready. It has a goroutine only during an attempt.
type readiness struct {
	timer    machineTimer
	on       bool
	instance instance.Identity
	revision uint64
	until    time.Duration
	// check tests readiness; nil if time or a word of the process decides.
	check  *ready.Check
	pause  time.Duration
	cancel context.CancelFunc // ends the attempt under way
}

func (w *readiness) stop() {
	w.timer.disarm() // an attempt under way no longer counts
	if w.cancel != nil {
		w.cancel()
	}
	w.on, w.check, w.cancel = false, nil, nil
}

// awaitReady waits for a running process that is not ready yet, or ends the wait.
func (r *runner) awaitReady(ctx context.Context) {
	w, u := &r.awaited, r.proc.Runtime.Unready
	if r.proc.Record == nil || r.proc.Machine.State != lifecycle.Running || r.proc.Runtime.Process == nil || u == nil {
		w.stop()
		return
	}
	who, rec := *r.proc.Runtime.Process, r.proc.Record
	if w.on && w.instance == who && w.revision == rec.Revision && w.until == u.Until {
		return
	}
	w.stop()
	w.on, w.instance, w.revision, w.until, w.pause = true, who, rec.Revision, u.Until, soon
	first := max(u.Until-r.now(), 0)
	if rec.Spec.AsksReady() && !rec.Spec.Ready.Notify {
		doing, cancel := context.WithCancel(ctx)
		check, err := r.sup.operator.ReadyCheck(doing, r.id, &rec.Spec, r.proc.Runtime.Run, who, u.Earlier)
		if err != nil {
			cancel()
			r.sup.cfg.Log.Warn("cannot test readiness", "process", r.id, "error", err)
			return
		}
		w.check, w.cancel, first = check, cancel, 0
		if err := r.checkReadyPolicy(&rec.Spec); err != nil {
			r.unanswered(ctx, err.Error())
			return
		}
	}
	if w.check == nil && u.Late && rec.Spec.AsksReady() {
		return // only a word of the process can change that
	}
	r.tryAfter(first)
}

// checkReadyPolicy returns why the policy of the host forbids the readiness test; nil if the policy allows the test.
func (r *runner) checkReadyPolicy(spec *process.Spec) error {
	if spec.Ready.Exec == "" || r.sup.operator.Policy == nil {
		return nil
	}
	return r.sup.operator.Policy.MayAsk(r.id, spec)
}

// tryAfter plans the next attempt.
func (r *runner) tryAfter(after time.Duration) {
	w := &r.awaited
	w.timer.arm(after, func(number int) {
		r.post(func(ctx context.Context, r *runner) {
			if w.timer.isCurrent(number) {
				r.tryReady(ctx, number)
			}
		})
	})
}

// tryReady makes an attempt.
func (r *runner) tryReady(ctx context.Context, number int) {
	w := &r.awaited
	switch {
	case w.check == nil && !r.proc.Record.Spec.AsksReady():
		r.readied(ctx, "") // it has run for its time
		return
	case w.check == nil && r.socketRun() == "":
		r.unanswered(ctx, "it was started without NOTIFY_SOCKET, and cannot say so before its next start")
		return
	case w.check == nil:
		r.sup.operator.Notices.Settle()
		if r.takeNotice(ctx, r.socketRun()); w.timer.isCurrent(number) {
			r.unanswered(ctx, "it has not said READY=1 at NOTIFY_SOCKET")
		}
		return
	}
	check := w.check
	r.sup.goroutines.spawn(func() {
		select {
		case r.sup.readySlots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		try, cancel := context.WithTimeout(ctx, attemptLimit)
		err := check.Try(try)
		cancel()
		<-r.sup.readySlots
		r.post(func(ctx context.Context, r *runner) {
			switch {
			case !w.timer.isCurrent(number):
			case err == nil:
				r.readied(ctx, check.Note())
			default:
				r.unanswered(ctx, err.Error())
			}
		})
	})
}

// readied records that the process is ready; note is a remark about the test.
func (r *runner) readied(ctx context.Context, note string) {
	asked := r.proc.Record.Spec.AsksReady()
	r.proc.Runtime.Unready = nil
	if r.proc.Runtime.Cause.ID == process.CauseNotReady {
		r.proc.Clear()
	}
	r.awaited.stop()
	r.stepAndTell(ctx, lifecycle.Readied{}, func(story.Change) []process.Event {
		if !asked {
			return nil
		}
		return []process.Event{r.proc.Readied(note)}
	})
}

// unanswered records that the process is not ready, and does what its spec says when its time is up.
func (r *runner) unanswered(ctx context.Context, problem string) {
	u := *r.proc.Runtime.Unready // the published state has the old one
	missed, changed := !u.Late && r.now() >= u.Until, u.Problem != problem
	u.Problem, u.Late = problem, u.Late || missed
	r.proc.Runtime.Unready = &u
	if missed {
		r.storeRuntime(r.proc.Runtime)
		r.tell(r.proc.NotReady())
		if r.endLate(ctx) {
			return
		}
		r.follow(ctx)
	}
	if missed || changed {
		r.publish()
	}
	w := &r.awaited
	switch {
	case w.check == nil:
		return
	case u.Late:
		w.pause = later
	default:
		w.pause = min(2*w.pause, slow)
	}
	r.tryAfter(w.pause)
}

// endLate ends a process that is not ready in time, if its spec says so.
func (r *runner) endLate(ctx context.Context) bool {
	spec := &r.proc.Record.Spec
	if !spec.Ready.StopsLate() || r.mayNotEnd(*r.proc.Runtime.Process, "is not ready") {
		return false
	}
	if _, open := r.withheld(); open {
		return false // a process that is not ready is better than none
	}
	r.proc.EndForUnreadiness(time.Now())
	r.step(ctx, lifecycle.Condemned{Placed: r.sup.budget.Spare(r.now())})
	return true
}

// socketRun is the run whose process can notify drover; empty if it has no socket.
func (r *runner) socketRun() string {
	if !r.proc.Runtime.SelfReport.Socket {
		return ""
	}
	return r.proc.Runtime.Run
}

// TakeNotice takes in what a run has said.
func (s *Supervisor) TakeNotice(run string) {
	s.mu.Lock()
	r := s.byPrefix[operation.PrefixOf(run)]
	s.mu.Unlock()
	if r != nil {
		r.post(func(ctx context.Context, r *runner) { r.takeNotice(ctx, run) })
	}
}

// takeNotice takes in what the run of the process has said.
func (r *runner) takeNotice(ctx context.Context, run string) {
	if r.proc.Record == nil || r.proc.Machine.State != lifecycle.Running || r.proc.Runtime.Process == nil ||
		r.proc.Runtime.Run != run {
		return // an operation under way listens by itself, and stepAndTell hears the rest when the process runs
	}
	said, _ := r.sup.operator.Notices.State(run)
	if seen, ok := operation.Successor(r.proc.Runtime.Process, said); ok && r.alive(said) {
		before := r.proc.Runtime.Process.PID
		r.follows(seen)
		r.stepAndTell(ctx, lifecycle.Found{}, func(c story.Change) []process.Event {
			return []process.Event{r.proc.MainProcessNamed(c, before)}
		})
	}
	r.listen()
	if said.Triggered {
		r.sup.cfg.Probes.Hurry(r.id)
	}
	u := r.proc.Runtime.Unready
	switch {
	case u == nil && r.proc.Runtime.Cause.ID == process.CauseNotReady && said.Reloads > 0 && !said.Reloading:
		r.proc.Clear() // it has confirmed its reload after the time for that
		r.storeRuntime(r.proc.Runtime)
		r.publish()
	case u == nil || !r.proc.Record.Spec.AsksReady() || !r.proc.Record.Spec.Ready.Notify:
	case said.Ready:
		r.readied(ctx, "")
	case !u.Late:
		if end := operation.Extended(said, u.From, u.Limit, u.Until); end > u.Until {
			next := *u
			next.Until = end
			r.proc.Runtime.Unready = &next
			r.storeRuntime(r.proc.Runtime)
			r.awaitReady(ctx)
		}
	}
}

// follows records another main process of the same run.
func (r *runner) follows(seen instance.Sighting) {
	before := r.proc.Runtime
	seen.Run = before.Run
	r.proc.Runtime = operation.WithSighting(before, seen)
	rt := &r.proc.Runtime
	rt.Unready, rt.SelfReport, rt.Outside = before.Unready, before.SelfReport, false
	rt.User, rt.Revision, rt.StartDigest = before.User, before.Revision, before.StartDigest
}

// listen takes over the text of the process, at most once in saidEvery.
func (r *runner) listen() {
	if r.socketRun() == "" {
		return
	}
	said, _ := r.sup.operator.Notices.State(r.proc.Runtime.Run)
	next := r.proc.Runtime.SelfReport
	if said.HasStatus {
		next.Status = said.Status
	}
	if said.Stopping && next.Stopping == 0 {
		next.Stopping = time.Now().UnixMilli()
	}
	if next == r.proc.Runtime.SelfReport {
		return
	}
	now := r.now()
	if left := r.saidAt + saidEvery - now; r.saidAt != 0 && left > 0 {
		r.saidTimer.arm(left, func(number int) {
			r.post(func(_ context.Context, r *runner) {
				if r.saidTimer.isCurrent(number) {
					r.listen()
				}
			})
		})
		return
	}
	r.saidTimer.disarm()
	r.saidAt, r.proc.Runtime.SelfReport = now, next
	r.storeRuntime(r.proc.Runtime)
	r.publish()
}

// goesOn reports whether the run of an instance that has ended goes on as the main process that it has named.
func (r *runner) goesOn(ctx context.Context, was story.End) bool {
	run := r.socketRun()
	if run == "" {
		return false
	}
	r.sup.operator.Notices.Settle()
	said, _ := r.sup.operator.Notices.State(run)
	seen, ok := operation.Successor(r.proc.Runtime.Process, said)
	if !ok || !r.alive(said) {
		return false
	}
	r.follows(seen)
	r.proc.Clear()
	r.stepAndTell(ctx, lifecycle.Found{}, func(c story.Change) []process.Event {
		return []process.Event{r.proc.Replaced(c, was)}
	})
	return true
}

// alive reports whether the main process that a run has named is alive.
func (r *runner) alive(said notify.State) bool {
	alive, _ := r.sup.operator.Processes.Glance(said.Main)
	return alive
}
