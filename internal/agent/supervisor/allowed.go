package supervisor

import (
	"strconv"
	"strings"
	"time"

	"drover/internal/agent/procfs"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// askAgain is how long a relaunch waits that the policy of the host refuses, until it is asked for again.
const askAgain = 15 * time.Second

// policyDenials is what the policy of the host has kept drover from and was told: why the process is not started again,
// and the instance that is not ended.
type policyDenials struct {
	start string
	end   procfs.Identity
}

// mayNotStart reports whether the policy of the host keeps drover from starting the process by itself, and tells so
// once until that is over.
func (r *runner) mayNotStart() bool {
	err := r.sup.operator.Allow(r.id, process.Start, &r.proc.Record.Spec)
	if err == nil {
		r.denials.start = ""
		return false
	}
	if r.denials.start != err.Error() {
		r.denials.start = err.Error()
		note := r.proc.Runtime.Note
		if !strings.HasSuffix(note, r.denials.start) { // an earlier life of the agent has told it
			note = story.Join(note, "drover does not relaunch it: "+r.denials.start)
		}
		r.tellRefusal(note)
	}
	return true
}

// mayNotEnd reports whether the policy of the host keeps drover from ending an instance by itself, and tells so once
// for each; why is what it would be ended for.
func (r *runner) mayNotEnd(who procfs.Identity, why string) bool {
	if r.claims.rival != 0 {
		return true
	}
	err := r.sup.operator.Allow(r.id, process.Stop, &r.proc.Record.Spec)
	if err == nil {
		return false
	}
	if r.denials.end != who {
		r.denials.end = who
		r.tellRefusal("pid " + strconv.Itoa(who.PID) + " " + why + " and is not ended: " + err.Error())
		r.storeRuntime(r.proc.Runtime)
		r.publish()
	}
	return true
}

func (r *runner) tellRefusal(note string) {
	r.sup.cfg.Log.Warn("policy of this host prevented an action", "process", r.id, "note", note)
	r.tell(r.proc.Refused(time.Now(), note))
}
