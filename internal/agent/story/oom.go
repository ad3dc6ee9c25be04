package story

import (
	"time"

	"drover/internal/process"
)

// shortFor is how long a status shows OOM-killed workers as a cause.
const shortFor = time.Hour

// OOMKills returns how many processes of the run the kernel killed since the last call, because memory ran out; total
// is the kernel's count for the run.
func (p *Process) OOMKills(total int) int {
	known := p.Runtime.OOM.Of(p.Runtime.Run)
	if p.Runtime.Run == "" || total <= known.Kills {
		return 0
	}
	since := total - known.Kills
	known.Kills = total
	p.Runtime.OOM = known
	return since
}

// WorkersKilled tells that the kernel killed processes of the run other than the main one.
func (p *Process) WorkersKilled(now time.Time, kills int) process.Event {
	p.Runtime.OOM.Workers += kills
	p.Runtime.OOM.At = now.UnixMilli()
	text := "the kernel killed " + process.Count(kills, "process", "processes") + " of the run of pid " +
		itoa(p.PID()) + ": out of memory"
	return p.event(process.EventOOMKilled, process.Actor{Kind: process.ActorKernel},
		process.Cause{ID: process.CauseWorkerOOM, Text: text})
}

// shortage returns what the kernel lately killed of the run besides the main process; ok is false if it killed
// nothing.
func (p *Process) shortage(now time.Time) (c process.Cause, ok bool) {
	o := p.Runtime.OOM
	if p.Runtime.Run == "" || o.Run != p.Runtime.Run || o.At == 0 || now.Sub(time.UnixMilli(o.At)) > shortFor {
		return process.Cause{}, false
	}
	text := "the kernel killed " + process.Count(o.Workers, "process", "processes") +
		" of its run: out of memory, the last at " + time.UnixMilli(o.At).UTC().Format(time.RFC3339)
	return process.Cause{ID: process.CauseWorkerOOM, Text: text, Since: o.At}, true
}
