package supervisor

import (
	"cmp"
	"context"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// Revisions number the changes of records, so that the server can recognise an old disk.
type Revisions interface {
	// Revision returns the number of the latest change. NextRevision allocates the number for a change that belongs to
	// no operation.
	Revision() (uint64, error)
	NextRevision() (uint64, error)
	// Reconcile stores the records that are newer than the stored ones, and returns them.
	Reconcile(all []specstore.Desired, reached uint64) (newer []specstore.Desired, err error)
}

// Reconcile replaces records that are older than the server's records, and returns how many were older. This alone
// ends or starts no process. But drover starts a process that should run and is down, as after any other end.
func (s *Supervisor) Reconcile(all []specstore.Desired, reached uint64) (older int, err error) {
	newer, err := s.cfg.Revisions.Reconcile(all, reached)
	if err != nil {
		newer = all // the disk fails: use them for this life of the agent; the server sends them again to the next
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range newer {
		s.runnerOf(newer[i].Record.ID).desire(&newer[i])
	}
	return len(newer), err
}

// waits reports whether nothing may begin: the agent still waits for the server's records, or the host shuts down.
func (s *Supervisor) waits() bool { return !s.confirmed.Load() || s.shutsDown.Load() }

// finishReconcile ends the wait.
func (s *Supervisor) finishReconcile() {
	s.confirmed.Store(true)
	for _, r := range s.all() {
		r.post(func(context.Context, *runner) {}) // wakes run
	}
}

// reconcile replaces an older record with the record of the server, which is already on disk.
func (r *runner) reconcile(ctx context.Context) {
	if r.proc.Machine.Busy() {
		return // run calls again after the operation
	}
	d := r.desired()
	if d == nil || r.proc.Record != nil &&
		(r.proc.Record.Revision > d.Record.Revision || r.proc.Record.Revision == d.Record.Revision && !d.Gone) {
		return
	}
	before := r.proc.Record
	r.sup.cfg.Log.Warn("record was older than the record of the server", "process", r.id, "revision", d.Record.Revision,
		"gone", d.Gone)
	// Operations that an earlier agent left open had ended when the server made its record.
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
	r.proc.Runtime = withSpec(r.proc.Runtime, before, r.proc.Record)
	r.schedule()
	r.tell(r.proc.Reconciled(before))
	if r.proc.Machine.Awaits == lifecycle.Confirmation {
		if rec.Hosted && rec.Spec.Kind() == process.Resident {
			r.publish() // the relaunch begins when the wait for the server is over
			return
		}
		r.sup.operator.Relaunched(r.id)
	}
	r.proc.Clear()
	if !rec.Hosted {
		r.proc.BlameReconciled(time.Now())
	}
	// Continue as after an operation.
	r.leaveBudget()
	r.step(ctx, lifecycle.Began{})
	r.recordSighting(r.lookAround())
	r.step(ctx, lifecycle.Ended{Alive: r.proc.Runtime.Process != nil, Restore: true, Now: true})
}

// forget drops a process that was removed at this revision.
func (r *runner) forget(ctx context.Context, revision uint64) {
	r.tell(r.proc.Forgotten())
	r.sup.operator.Relaunched(r.id)
	r.sup.cfg.Sink.Removed(r.id, revision)
	r.dropRuntime()
	r.proc.Record, r.proc.Runtime, r.proc.History = nil, record.Runtime{}, record.History{}
	r.schedule()
	r.leaveBudget()
	r.step(ctx, lifecycle.Began{})
	r.step(ctx, lifecycle.Ended{})
}

// dropRuntime deletes the stored runtime.
func (r *runner) dropRuntime() {
	if err := r.sup.cfg.Store.DeleteRuntime(r.id); err != nil {
		r.sup.cfg.Log.Warn("cannot remove state of process", "process", r.id, "error", err)
	}
}

// latestRevision returns the revision of the latest change of any process. It is not below the last change of this
// process, and is below the next.
func (r *runner) latestRevision() uint64 {
	n, err := r.sup.cfg.Revisions.Revision()
	if err != nil {
		r.sup.cfg.Log.Error("cannot read revision", "process", r.id, "error", err)
	}
	return n
}
