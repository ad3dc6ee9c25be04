package supervisor

import (
	"cmp"
	"context"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// Revisions number the changes of records, so that an old disk can be told from the present one.
type Revisions interface {
	// Revision returns the number of the latest change, NextRevision gives out one for a change that belongs to no
	// operation.
	Revision() (uint64, error)
	NextRevision() (uint64, error)
	// Reconcile stores what is newer than what there is, and returns that.
	Reconcile(all []specstore.Desired, reached uint64) (newer []specstore.Desired, err error)
}

// Reconcile brings the records up to what the server has had confirmed, where that is newer, and returns how many were
// older. No process is ended or started by that alone; one that is to be kept running and is down is started, as after
// any other end.
func (s *Supervisor) Reconcile(all []specstore.Desired, reached uint64) (older int, err error) {
	newer, err := s.cfg.Revisions.Reconcile(all, reached)
	if err != nil {
		newer = all // the disk takes nothing now: it holds for this life of the agent, and the next one is told again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range newer {
		s.runnerOf(newer[i].Record.ID).desire(&newer[i])
	}
	return len(newer), err
}

// waits reports whether the server's word is still being waited for.
func (s *Supervisor) waits() bool { return !s.confirmed.Load() }

// finishReconcile ends the wait.
func (s *Supervisor) finishReconcile() {
	s.confirmed.Store(true)
	for _, r := range s.all() {
		r.post(func(context.Context, *runner) {}) // run sees to it
	}
}

// reconcile takes over the record that the server knows in place of an older one. The disk has it already.
func (r *runner) reconcile(ctx context.Context) {
	if r.proc.Machine.Busy() {
		return // when the operation is over
	}
	d := r.desired()
	if d == nil || r.proc.Record != nil &&
		(r.proc.Record.Revision > d.Record.Revision || r.proc.Record.Revision == d.Record.Revision && !d.Gone) {
		return
	}
	before := r.proc.Record
	r.sup.cfg.Log.Warn("record was older than the record of the server", "process", r.id, "revision", d.Record.Revision,
		"gone", d.Gone)
	// Whatever an earlier agent was in the middle of had ended when the server's record was made.
	r.overtake()
	if d.Gone {
		r.forget(ctx, d.Record.Revision)
		return
	}
	rec := d.Record
	if before != nil {
		rec.RegisteredAt = cmp.Or(rec.RegisteredAt, before.RegisteredAt)
	}
	r.proc.Record = &rec
	r.proc.Runtime = withoutAnswers(r.proc.Runtime, before, r.proc.Record)
	r.schedule()
	r.tell(r.proc.Reconciled(before))
	if r.proc.Machine.Awaits == lifecycle.Confirmation {
		if rec.Hosted && rec.Spec.Policy.Kind == process.Resident {
			r.publish() // it begins as it would have
			return
		}
		r.sup.operator.Relaunched(r.id)
	}
	r.proc.Clear()
	if !rec.Hosted {
		r.proc.BlameReconciled(time.Now())
	}
	// From here on it is as after an operation.
	r.leaveBudget()
	r.step(ctx, lifecycle.Began{})
	r.sighted(r.look())
	r.step(ctx, lifecycle.Ended{Alive: r.proc.Runtime.Process != nil, Restore: true, Now: true})
}

// forget drops a process that was removed with the given revision.
func (r *runner) forget(ctx context.Context, revision uint64) {
	r.tell(r.proc.Forgotten())
	r.sup.operator.Relaunched(r.id)
	r.sup.cfg.Sink.Gone(r.id, revision)
	r.dropRuntime()
	r.proc.Record, r.proc.Runtime, r.proc.History = nil, specstore.Runtime{}, specstore.History{}
	r.schedule()
	r.leaveBudget()
	r.step(ctx, lifecycle.Began{})
	r.step(ctx, lifecycle.Ended{})
}

// dropRuntime forgets what was known of the instance.
func (r *runner) dropRuntime() {
	if err := r.sup.cfg.Store.DeleteRuntime(r.id); err != nil {
		r.sup.cfg.Log.Warn("cannot remove state of process", "process", r.id, "error", err)
	}
}

// latestRevision is at least that of what has just been done to this process, and less than that of what comes next.
func (r *runner) latestRevision() uint64 {
	n, err := r.sup.cfg.Revisions.Revision()
	if err != nil {
		r.sup.cfg.Log.Error("cannot read revision", "process", r.id, "error", err)
	}
	return n
}
