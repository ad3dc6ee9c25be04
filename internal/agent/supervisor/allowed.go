package supervisor

import (
	"strconv"
	"strings"
	"time"

	"drover/internal/agent/procfs"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// askAgain is the pause before drover asks again for a relaunch that the policy of the host denied.
const askAgain = 15 * time.Second

// policyDenials are the denials by the policy of the host that drover has already reported: the reason why it does not
// start the process, and the instance that it does not end.
type policyDenials struct {
	start string
	end   procfs.Identity
}

// mayNotStart reports whether the policy of the host denies a relaunch. It reports each new reason once.
func (r *runner) mayNotStart() bool {
	err := r.sup.operator.Allow(r.id, process.Start, &r.proc.Record.Spec)
	if err == nil {
		r.denials.start = ""
		return false
	}
	if r.denials.start != err.Error() {
		r.denials.start = err.Error()
		note := r.proc.Runtime.Note
		if !strings.HasSuffix(note, r.denials.start) { // an earlier agent has not reported it
			note = story.Join(note, "drover does not relaunch it: "+r.denials.start)
		}
		r.tellRefusal(note)
	}
	return true
}

// mayNotEnd reports whether drover may not end this instance by itself: a rival owns the process, or the policy of the
// host denies it. It reports a denial once for each instance. why is the reason to end the instance.
func (r *runner) mayNotEnd(who procfs.Identity, why string) bool {
	if r.claims.rival != 0 || r.kept() {
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
