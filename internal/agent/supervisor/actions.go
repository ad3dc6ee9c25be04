package supervisor

import (
	"context"
	"errors"
	"log/slog"
	goruntime "runtime"
	"strconv"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

func itoa(n int) string { return strconv.Itoa(n) }

func (r *runner) now() time.Duration { return r.sup.cfg.Operator.Clock() }

func (r *runner) policy() lifecycle.Policy {
	p := lifecycle.Policy{HealthyAfter: r.sup.cfg.HealthyAfter}
	if r.record != nil {
		spec := r.record.Spec.Policy
		p.Hosted, p.Kind, p.Retries = r.record.Hosted, spec.Kind, spec.StartRetries
		p.Interval = time.Duration(spec.StartInterval) * time.Second
	}
	return p
}

// step feeds the machine one event, does what it asks for, and lets others see the new state.
func (r *runner) step(ctx context.Context, ev lifecycle.Event) {
	r.stepAndTell(ctx, ev, func() {})
}

// stepAndTell is step for an event that tell puts into the log. A relaunch waits neither for that nor for the disk.
func (r *runner) stepAndTell(ctx context.Context, ev lifecycle.Event, tell func()) {
	before := r.machine
	next, actions := r.machine.Step(r.policy(), ev, r.now())
	r.machine = next
	r.perform(ctx, actions)
	tell()
	if next.State != before.State {
		level := slog.LevelInfo
		if next.State == lifecycle.Operating || before.State == lifecycle.Operating {
			level = slog.LevelDebug // the end of the operation is told
		}
		r.sup.cfg.Log.Log(ctx, level, "state changed", "process", r.id, "from", before.State, "to", next.State)
	}
	r.runtime.Attempts, r.runtime.LaunchedAt, r.runtime.RetryAt = r.machine.Attempts, r.machine.LaunchedAt, r.machine.RetryAt
	if r.record != nil {
		r.keep(r.runtime)
	}
	r.show()
}

// keep notes what is known of the instance. A failure is logged only: the disk may be full, and the work goes on.
func (r *runner) keep(rt specstore.Runtime) {
	if err := r.sup.cfg.Store.PutRuntime(r.id, rt); err != nil {
		r.sup.cfg.Log.Warn("state of process could not be noted", "process", r.id, "error", err)
	}
}

func (r *runner) perform(ctx context.Context, actions []lifecycle.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case lifecycle.Look:
			r.firstLook(ctx)
		case lifecycle.Watch:
			r.watch()
		case lifecycle.Relaunch:
			r.relaunch(ctx, r.sup.cfg.Operator.Relaunch, r.rebooted())
		case lifecycle.Arm:
			r.arm(a.Timer, a.After)
		case lifecycle.Disarm:
			r.disarm()
		case lifecycle.GiveUp:
			r.giveUp()
		}
	}
}

// rebooted reports whether nothing at all is known of this boot: the process was hosted before the host went down.
func (r *runner) rebooted() bool { return r.runtime.LastStartAt == 0 && r.machine.Attempts == 1 }

// firstLook sees what became of the process since the agent's last life.
func (r *runner) firstLook(ctx context.Context) {
	seen := r.look()
	r.sighted(seen)
	if seen.Alive() {
		r.step(ctx, lifecycle.Found{})
		return
	}
	r.runtime.Note = join(r.runtime.Note, seen.Note)
	r.step(ctx, lifecycle.NotFound{})
}

// relaunch begins a relaunch, or goes on with one, beside the goroutine of run. After a reboot only a few do so at a time.
func (r *runner) relaunch(
	ctx context.Context,
	do func(context.Context, specstore.Record, specstore.Runtime) (specstore.Runtime, error),
	queued bool,
) {
	r.busy = true
	rec, rt := *r.record, r.runtime
	r.sup.turns.beside(func() {
		if queued {
			select {
			case r.sup.bootSlots <- struct{}{}:
				defer func() { <-r.sup.bootSlots }()
			case <-ctx.Done():
				return
			}
		}
		after, err := do(ctx, rec, rt)
		if errors.Is(err, operation.ErrInterrupted) {
			return
		}
		r.post(message{kind: relaunched, runtime: after, err: err})
	})
	// The relaunch goes first; what this goroutine has to write down can be done meanwhile by another thread.
	goruntime.Gosched()
}

// relaunchEnded takes in what came of a relaunch, and notes it before its progress is dropped: a successor of this agent must find
// one or the other.
func (r *runner) relaunchEnded(ctx context.Context, m *message) {
	attempts := r.machine.Attempts
	note := r.runtime.Note
	r.runtime = m.runtime
	if m.err != nil {
		r.runtime.Note = "relaunch " + itoa(attempts) + " failed: " + m.err.Error()
		// Before the step, which may begin the next relaunch.
		r.keep(r.runtime)
		r.sup.cfg.Operator.Relaunched(r.id)
		r.sup.cfg.Log.Warn("relaunch failed", "process", r.id, "attempt", attempts, "error", m.err)
		r.step(ctx, lifecycle.LaunchFailed{})
		return
	}
	pid := r.runtime.Process.PID
	if r.runtime.Outside {
		r.runtime.Note = join(note, startedFromOutside(pid))
	} else {
		r.runtime.Note = join(note, "relaunched as pid "+itoa(pid))
	}
	r.sup.cfg.Log.Info("process is up again", "process", r.id, "pid", pid, "attempt", attempts, "outside", r.runtime.Outside)
	r.step(ctx, lifecycle.Launched{})
	r.sup.cfg.Operator.Relaunched(r.id)
}

func startedFromOutside(pid int) string { return "restarted from outside, pid " + itoa(pid) }

// giveUp remembers, over a reboot too, that the budget is spent.
func (r *runner) giveUp() {
	rec := *r.record
	rec.GivenUp = true
	rec.Revision++
	if err := r.sup.cfg.Store.PutRecord(rec); err != nil {
		r.sup.cfg.Log.Error("given-up state could not be stored", "process", r.id, "error", err)
	}
	r.record = &rec
	r.sup.cfg.Log.Warn("process given up", "process", r.id, "attempts", r.machine.Attempts)
}

// show lets others see the state.
func (r *runner) show() {
	known := r.face.load().record != nil
	r.face.store(face{record: r.record, runtime: r.runtime, machine: r.machine})
	if known || r.record != nil {
		r.sup.cfg.Sink.Changed(r.id)
	}
}

// snapshot may be called by any goroutine.
func (r *runner) snapshot() (process.Status, *process.Spec, bool) {
	f := r.face.load()
	if f.record == nil {
		return process.Status{}, nil, false
	}
	s := process.Status{
		Known: true, Hosted: f.record.Hosted, Want: f.record.Want, State: string(f.machine.State), Message: f.message(r.now()),
		ProcName: f.record.Spec.Identity.ProcName, RegisteredAt: f.record.RegisteredAt, LastStartAt: f.runtime.LastStartAt,
		ReportedAt: time.Now().Unix(), Instance: process.Instance{PID: -1},
	}
	if f.runtime.Process != nil {
		if i, err := r.sup.cfg.Operator.Processes.Instance(*f.runtime.Process); err == nil {
			r.sup.cfg.Operator.Describe(r.id, *f.runtime.Process, &i)
			s.Instance = i
			s.LastStartAt = max(s.LastStartAt, i.StartedAt)
		}
	}
	return s, &f.record.Spec, true
}

// message says what an operator needs to know beside the state.
func (f face) message(now time.Duration) string {
	p := f.record.Spec.Policy
	switch f.machine.State {
	case lifecycle.Backoff:
		wait := max(f.machine.RetryAt-now, 0).Round(time.Second)
		return join(f.runtime.Note, "next start in "+wait.String()+", attempt "+itoa(f.machine.Attempts+1)+" of "+itoa(p.StartRetries))
	case lifecycle.GivenUp:
		return join("given up after "+itoa(f.machine.Attempts)+" starts that did not last", f.runtime.Note)
	case lifecycle.Starting:
		return join(f.runtime.Note, "start "+itoa(f.machine.Attempts)+" of "+itoa(p.StartRetries)+" is under way")
	case lifecycle.Unknown, lifecycle.Stopped, lifecycle.Running, lifecycle.Operating:
	}
	return f.runtime.Note
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
