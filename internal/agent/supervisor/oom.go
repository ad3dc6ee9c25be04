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

// count looks for OOM kills in the runs of running processes, if the kernel has killed anything of the host.
func (s *Supervisor) count(all bool) {
	var runners []*runner
	for _, r := range s.all() {
		f := r.shared.load()
		if f.Record == nil || f.Machine.State != lifecycle.Running || f.Runtime.Process == nil ||
			f.Runtime.Run == "" || !all && f.Record.Spec.GroupLimits().Memory == 0 {
			continue
		}
		runners = append(runners, r)
	}
	killed := &s.killed
	if !all {
		killed = &s.killedLimited
	}
	if len(runners) == 0 || !killed.moved(s.cfg.AnyOOM) {
		return
	}
	for _, r := range runners {
		f := r.shared.load()
		if run := f.Runtime.Run; run != "" && s.operator.OOM(run) > f.Runtime.OOM.Of(run).Kills {
			r.post(func(_ context.Context, r *runner) { r.shortOfMemory(run) })
		}
	}
}

// oomTotal is the number of OOM kills of the host at the last look. Its zero value has never looked.
type oomTotal struct {
	total uint64
	// owed is how many more looks are due. The kernel counts a kill for the host a moment before it counts it for the
	// group, so one look may come too early.
	owed  int
	knows bool
}

// moved reports whether there may be a kill that the last look did not see. anywhere returns the total; nil, or an
// error, says that nobody knows.
func (t *oomTotal) moved(anywhere func() (uint64, error)) bool {
	if anywhere == nil {
		return true
	}
	total, err := anywhere()
	if err != nil {
		t.knows = false
		return true
	}
	if !t.knows || total != t.total {
		t.total, t.owed, t.knows = total, 2, true
	}
	if t.owed == 0 {
		return false
	}
	t.owed--
	return true
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
	return r.proc.OOMKills(r.sup.operator.OOM(r.proc.Runtime.Run))
}

// workersKilled reports that the kernel killed processes of the run and not the main process.
func (r *runner) workersKilled(kills int) {
	r.sup.cfg.Log.Warn("kernel killed a worker: out of memory", "process", r.id, "pid", r.proc.PID(), "ended", kills)
	r.tell(r.proc.WorkersKilled(time.Now(), kills))
}
