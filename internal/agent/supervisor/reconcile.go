package supervisor

import (
	"cmp"
	"context"

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

// launch begins a relaunch: now, or once the server has had its say.
func (r *runner) launch(ctx context.Context, begin func(context.Context)) {
	if r.sup.waits() {
		r.relaunching.deferred = begin
		return
	}
	begin(ctx)
}

// release begins the relaunch that has waited.
func (r *runner) release(ctx context.Context) {
	if begin := r.relaunching.deferred; begin != nil {
		r.relaunching.deferred = nil
		begin(ctx)
	}
}

// reconcile takes over the record that the server knows in place of an older one. The disk has it already.
func (r *runner) reconcile(ctx context.Context) {
	if r.work.busy {
		return // when the operation is over
	}
	d := r.desired()
	if d == nil || r.record != nil &&
		(r.record.Revision > d.Record.Revision || r.record.Revision == d.Record.Revision && !d.Gone) {
		return
	}
	before := r.record
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
	r.record = &rec
	r.runtime = withoutAnswers(r.runtime, before, r.record)
	r.schedule()
	r.emitReconciled(before)
	if r.relaunching.deferred != nil && rec.Hosted && rec.Spec.Policy.Kind == process.Resident {
		r.publish() // it begins as it would have
		return
	}
	if r.relaunching.deferred != nil {
		r.relaunching.deferred = nil
		r.sup.operator.Relaunched(r.id)
	}
	r.runtime.Note, r.runtime.Cause = "", process.Cause{}
	if !rec.Hosted {
		r.blame(restOf(rec.Want), reconciledText)
	}
	// From here on it is as after an operation.
	r.leaveBudget()
	r.step(ctx, lifecycle.Began{})
	r.sighted(r.look())
	r.step(ctx, lifecycle.Ended{Alive: r.runtime.Process != nil, Restore: true, Now: true})
}

// forget drops a process that was removed with the given revision.
func (r *runner) forget(ctx context.Context, revision uint64) {
	r.emitForgotten()
	r.relaunching.deferred = nil
	r.sup.operator.Relaunched(r.id)
	r.sup.cfg.Sink.Gone(r.id, revision)
	r.dropRuntime()
	r.record, r.runtime, r.history = nil, specstore.Runtime{}, specstore.History{}
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

const reconciledText = "the agent's disk was an old copy, and the server had a later record"

// restOf names why a process that is not hosted rests.
func restOf(w process.Want) process.CauseID {
	if w == process.WantStopped {
		return process.CauseStopped
	}
	return process.CauseUnhosted
}

func (r *runner) emitReconciled(before *specstore.Record) {
	kind := process.EventRegistered
	switch was := before != nil && before.Hosted; {
	case r.record.Hosted && !was:
		kind = process.EventHosted
	case was && !r.record.Hosted:
		kind = process.EventUnhosted
	}
	r.happened(r.machine.State, r.machine.State, process.Event{
		Kind: kind, PID: r.pid(), Actor: byPolicy(),
		Cause: process.Cause{Text: reconciledText},
	})
}

func (r *runner) emitForgotten() {
	r.happened(r.machine.State, r.machine.State, process.Event{
		Kind: process.EventUnregistered, PID: r.pid(), Actor: byPolicy(), Cause: process.Cause{Text: reconciledText},
	})
}
