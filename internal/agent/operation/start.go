package operation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// start runs start_cmd unless the process is alive, and hosts it once it has stayed up for its check time.
func (n *session) start() (Result, error) {
	if taken, err := n.beside(); err != nil || taken != nil {
		if err != nil {
			return Result{}, err
		}
		if err := n.mayAdopt(taken); err != nil {
			return Result{}, err
		}
		return n.takeOver(taken)
	}
	before, err := n.checked(n.mayStart)
	if known, ok := errors.AsType[*process.Error](err); ok && known.Fault == process.AlreadyRunning {
		n.keep()
		return n.keptRunning(err)
	}
	if err != nil {
		return Result{}, err
	}
	var notes []string
	if n.spec.Kind() == process.Resident {
		field, line := n.spec.Starter()
		notes, err = n.bringUp("start", field, line, before)
	} else {
		notes, err = n.firstRun()
	}
	if err != nil {
		return n.resultOfFailedStart(err)
	}
	return n.hosted(notes...)
}

// keptRunning is the result of a start of a process that runs already. The spec is stored, so its limits change.
func (n *session) keptRunning(err error) (Result, error) {
	if n.spec.Compat != nil {
		return n.resultOfFailedStart(err)
	}
	if refused := n.mayLimit(); refused != nil {
		return Result{}, refused
	}
	notes := n.relimit()
	r, err := n.resultOfFailedStart(err)
	if err == nil && len(notes) > 0 {
		r.Outcome.Text += "; " + strings.Join(notes, "; ")
	}
	return r, err
}

// beside looks for copies of a process that does not run as drover knows it. Beside a copy the operation fails, unless
// the order says otherwise; one of GSE or JOB never looks. It returns the copy to take over.
func (n *session) beside() (*instance.UnwatchedCopy, error) {
	if n.wire || n.spec.Compat != nil || n.wish == process.StartBeside || n.progress.Checked {
		return nil, nil //nolint:nilnil // there is nothing to take over
	}
	if seen := n.findAndRecord(); seen.Alive() || seen.Unsure() || seen.Doubt != "" && n.copyPID == 0 {
		return nil, nil //nolint:nilnil // the pre-check decides
	}
	copies := n.Trees.Copies(n.spec, n.copyPID, n.runOwnerKnown())
	running := slices.DeleteFunc(copies, func(c instance.UnwatchedCopy) bool {
		return n.copyPID != 0 && c.ID.StartTicks != n.copyBegan // the pid has been reused
	})
	all := slices.DeleteFunc(slices.Clone(running), func(c instance.UnwatchedCopy) bool {
		_, _, known := n.peers.Owner(n.id, c.ID)
		return known
	})
	likely := slices.DeleteFunc(slices.Clone(all), func(c instance.UnwatchedCopy) bool { return !c.SameLine })
	if len(likely) == 0 {
		likely = all
	}
	switch {
	case len(all) == 0 && (n.wish == process.Adopt || n.copyPID != 0):
		return nil, process.Errorf(process.NotRunning, "nothing was done: the process does not run, so there is nothing "+
			"to take over. drover looks for %s", n.lookedFor())
	case len(all) == 0:
		return nil, nil //nolint:nilnil // there is nothing to take over
	case n.wish == process.TakeOver || n.wish == process.Adopt:
		if found := n.mine(likely, running); found != nil {
			return found, n.rivalry(instance.ClaimOfInstance(found.ID))
		}
	}
	return nil, n.besideCopies(likely)
}

// certain reports whether a take-over can tell which of the instances that fit is the process.
func (n *session) certain(likely []instance.UnwatchedCopy) bool {
	if _, number := process.CopyOf(n.spec, n.id); number == 0 {
		return len(likely) == 1
	}
	return len(likely) == 1 || likely[0].SameLine // they are equal
}

// reservations keep two processes of drover from taking over the same instance at the same time. Its zero value is
// ready to use, and it is safe for concurrent use.
type reservations struct {
	mu sync.Mutex
	by map[instance.Identity]reservation
}

// reservation ends at a time since boot: by then everybody knows the new owner of the instance.
type reservation struct {
	id  process.ID
	end time.Duration
}

// reserveTime is longer than an operation needs to store its result.
const reserveTime = time.Minute

// Reserve reports whether a process may take over an instance: no other process of drover runs as it, or is about to.
func (o *Operator) Reserve(id process.ID, who instance.Identity) bool {
	o.reserved.mu.Lock()
	defer o.reserved.mu.Unlock()
	now := o.Clock()
	maps.DeleteFunc(o.reserved.by, func(_ instance.Identity, r reservation) bool { return now > r.end })
	if r, taken := o.reserved.by[who]; taken && r.id != id {
		return false
	}
	if _, _, known := o.peers.Owner(id, who); known {
		return false
	}
	if o.reserved.by == nil {
		o.reserved.by = map[instance.Identity]reservation{}
	}
	o.reserved.by[who] = reservation{id, now + reserveTime}
	return true
}

// release ends the reservations of a process.
func (r *reservations) release(id process.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.by, func(_ instance.Identity, of reservation) bool { return of.id == id })
}

// mine returns the instance to take over out of those that fit; nil if it is not certain. Copies of a process are
// equal, so each takes one, in the order of the pids: copy 2 takes the second one that runs.
func (n *session) mine(likely, running []instance.UnwatchedCopy) *instance.UnwatchedCopy {
	if !n.certain(likely) {
		return nil
	}
	if _, number := process.CopyOf(n.spec, n.id); number > 0 && number <= len(running) {
		own := slices.IndexFunc(likely, func(c instance.UnwatchedCopy) bool { return c.ID == running[number-1].ID })
		if own >= 0 && n.Reserve(n.id, likely[own].ID) {
			return &likely[own]
		}
	}
	for i := range likely {
		if n.Reserve(n.id, likely[i].ID) {
			return &likely[i]
		}
	}
	return nil
}

// takeOver makes a copy the process.
func (n *session) takeOver(c *instance.UnwatchedCopy) (Result, error) {
	if err := n.mayHost(""); err != nil {
		return Result{}, err
	}
	run, by := "", "another program"
	if c.Run != "" {
		by = "drover"
	}
	if strings.HasPrefix(c.Run, runPrefix(n.id)) {
		run = c.Run // its end ends the rest of the run, too
	}
	n.recordSighting(instance.Sighting{ID: &c.ID, Matches: 1})
	n.runtime.Run, n.runtime.User, n.runtime.Outside = run, "", c.Run == ""
	n.runtime.Revision, n.runtime.StartDigest = 0, ""
	n.runtime.SetupPath, n.runtime.Command = "", ""
	n.runtime.LastStartAt = c.Since.Unix()
	n.keep()
	return n.hosted(fmt.Sprintf("took over pid %d, which %s started", c.ID.PID, by))
}

// keep notes that drover takes an instance over, and its other supervisor.
func (n *session) keep() {
	if n.wish != process.TakeOver && n.wish != process.Adopt || n.runtime.Run != "" || n.runtime.Process == nil {
		return
	}
	if n.runtime.Adopted = true; n.Claims != nil {
		n.runtime.ForeignSupervisor = n.Claims.ForeignSupervisor(*n.runtime.Process)
		if n.runtime.ForeignSupervisor != nil {
			n.runtime.ForeignSupervisor.Since = time.Now().UnixMilli()
		}
	}
	if n.AdoptPlaces != nil {
		n.AdoptPlaces(n.id, n.spec)
	}
}

// lookedFor says which processes are copies.
func (n *session) lookedFor() string {
	user := cmp.Or(n.spec.User, "the account of the agent")
	switch {
	case n.spec.Foreground() && n.copyPID != 0:
		return fmt.Sprintf("pid %d, of %s and with the executable of [%s]", n.copyPID, user, n.spec.Run)
	case n.spec.Foreground():
		return fmt.Sprintf("a process of %s with the executable of [%s], and the same command line or directory %s",
			user, n.spec.Run, n.spec.Dir())
	}
	where := "in"
	if n.spec.ByName() {
		where = "in or from"
	}
	return fmt.Sprintf("a process %s of %s %s directory %s", n.name(), user, where, n.spec.Dir())
}

// resultOfFailedStart is the result of a start or restart that failed with err. A process of a process file is hosted
// all the same: its policy of relaunches says what follows. If a kill has ended the start, the kill decides what
// follows, and needs a record to do so.
func (n *session) resultOfFailedStart(err error) (Result, error) {
	killed := process.CauseOf(err) == process.CauseStopped
	if n.spec.Compat != nil || errors.Is(err, ErrInterrupted) || killed && n.subject.Record != nil {
		return Result{}, err
	}
	rec := n.record()
	rec.Spec = *n.spec
	rec.Decide(true, process.WantRunning)
	if killed {
		rec.Decide(false, process.WantStopped)
	}
	r := n.failed(err)
	r.Outcome.Hosted, r.Change, r.Restore = rec.Hosted, specstore.Change{Put: rec}, rec.Hosted
	return r, nil
}

// mayStart is the pre-check of a start.
func (n *session) mayStart(before instance.Sighting) error {
	if before.Alive() {
		return n.alreadyRunning(n.name(), before.ID.PID)
	}
	if field, line := n.spec.Starter(); line == "" {
		return n.emptyCommand(field)
	}
	if err := n.mayHost(""); err != nil {
		return err
	}
	return n.mayEnd(before)
}

// bringUp runs a command that must leave the process running, as the step of that name, and waits for the check time.
// It first ends the leftovers of the last instance.
func (n *session) bringUp(step, field, line string, before *instance.Identity) (notes []string, err error) {
	if n.step(step) == nil {
		if problem := n.endRemains(0); problem != "" {
			notes = append(notes, "of its last run "+problem)
		}
		n.mark(before)
	}
	if step == string(process.Start) {
		if err := n.beforeStart(); err != nil {
			return nil, err
		}
	}
	st, err := n.command(step, line)
	if err != nil {
		return nil, err
	}
	if !succeeded(st.Result) {
		return nil, n.undo(st, field, before)
	}
	n.checking()
	n.hurry = n.subject.Hurry
	seen, why, err := n.upCheck(st, before)
	n.hurry = nil
	if err != nil {
		return nil, n.abandon(st, err)
	}
	if why.failed() && n.finished(st) {
		n.over = true
		n.ranWith()
		n.runtime.LastStartAt = time.Now().Add(st.Child.StartedAfterBoot() - n.Clock()).Unix()
		return append(notes, "it has ended, and needs no relaunch"), nil
	}
	if why.failed() {
		return nil, n.notUp(st, field, why, seen)
	}
	n.started(seen, st.Run)
	return append(notes, n.unknownStatus(field, st.Result), n.tooFewText(seen), n.misnamed(seen), n.answerer), nil
}

// misnamed says that a foreground process has another name than its spec gives; empty if its name is right.
func (n *session) misnamed(seen instance.Sighting) string {
	if n.spec.Foreground() {
		return seen.Note
	}
	return ""
}

// notUp says why a start failed its check. It ends what the start has started, unless the process is alive and only
// not ready.
func (n *session) notUp(st *record.Step, field string, why checkFailure, seen instance.Sighting) error {
	if !seen.Alive() && n.ranOutOfMemory(st) {
		why.cause = process.CauseOOM
		why.text += " by the kernel, out of memory"
	}
	if !seen.Alive() {
		why.text = join(why.text, n.limitHit(st))
	}
	if why.cause == process.CauseDiedEarly && !seen.Alive() && n.died != nil {
		cause := process.CauseOfEnd(n.spec, n.died, n.Commands.Output(st.Run))
		if cause == process.CauseCommandMissing || cause == process.CauseCommandDenied {
			why.cause = cause
		}
		why.text = join(why.text, process.Unrun(n.spec, cause, n.died))
	}
	switch note := n.unknownStatus(field, st.Result); {
	case note != "":
		why.text += "; " + note
	case n.spec.Kind() == process.SingleRun && !why.explained:
		why.text += "; " + n.spec.Field(strings.TrimSuffix(field, "_cmd"), field) + " ended with " + st.Result.Text
	}
	if why.ends {
		seen = instance.Sighting{} // it ends below, with all that the start has started
	}
	if seen.Alive() && why.cause == process.CauseNotReady {
		now := n.Clock()
		n.runtime.Unready = &record.Unready{
			Since: time.Now().UnixMilli(), From: now, Until: now, Limit: now, Late: true, Problem: why.problem,
			Earlier: n.progress.Earlier,
		}
		n.runtime.SelfReport.Socket = n.spec.Notifies() && n.runtime.Run == st.Run
	}
	if !seen.Alive() { // what it has left behind may have written later
		st.Result.Output = n.Commands.Output(st.Run)
	}
	// The leftovers of a single run that succeeded are not drover's business.
	if !seen.Alive() && n.spec.Kind() != process.SingleRun {
		why.text = join(why.text, n.endStarted(st))
	}
	if words := n.lastWords(st); words != "" && !seen.Alive() {
		return postCheck(string(n.op), n.name(), fmt.Sprintf("%s; the end of its log: [%s]", why.text, words),
			why.cause).With(words)
	}
	return postCheckAfter(st.Result, string(n.op), n.name(), why.text, why.cause)
}

// ranOutOfMemory reports whether the kernel has killed the process that a step has started because memory ran out, and
// notes that in its end.
func (n *session) ranOutOfMemory(st *record.Step) bool {
	if n.died == nil || syscall.Signal(n.died.Signal) != syscall.SIGKILL || n.OOM(st.Run) == 0 {
		return false
	}
	died := *n.died // the published state has the old one
	died.OOM = true
	n.died, n.runtime.LastExit = &died, &died
	return true
}

// limitHit names the limit of the spec that what a step has started has hit; empty if it has hit none.
func (n *session) limitHit(st *record.Step) string {
	text := n.died.Limit(n.spec)
	if n.Marks != nil && st.Run != "" {
		text = join(text, n.Marks(st.Run).TasksLimit(n.spec))
	}
	return text
}

// maxWords bounds the end of a log in an answer, in bytes.
const maxWords = 1000

// lastWords is the end of the log that the spec names; empty if the command and its processes wrote other output.
func (n *session) lastWords(st *record.Step) string {
	if n.spec.LogPath() == "" || strings.TrimSpace(st.Result.Output) != "" {
		return ""
	}
	words := n.Commands.LastWords(n.spec, time.Now().Add(st.Child.StartedAfterBoot()-n.Clock()))
	return strings.ToValidUTF8(words[max(0, len(words)-maxWords):], "")
}

// endStarted ends the processes of a command that failed to bring the process up, and names them in note. It spares
// the instance from before the operation.
func (n *session) endStarted(st *record.Step) (note string) {
	known := len(n.ended)
	s := instance.Scope{
		Root: st.Child, Run: st.Run, LeftoverRuns: n.leftBy(true), Spared: n.othersAnd(n.progress.Before),
	}
	problem, _ := n.endScope(s, 0)
	n.findAndRecord()
	return join(problem, endedText("drover ended the processes that it had started", n.ended[known:]))
}

// othersAnd is others that also spares one instance, which may be nil.
func (n *session) othersAnd(one *instance.Identity) func([]instance.Identity) []instance.Identity {
	return func(among []instance.Identity) []instance.Identity {
		spared := n.others(among)
		if one != nil && slices.Contains(among, *one) {
			spared = append(spared, *one)
		}
		return spared
	}
}

// abandon ends what a start has started if a kill ended its check and the process is not alive: otherwise processes
// would run that nobody knows.
func (n *session) abandon(st *record.Step, err error) error {
	if known := process.CauseOf(err); known == process.CauseStopped && !n.findAndRecord().Alive() {
		n.endStarted(st)
	}
	return err
}

// undo ends what a failed start has started. A restart that failed late may have brought up a new instance: drover
// keeps and watches that instance, and so launches no second one. drover may not recognise the instance before it has
// executed its program.
func (n *session) undo(st *record.Step, field string, before *instance.Identity) error {
	seen := n.findAndRecord()
	if before != nil && !st.Result.TimedOut {
		var err error
		if _, seen, err = n.successor(st.Run, n.Clock()+n.checkTime(), before); err != nil {
			return err
		}
	}
	note := ""
	switch {
	case before != nil && seen.Alive() && *seen.ID != *before:
		n.started(seen, st.Run)
		note = fmt.Sprintf("pid %d, which it has started, runs on", seen.ID.PID)
	case !st.Result.TimedOut:
		note = n.limitHit(st)
		note = join(note, n.endStarted(st))
	}
	return n.commandFailed(field, st.Result, note)
}

// ranWith records what the spec says about the run that has just started.
func (n *session) ranWith() {
	n.runtime.User = n.spec.User
	n.runtime.Revision, n.runtime.StartDigest = n.spec.Revision, n.spec.StartDigest()
	n.runtime.SetupPath = n.spec.Dir()
	_, n.runtime.Command = n.spec.Starter()
}

// started records the instance that a run of drover brought up. If the instance was born in another run of the
// process, that other run goes on.
func (n *session) started(seen instance.Sighting, run string) {
	n.recordSighting(seen)
	if born := n.Trees.RunOf(*seen.ID); strings.HasPrefix(born, runPrefix(n.id)) {
		run = cmp.Or(born, run)
	}
	n.runtime.Run, n.runtime.Outside = run, false
	n.ranWith()
	n.runtime.SelfReport.Socket = n.spec.Notifies()
	n.runtime.ForeignSupervisor = nil
	n.runtime.LastStartAt = time.Now().Add(seen.ID.StartedAfterBoot() - n.Clock()).Unix()
	if i, _, err := n.Processes.Instance(*seen.ID); err == nil { // it may have ended already
		n.runtime.LastStartAt = i.StartedAt
	}
}

// hosted is the result of an operation that leaves the process hosted with the spec of the order.
func (n *session) hosted(notes ...string) (Result, error) {
	rec := n.record()
	rec.Spec = *n.spec
	rec.Decide(true, process.WantRunning)
	rec.Finished = n.over
	notes = slices.Concat(notes, []string{EndedText(n.ended)}, compatNotes(n.spec), n.limitNotes(n.spec))
	return Result{
		Outcome: process.Outcome{Text: successText(notes...), Hosted: true},
		Change:  specstore.Change{Put: rec},
		Runtime: n.runtime,
		Restore: true,
	}, nil
}
