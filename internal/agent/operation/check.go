package operation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// The pause between two looks grows from firstLook to slowLook.
const (
	firstLook = 10 * time.Millisecond
	slowLook  = 250 * time.Millisecond
	// noticeTime is the longest time from an end to its notice.
	noticeTime = time.Second
	// executeTime is how long a check waits at most until a command has executed its program. A shell that has none to
	// execute, such as bash with a script without #!, keeps its arguments.
	executeTime = time.Second
	// coarse is how much earlier than the moment the time of a file may be.
	coarse = 20 * time.Millisecond
)

// checkFailure is the reason for a failed check; the zero value is success.
type checkFailure struct {
	text  string
	cause process.CauseID
	// problem says why a process that runs does not seem to be ready.
	problem string
	// ends says that drover ends the process, because it was not ready in time.
	ends bool
	// explained says that the text already tells how the instance ended.
	explained bool
}

func (f checkFailure) failed() bool { return f.text != "" }

// startCheck waits until the process has been up for as long as the policy demands, counted from since. It returns the
// last sighting and the verdict. The process may still appear between begin and end; from then on it must stay up
// until end.
func (n *session) startCheck(since time.Duration) (instance.Sighting, checkFailure, error) {
	if n.spec.Foreground() {
		return n.staysUp(since)
	}
	begin, end := n.spec.StartCheck()
	begin, end = since+begin, since+end
	death := &deathWatch{session: n}
	defer death.stop()
	if alive, apart := n.spec.Alive(); apart {
		seen, err := n.lookUntil(since+n.spec.Within(), death, true)
		switch {
		case err != nil:
			return seen, checkFailure{}, err
		case !seen.Alive():
			return seen, death.explain("not alive", seen), nil
		}
		return n.aliveUntil(n.Clock()+alive, seen, death)
	}

	seen, err := n.lookUntil(begin, death, false)
	if err == nil && !seen.Alive() && end > begin {
		seen, err = n.lookUntil(end, death, true)
	}
	if err != nil {
		return seen, checkFailure{}, err
	}
	if !seen.Alive() {
		return seen, death.explain("not alive", seen), nil
	}
	if end <= begin {
		return seen, checkFailure{}, nil
	}
	return n.aliveUntil(end, seen, death)
}

// staysUp is startCheck for a foreground process: it fails as soon as the process ends.
func (n *session) staysUp(since time.Duration) (instance.Sighting, checkFailure, error) {
	death := &deathWatch{session: n}
	defer death.stop()
	if n.runtime.Process != nil {
		death.watch(*n.runtime.Process)
	}
	if death.watching() {
		if _, err := death.waitExecuted(since + n.checkTime()); err != nil {
			return instance.Sighting{}, checkFailure{}, err
		}
	}
	seen := n.findAndRecord()
	if seen.Alive() {
		return seen, checkFailure{}, nil
	}
	if death.watching() {
		_, _ = death.wait(n.Clock() + noticeTime) // without a notice the end stays unexplained
	}
	return seen, death.explain("not alive", seen), nil
}

// finished reports whether the process of a step has ended as its policy of relaunches wants it: it needs no relaunch.
func (n *session) finished(st *record.Step) bool {
	r := n.spec.Restarts()
	success, _ := instance.Verdict(n.spec, n.died)
	return n.isProcess(st) && n.runtime.Process == nil && success && r.When != process.Always
}

// deathOf is the watch on the command of a step that is the process and has ended. It waits for the notice of the end.
func (n *session) deathOf(st *record.Step) *deathWatch {
	death := &deathWatch{session: n}
	if n.isProcess(st) {
		death.watch(st.Child)
	}
	if death.watching() {
		_, _ = death.wait(n.Clock() + noticeTime) // without a notice the end stays unexplained
		death.stop()
	}
	return death
}

// aliveUntil waits for the end of the check time. The instance first must live through it.
func (n *session) aliveUntil(end time.Duration, first instance.Sighting,
	death *deathWatch,
) (instance.Sighting, checkFailure, error) {
	const failed = "not alive to the end of its check time"
	died, err := death.wait(end)
	if err != nil {
		return first, checkFailure{}, err
	}
	if !died && death.watching() {
		return first, checkFailure{}, nil
	}
	// The instance has ended, or there was no watch that could report its end.
	seen := n.findAndRecord()
	switch {
	case died || !seen.Alive():
		return instance.Sighting{}, death.explain(failed, seen), nil
	case *seen.ID != *first.ID:
		text := fmt.Sprintf("%s: pid %d is gone, pid %d has taken its place", failed, first.ID.PID, seen.ID.PID)
		return instance.Sighting{}, checkFailure{text: text, cause: process.CauseDiedEarly}, nil
	}
	return seen, checkFailure{}, nil
}

// lookUntil looks repeatedly until at, and returns the last sighting. It watches the first instance as soon as it
// appears, so that drover can explain its end. With first it returns as soon as an instance is alive.
func (n *session) lookUntil(at time.Duration, death *deathWatch, first bool) (instance.Sighting, error) {
	for pause := firstLook; ; pause = min(2*pause, slowLook) {
		seen := n.findAndRecord()
		if seen.Alive() {
			death.watch(*seen.ID)
			n.appeared()
		}
		left := n.timeLeft(at)
		if left <= 0 || first && seen.Alive() {
			return seen, nil
		}
		if seen.Alive() && death.watching() {
			// While the watch is on, another look adds nothing until the instance dies or the time is up.
			if _, err := death.wait(at); err != nil {
				return seen, err
			}
			continue
		}
		if err := n.pause(min(pause, left)); err != nil {
			return seen, err
		}
	}
}

// stopCheck waits until the instance is gone and no other instance has replaced it, at most until the given time, or
// the later one that the process asks for. It returns as soon as nothing runs.
func (n *session) stopCheck(target instance.Identity, until time.Duration) (instance.Sighting, error) {
	death := &deathWatch{session: n}
	defer death.stop()
	since, end, run := n.Clock(), until, n.runOf(target)
	for pause := firstLook; ; pause = min(2*pause, slowLook) {
		death.watch(target)
		if death.watching() {
			if _, err := death.wait(end); err != nil {
				return instance.Sighting{}, err
			}
		}
		seen := n.findAndRecord()
		if seen.Alive() && n.Clock() >= end && run != "" {
			said, _ := n.heed(run)
			end = Extended(said, since, until, end)
		}
		if !seen.Alive() || n.Clock() >= end {
			return seen, nil
		}
		if slices.Contains(n.progress.Members, *seen.ID) {
			return instance.Sighting{}, nil // another instance, which ends with the leftovers of the run
		}
		if target != *seen.ID {
			target = *seen.ID
			continue
		}
		if err := n.pause(pause); err != nil {
			return seen, err
		}
	}
}

// checking reports that a check begins.
func (n *session) checking() {
	if n.subject.Checking == nil {
		return
	}
	if n.runtime.Process != nil {
		n.reported = *n.runtime.Process
	}
	n.subject.Checking(n.runtime)
}

// appeared reports the new instance that the check of a start has found. It does nothing outside of such a check.
func (n *session) appeared() {
	now, before := n.runtime.Process, n.progress.Before
	if n.hurry != nil && now != nil && *now != n.reported && (before == nil || *now != *before) {
		n.checking()
	}
}

// hurried reports whether the check must end now, because another operation waits.
func (n *session) hurried() bool {
	select {
	case <-n.hurry:
		return true
	default:
		return false
	}
}

// timeLeft is the time left until a moment; 0 if the check must end now.
func (n *session) timeLeft(at time.Duration) time.Duration {
	if n.hurried() {
		return 0
	}
	return at - n.Clock()
}

// pause waits for d. It returns early if the check must end, and fails if the context ends.
func (n *session) pause(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-n.hurry:
		return nil
	case <-n.word:
		return nil
	case <-n.ctx.Done():
		return n.interruption()
	}
}

// deathWatch follows one instance at a time and remembers how the last one ended.
type deathWatch struct {
	*session
	id     instance.Identity
	exits  chan liveness.Exit
	cancel func()
	last   *liveness.Exit
	lastID instance.Identity
}

func (d *deathWatch) watching() bool { return d.cancel != nil }

// watch follows this instance from now on. It does nothing if the watch already follows the instance, or if the
// instance has ended.
func (d *deathWatch) watch(id instance.Identity) {
	if d.id == id {
		return
	}
	d.stop()
	exits := make(chan liveness.Exit, 1)
	cancel, err := d.Processes.Watch(id, func(e liveness.Exit) { exits <- e })
	if err != nil {
		return
	}
	d.id, d.exits, d.cancel = id, exits, cancel
}

// wait reports whether the followed instance ended before the given time.
func (d *deathWatch) wait(until time.Duration) (bool, error) {
	t := time.NewTimer(max(until-d.Clock(), 0))
	defer t.Stop()
	select {
	case e := <-d.exits:
		d.ended(e)
		return true, nil
	case <-t.C:
	case <-d.hurry:
	case <-d.word:
	case <-d.ctx.Done():
		return false, d.interruption()
	}
	select {
	case e := <-d.exits:
		d.ended(e)
		return true, nil
	default:
		return false, nil
	}
}

// waitExecuted is wait for the process of a foreground command, which must have executed its program besides.
func (d *deathWatch) waitExecuted(until time.Duration) (died bool, err error) {
	id, limit, pause := d.id, d.Clock()+executeTime, time.Millisecond // most programs are executed within one
	for died, err = d.wait(until); err == nil && !died && d.spec.Foreground() && !d.hurried(); {
		if d.Clock() >= limit || !d.Processes.Executes(id) {
			break
		}
		died, err = d.wait(d.Clock() + pause)
		pause = min(2*pause, firstLook)
	}
	return died, err
}

func (d *deathWatch) ended(e liveness.Exit) {
	d.last, d.lastID = &e, d.id
	d.runtime.LastExit = e.Process()
	d.died = d.runtime.LastExit
	d.stop()
}

func (d *deathWatch) stop() {
	if d.cancel != nil {
		d.cancel()
	}
	d.id, d.exits, d.cancel = instance.Identity{}, nil, nil
}

// diedAsWritten takes over the end of a process that has written its pid file in this start: it is the one that the
// start has brought up.
func (d *deathWatch) diedAsWritten(e *instance.Ended) {
	began := instance.Identity{StartTicks: d.startedAt()}.StartedAfterBoot()
	if e == nil || began == 0 || e.PIDFileTime < began-coarse {
		return
	}
	for _, before := range []*instance.Identity{d.progress.Before, d.subject.Runtime.Process, d.subject.Runtime.Ended} {
		if before != nil && before.PID == e.PID {
			return
		}
	}
	d.last, d.lastID = &liveness.Exit{At: time.Now()}, instance.Identity{PID: e.PID}
	if e.How != nil {
		exit := liveness.ExitOf(e.How)
		d.last, d.died, d.runtime.LastExit = &exit, e.How, e.How
	}
}

// explain gives the reason why a process is not there.
func (d *deathWatch) explain(what string, seen instance.Sighting) checkFailure {
	if d.last == nil {
		d.diedAsWritten(seen.Ended)
	}
	switch {
	case d.last != nil:
		return checkFailure{
			text: fmt.Sprintf("%s: pid %d %s", what, d.lastID.PID, d.last), cause: process.CauseDiedEarly,
			explained: true,
		}
	case seen.Note != "":
		return checkFailure{text: fmt.Sprintf("%s: %s", what, seen.Note), cause: cmp.Or(seen.Cause, process.CauseDiedEarly)}
	}
	return checkFailure{text: what, cause: process.CauseDiedEarly}
}
