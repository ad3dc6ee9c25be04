package supervisor

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// askAgain is the pause before drover asks again for a relaunch that the policy of the host denied.
const askAgain = 15 * time.Second

// policyDenials are the denials by the policy of the host that drover has already reported: the reason why it does not
// start the process, and the instance that it does not end.
type policyDenials struct {
	start string
	end   instance.Identity
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
func (r *runner) mayNotEnd(who instance.Identity, why string) bool {
	if r.claims.rival != 0 || r.hasForeignSupervisor() {
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

// breakers are the processes that the server has asked not to relaunch, each for a limited time: a server that is gone
// holds nothing down for long. They are not stored.
type breakers struct {
	mu   sync.Mutex
	open map[process.ID]breaker
}

// breaker withholds the relaunches of one process and its copies.
type breaker struct {
	revision int64
	until    time.Duration // since boot
	text     string
}

// The bounds of what a server may withhold.
const (
	longestWithheld = 10 * time.Minute
	mostWithheld    = 10_000
)

// Withhold implements orders.Relaunches.
func (s *Supervisor) Withhold(id process.ID, revision int64, length time.Duration, text string) {
	if length <= 0 {
		s.allow(id)
		return
	}
	s.breakers.mu.Lock()
	defer s.breakers.mu.Unlock()
	if _, known := s.breakers.open[id]; !known && len(s.breakers.open) >= mostWithheld {
		return
	}
	if s.breakers.open == nil {
		s.breakers.open = map[process.ID]breaker{}
	}
	until := s.operator.Clock() + min(length, longestWithheld)
	s.breakers.open[id] = breaker{revision: revision, until: until, text: text}
}

// allow ends an earlier word of Withhold.
func (s *Supervisor) allow(id process.ID) {
	s.breakers.mu.Lock()
	delete(s.breakers.open, id)
	s.breakers.mu.Unlock()
	for _, r := range s.all() {
		name, _ := process.CutCopy(r.id.Name)
		if r.id.Namespace == id.Namespace && name == id.Name {
			r.post(func(_ context.Context, r *runner) { r.pardonBreaker() })
		}
	}
}

// withheld reports whether the server withholds relaunches of this process and this revision, and the server's text.
func (r *runner) withheld() (text string, open bool) {
	id := r.id
	id.Name, _ = process.CutCopy(id.Name)
	all := &r.sup.breakers
	all.mu.Lock()
	defer all.mu.Unlock()
	b, known := all.open[id]
	switch {
	case known && r.now() >= b.until:
		delete(all.open, id)
		return "", false
	case !known || b.revision != r.proc.Record.Spec.Revision:
		return "", false
	}
	return b.text, true
}

// blameBreaker notes once that the server withholds the relaunch of the process. Why the process ended stays known.
func (r *runner) blameBreaker(text string) {
	if r.proc.Withheld.ID == "" {
		r.proc.Withheld = process.Cause{ID: process.CauseBreakerOpen, Text: text, Since: time.Now().UnixMilli()}
		r.publish()
	}
}

// pardonBreaker drops the note of blameBreaker.
func (r *runner) pardonBreaker() {
	if r.proc.Withheld.ID != "" {
		r.proc.Withheld = process.Cause{}
		r.publish()
	}
}

// spread returns a random time from half to one and a half of d.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d) } //nolint:gosec // not a secret
