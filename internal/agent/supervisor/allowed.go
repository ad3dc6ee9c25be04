package supervisor

import (
	"strings"
	"time"

	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// askAgain is how long a relaunch waits that the policy of the host refuses, until it is asked for again.
const askAgain = 15 * time.Second

// mayNotStart reports whether the policy of the host keeps drover from starting the process by itself, and tells so once until that is
// over.
func (r *runner) mayNotStart() bool {
	err := r.sup.cfg.Operator.Allow(r.id, process.Start, &r.record.Spec)
	if err == nil {
		r.refusal = ""
		return false
	}
	if r.refusal != err.Error() {
		r.refusal = err.Error()
		note := r.runtime.Note
		if !strings.HasSuffix(note, r.refusal) { // an earlier life of the agent has told it
			note = join(note, "it is not started again: "+r.refusal)
		}
		r.tellRefusal(note)
	}
	return true
}

// mayNotEnd reports whether the policy of the host keeps drover from ending an instance by itself, and tells so once for each; why is
// what it would be ended for.
func (r *runner) mayNotEnd(who procfs.Identity, why string) bool {
	err := r.sup.cfg.Operator.Allow(r.id, process.Stop, &r.record.Spec)
	if err == nil {
		return false
	}
	if r.spared != who {
		r.spared = who
		r.tellRefusal("pid " + itoa(who.PID) + " " + why + " and is not ended: " + err.Error())
		r.keep(r.runtime)
		r.show()
	}
	return true
}

func (r *runner) tellRefusal(note string) {
	r.blame(process.CausePolicy, note)
	r.sup.cfg.Log.Warn("policy of this host kept drover from what it would have done", "process", r.id, "note", note)
	r.happened(r.machine.State, r.machine.State, process.Event{Kind: process.EventFailed, PID: r.pid(), Cause: r.cause(), Actor: byPolicy()})
}

// heldByPolicy reports whether a relaunch that waits is held back by the owner of the host, and not by its budget.
func (f face) heldByPolicy() bool { return f.runtime.Cause.ID == process.CausePolicy }
