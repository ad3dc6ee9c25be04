package supervisor

import (
	"strings"
	"time"

	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// askAgain is how long a relaunch waits that the policy of the host refuses, until it is asked for again.
const askAgain = 15 * time.Second

// refused is what the policy of the host has kept drover from and was told: why the process is not started again, and
// the instance that is not ended.
type refused struct {
	start string
	end   procfs.Identity
}

// mayNotStart reports whether the policy of the host keeps drover from starting the process by itself, and tells so
// once until that is over.
func (r *runner) mayNotStart() bool {
	err := r.sup.cfg.Operator.Allow(r.id, process.Start, &r.record.Spec)
	if err == nil {
		r.refused.start = ""
		return false
	}
	if r.refused.start != err.Error() {
		r.refused.start = err.Error()
		note := r.runtime.Note
		if !strings.HasSuffix(note, r.refused.start) { // an earlier life of the agent has told it
			note = join(note, "drover does not relaunch it: "+r.refused.start)
		}
		r.tellRefusal(note)
	}
	return true
}

// mayNotEnd reports whether the policy of the host keeps drover from ending an instance by itself, and tells so once
// for each; why is what it would be ended for.
func (r *runner) mayNotEnd(who procfs.Identity, why string) bool {
	if r.claimed.rival != 0 {
		return true
	}
	err := r.sup.cfg.Operator.Allow(r.id, process.Stop, &r.record.Spec)
	if err == nil {
		return false
	}
	if r.refused.end != who {
		r.refused.end = who
		r.tellRefusal("pid " + itoa(who.PID) + " " + why + " and is not ended: " + err.Error())
		r.keep(r.runtime)
		r.show()
	}
	return true
}

func (r *runner) tellRefusal(note string) {
	r.blame(process.CausePolicy, note)
	r.sup.cfg.Log.Warn("policy of this host prevented an action", "process", r.id, "note", note)
	r.happened(r.machine.State, r.machine.State, process.Event{
		Kind: process.EventFailed, PID: r.pid(),
		Cause: r.cause(), Actor: byPolicy(),
	})
}
