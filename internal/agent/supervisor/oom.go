package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/lifecycle"
)

const (
	// countEvery is how often it is looked whether the kernel has ended something of a run with a hard limit on memory;
	// of the other runs that is looked at every countAllEvery times.
	countEvery    = 5 * time.Second
	countAllEvery = 6
	// settleTime is how long the kernel may take to end the main process too, once it has begun with its run.
	settleTime = time.Second
)

// count looks whether the kernel has ended anything of the runs of processes that are running, for want of memory.
func (s *Supervisor) count(all bool) {
	for _, r := range s.all() {
		f := r.shared.load()
		run := f.Runtime.Run
		if f.Record == nil || f.Machine.State != lifecycle.Running || f.Runtime.Process == nil || run == "" || !all &&
			f.Record.Spec.Hard.Memory == 0 {
			continue
		}
		if s.cfg.OOM(run) > f.Runtime.OOM.Of(run).Kills {
			r.post(func(_ context.Context, r *runner) { r.shortOfMemory(run) })
		}
	}
}

// shortOfMemory waits a moment to see whether the main process is what the kernel has ended.
func (r *runner) shortOfMemory(run string) {
	if r.watchState.oomPending || r.proc.Runtime.Run != run {
		return
	}
	r.watchState.oomPending = true
	time.AfterFunc(settleTime, func() {
		r.post(func(_ context.Context, r *runner) {
			r.watchState.oomPending = false
			if r.proc.Machine.Busy() || r.proc.Record == nil || r.proc.Runtime.Run != run || r.proc.PID() == 0 {
				return
			}
			if kills := r.oomKills(); kills > 0 {
				r.workersKilled(kills)
				r.storeRuntime(r.proc.Runtime)
				r.publish()
			}
		})
	})
}

// oomKills returns how many processes of the run the kernel has killed since the last call, because memory ran out.
func (r *runner) oomKills() int {
	if r.proc.Runtime.Run == "" {
		return 0
	}
	return r.proc.OOMKills(r.sup.cfg.OOM(r.proc.Runtime.Run))
}

// workersKilled tells that the kernel has killed processes of the run and not the main one.
func (r *runner) workersKilled(kills int) {
	r.sup.cfg.Log.Warn("kernel killed a worker: out of memory", "process", r.id, "pid", r.proc.PID(), "ended", kills)
	r.tell(r.proc.WorkersKilled(time.Now(), kills))
}
