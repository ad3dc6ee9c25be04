package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/lifecycle"
)

const (
	// countEvery is the interval at which drover looks for OOM kills in runs with a hard memory limit. It looks at all
	// other runs every countAllEvery times.
	countEvery    = 5 * time.Second
	countAllEvery = 6
	// settleTime is how long drover waits to see whether an OOM kill in the run ends the main process too.
	settleTime = time.Second
)

// count looks for OOM kills in the runs of running processes.
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

// shortOfMemory waits for settleTime, to see whether the kernel killed the main process or only others.
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

// oomKills returns how many processes of the run the kernel killed since the last call because memory ran out.
func (r *runner) oomKills() int {
	if r.proc.Runtime.Run == "" {
		return 0
	}
	return r.proc.OOMKills(r.sup.cfg.OOM(r.proc.Runtime.Run))
}

// workersKilled reports that the kernel killed processes of the run and not the main process.
func (r *runner) workersKilled(kills int) {
	r.sup.cfg.Log.Warn("kernel killed a worker: out of memory", "process", r.id, "pid", r.proc.PID(), "ended", kills)
	r.tell(r.proc.WorkersKilled(time.Now(), kills))
}
