package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/process"
)

const (
	// countEvery is how often it is looked whether the kernel has ended something of a run with a hard limit on memory;
	// of the other runs that is looked at every countAllEvery times.
	countEvery    = 5 * time.Second
	countAllEvery = 6
	// settleTime is how long the kernel may take to end the main process too, once it has begun with its run.
	settleTime = time.Second
	// shortFor is how long the end of a worker counts as trouble of the process.
	shortFor = time.Hour
)

// count looks whether the kernel has ended anything of the runs of processes that are running, for want of memory.
func (s *Supervisor) count(all bool) {
	for _, r := range s.all() {
		f := r.shared.load()
		run := f.runtime.Run
		if f.record == nil || f.machine.State != lifecycle.Running || f.runtime.Process == nil || run == "" || !all &&
			f.record.Spec.Hard.Memory == 0 {
			continue
		}
		if s.cfg.OOM(run) > f.runtime.OOM.Of(run).Kills {
			r.post(func(_ context.Context, r *runner) { r.shortOfMemory(run) })
		}
	}
}

// shortOfMemory waits a moment to see whether the main process is what the kernel has ended.
func (r *runner) shortOfMemory(run string) {
	if r.watchState.oomPending || r.runtime.Run != run {
		return
	}
	r.watchState.oomPending = true
	time.AfterFunc(settleTime, func() {
		r.post(func(_ context.Context, r *runner) {
			r.watchState.oomPending = false
			if r.work.busy || r.record == nil || r.runtime.Run != run || r.runtime.Process == nil {
				return
			}
			if kills := r.oomKills(); kills > 0 {
				r.workersEnded(kills)
				r.storeRuntime(r.runtime)
				r.publish()
			}
		})
	})
}

// oomKills returns how many processes of the run the kernel has ended for want of memory since this was asked last.
func (r *runner) oomKills() int {
	run := r.runtime.Run
	if run == "" {
		return 0
	}
	known := r.runtime.OOM.Of(run)
	kills := r.sup.cfg.OOM(run)
	if kills <= known.Kills {
		return 0
	}
	since := kills - known.Kills
	known.Kills = kills
	r.runtime.OOM = known
	return since
}

// workersEnded tells that the kernel has ended processes of the run and not the main one.
func (r *runner) workersEnded(kills int) {
	r.runtime.OOM.Workers += kills
	r.runtime.OOM.At = time.Now().UnixMilli()
	text := "the kernel killed " + process.Count(kills, "process", "processes") + " of the run of pid " +
		itoa(r.pid()) + ": out of memory"
	r.sup.cfg.Log.Warn("kernel killed a worker: out of memory", "process", r.id, "pid", r.pid(), "ended", kills)
	r.happened(r.machine.State, r.machine.State, process.Event{
		Kind: process.EventOOMKilled, PID: r.pid(), Actor: process.Actor{Kind: process.ActorKernel},
		Cause: process.Cause{ID: process.CauseWorkerOOM, Text: text},
	})
}

// shortage is what the kernel has lately ended of the run besides the main process; ok is false where that is nothing.
func (snap snapshot) shortage() (c process.Cause, ok bool) {
	o := snap.runtime.OOM
	if snap.runtime.Run == "" || o.Run != snap.runtime.Run || o.At == 0 || time.Since(time.UnixMilli(o.At)) > shortFor {
		return process.Cause{}, false
	}
	text := "the kernel killed " + process.Count(o.Workers, "process", "processes") +
		" of its run: out of memory, the last at " +
		time.UnixMilli(o.At).UTC().Format(time.RFC3339)
	return process.Cause{ID: process.CauseWorkerOOM, Text: text, Since: o.At}, true
}

// blameEnd is blame for the end of the instance: what the kernel has ended of its run before is evidence.
func (r *runner) blameEnd(id process.CauseID, text string) {
	r.blame(id, text)
	if short, ok := (snapshot{runtime: r.runtime}).shortage(); ok {
		r.runtime.Cause.Evidence = append(r.runtime.Cause.Evidence, short.Text)
	}
}
