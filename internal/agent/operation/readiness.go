package operation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/notify"
	"drover/internal/agent/ready"
	"drover/internal/agent/record"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

const (
	// attemptLimit is the longest time for one attempt at readiness; lastAttempt is the least, even if the check time
	// is over.
	attemptLimit = 5 * time.Second
	lastAttempt  = time.Second
)

// mark records what was there before the start: the log, which must not count, and who answers already. A
// restart_cmd may keep the sockets of the instance before.
func (n *session) mark(before *instance.Identity) {
	if !n.spec.AsksReady() {
		return
	}
	earlier := &n.progress.Earlier
	if path := n.spec.LogPath(); n.spec.Ready.Log != "" && path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(n.spec.Dir(), path)
		}
		log := record.LogMark(ready.MarkLog(path, n.Visitor(n.spec)))
		earlier.Log = &log
	}
	if before == nil {
		ctx, cancel := context.WithTimeout(n.ctx, lastAttempt)
		defer cancel()
		earlier.Sockets = ready.Answering(ctx, *n.spec.Ready, n.Processes.Listeners)
	}
	if earlier.Log != nil || len(earlier.Sockets) > 0 {
		n.save()
	}
}

// Visitor opens files for a spec: with the rights of its account, as far as the policy of the host lets.
func (o *Operator) Visitor(spec *process.Spec) trail.Visit {
	return func(path string, do func(*trail.Trail) error) error { return o.Commands.Visit(spec, path, do) }
}

// upCheck checks whether a step brought the process up, by the readiness test of the spec if there is one. before is
// the instance that ran before the step.
func (n *session) upCheck(st *record.Step, before *instance.Identity) (instance.Sighting, checkFailure, error) {
	if !n.asksReady() {
		return n.startCheck(st.DoneAt)
	}
	check, err := ready.New(*n.spec.Ready, n.readyEnv(st))
	if err != nil {
		return instance.Sighting{}, checkFailure{}, process.Errorf(process.Failed, "spec.ready: %v", err)
	}
	return n.readyCheck(st, before, check)
}

func (n *session) asksReady() bool { return n.spec.AsksReady() }

func (n *session) readyEnv(st *record.Step) ready.Env {
	env := ready.Env{
		Exec: func(ctx context.Context, line string) error {
			limit := attemptLimit
			if at, ok := ctx.Deadline(); ok {
				limit = time.Until(at).Round(10 * time.Millisecond)
			}
			//nolint:contextcheck // the limit says the same in better words
			return n.Prober.Try(n.ctx, n.id, n.spec, line, limit)
		},
		Output: func() string { return n.Commands.Output(st.Run) },
	}
	run := st.Run
	env.Said = func() bool {
		said, _ := n.Notices.State(run)
		return said.Ready
	}
	env.Earlier, env.Listeners = n.progress.Earlier.Sockets, n.Processes.Listeners
	env.Holder = func(sockets []uint64) string {
		return n.Processes.OtherHolder(sockets, instance.Scope{Root: st.Child, Run: st.Run})
	}
	if log := n.progress.Earlier.Log; log != nil {
		env.Log, env.Visit = ready.Log(*log), n.Visitor(n.spec)
	}
	return env
}

// readyCheck waits until the process is alive and ready, at most until the end of its check time, counted from the end
// of the step. It accepts the instance before only at that end, because that instance may still be about to go. It
// returns the last sighting and the verdict.
func (n *session) readyCheck(st *record.Step, before *instance.Identity,
	check *ready.Check,
) (instance.Sighting, checkFailure, error) {
	limit := n.spec.CheckTime()
	until, end := st.DoneAt+limit, st.DoneAt+limit
	defer func() { n.word = nil }()
	death := &deathWatch{session: n}
	defer death.stop()
	for pause := firstLook; ; pause = min(2*pause, slowLook) {
		last := n.timeLeft(end) <= 0
		if last && n.spec.Notifies() && n.Notices != nil {
			n.Notices.Settle()
		}
		seen := n.findAndRecord()
		if n.spec.Foreground() && !seen.Alive() {
			if n.lastWord(st); n.runtime.Process == nil {
				return seen, n.deathOf(st).explain("not alive", seen), nil
			}
			seen = n.findAndRecord()
		}
		said, changed := n.heed(st.Run)
		end, n.word = Extended(said, st.DoneAt, until, end), changed
		left := n.timeLeft(end)
		if n.progress.Ready && seen.Alive() {
			return seen, checkFailure{}, nil
		}
		var problem error
		if seen.Alive() && (left <= 0 || before == nil || *seen.ID != *before) {
			death.watch(*seen.ID)
			n.appeared()
			problem = n.attempt(check, left)
			if n.ctx.Err() != nil {
				return seen, checkFailure{}, n.interruption()
			}
			if problem == nil {
				if seen = n.findAndRecord(); seen.Alive() {
					n.progress.Ready, n.answerer = true, check.Note()
					n.save()
					return seen, checkFailure{}, nil
				}
			}
			left = n.timeLeft(end)
		}
		switch {
		case left > 0:
		case !last && n.spec.Notifies():
			left = 0 // what it has said since the look came in time
		case problem != nil && seen.Alive():
			return seen, n.notReady(limit+end-until, problem, said.Status, seen.ID.PID), nil
		default:
			return seen, death.explain("not alive", seen), nil
		}
		if err := n.pauseUnlessEnded(min(pause, left), death); err != nil {
			return seen, checkFailure{}, err
		}
	}
}

// notReady is the verdict about an instance that is alive and was not ready within a time; status is what it says of
// itself.
func (n *session) notReady(within time.Duration, problem error, status string, pid int) checkFailure {
	text := fmt.Sprintf("not ready after %s: %v", shortly(within), problem)
	if n.hurried() {
		text = fmt.Sprintf("not ready when %s came: %v", n.hurriedBy(), problem)
	}
	if status != "" {
		text += fmt.Sprintf("; it says %q", status)
	}
	// What has come in time decides about the process.
	ends := n.spec.Ready.StopsLate() && n.op != process.Reload && !n.hurried()
	switch {
	case ends:
		text += fmt.Sprintf("; drover ended pid %d, as ready.on_timeout says", pid)
	case n.hurried() && strings.HasPrefix(n.hurriedBy(), "a "+string(process.Stop)):
		text += fmt.Sprintf("; the stop ends pid %d", pid)
	default:
		text += fmt.Sprintf("; pid %d runs on", pid)
	}
	return checkFailure{text: text, cause: process.CauseNotReady, problem: problem.Error(), ends: ends}
}

// hurriedBy names the operation that has ended the check.
func (n *session) hurriedBy() string {
	if by, ok := errors.AsType[endCause](context.Cause(n.preparation())); ok {
		return by.by
	}
	return "another operation"
}

// attempt tests readiness once; left is the rest of the check time.
func (n *session) attempt(check *ready.Check, left time.Duration) error {
	ctx, cancel := context.WithTimeout(n.ctx, min(attemptLimit, max(left, lastAttempt)))
	defer cancel()
	return check.Try(ctx)
}

// pauseUnlessEnded pauses for d, or until the followed instance ends.
func (n *session) pauseUnlessEnded(d time.Duration, death *deathWatch) error {
	if !death.watching() {
		return n.pause(d)
	}
	_, err := death.wait(n.Clock() + d)
	return err
}

// lastWord looks once more for a main process that the command of a step has named before its end.
func (n *session) lastWord(st *record.Step) {
	if !n.spec.Notifies() || n.Notices == nil {
		return
	}
	n.Notices.Settle()
	said, _ := n.Notices.State(st.Run)
	if seen, ok := Successor(n.runtime.Process, said); ok && said.Main != st.Child {
		n.runtime.Process = seen.ID
		n.runtime.Run, n.runtime.Outside, n.runtime.Ended = st.Run, false, nil
	}
}

// ReadyCheck returns the readiness test of a process that runs already; before is what was there before its start.
func (o *Operator) ReadyCheck(ctx context.Context, id process.ID, spec *process.Spec, run string,
	main instance.Identity, before record.Before,
) (*ready.Check, error) {
	n := &session{
		Operator: o, ctx: ctx, id: id, op: process.Start, spec: spec, progress: record.Progress{Earlier: before},
	}
	return ready.New(*spec.Ready, n.readyEnv(&record.Step{Run: run, Child: main}))
}

// unready is what a process that has just been relaunched must still show before it counts as up; nil if it counts as
// up now. A spec of the GSE and JOB APIs without a readiness test has none.
func (n *session) unready() *record.Unready {
	limit := checkTime(n.spec)
	switch alive, apart := n.spec.Alive(); {
	case n.spec.AsksReady():
	case apart:
		limit = alive
	case n.spec.Compat != nil:
		return nil
	}
	if limit <= 0 {
		return nil
	}
	now := n.Clock()
	return &record.Unready{
		Since: time.Now().UnixMilli(), From: now, Until: now + limit, Limit: now + limit,
		Earlier: n.progress.Earlier,
	}
}

// Notices knows what processes say of themselves, by run.
type Notices interface {
	// Expect says that a run begins with a process.
	Expect(run string, first instance.Identity)
	// State returns what a run has said so far; changed is closed when it says more. It does not block.
	State(run string) (said notify.State, changed <-chan struct{})
	// Settle waits a moment until everything is taken in that was sent before.
	Settle()
	// AwaitNotice waits for a run that has said something new, beside WATCHDOG=1; false if ctx ends.
	AwaitNotice(ctx context.Context) (run string, ok bool)
	// Ignored counts messages that belong to no run.
	Ignored() int64
}

// maxExtension bounds what EXTEND_TIMEOUT_USEC adds to one wait, so that an operation ends.
const maxExtension = 10 * time.Minute

// Extended returns the new end of a wait that began at since and was to end at until. It is later than end if the
// process asked for more before end.
func Extended(said notify.State, since, until, end time.Duration) time.Duration {
	if said.Extended == 0 || said.ExtendedAt < since || said.ExtendedAt > end {
		return end
	}
	return max(end, min(said.Extended, until+maxExtension))
}

// extension is the time that a spec may add to one wait.
func extension(spec *process.Spec) time.Duration {
	if !spec.Notifies() {
		return 0
	}
	return maxExtension
}

// heed takes in what the run of a step has said: a new main process replaces the one that drover knew. changed is
// closed when the run says more; nil if it never does.
func (n *session) heed(run string) (said notify.State, changed <-chan struct{}) {
	if !n.spec.Notifies() || n.Notices == nil {
		return notify.State{}, nil
	}
	said, changed = n.Notices.State(run)
	if seen, ok := Successor(n.runtime.Process, said); ok && n.runtime.Process != nil && n.runtime.Run == run {
		seen.Run = run
		n.recordSighting(seen)
		n.runtime.Outside = false
	}
	return said, changed
}

// Successor returns the main process that a run has named, if it is another one than known.
func Successor(known *instance.Identity, said notify.State) (instance.Sighting, bool) {
	main := said.Main
	if main.PID == 0 || known != nil && *known == main {
		return instance.Sighting{}, false
	}
	return instance.Sighting{ID: &main, Matches: 1}, true
}
