package operation

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
	"drover/internal/agent/ready"
	"drover/internal/agent/specstore"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

const (
	// attemptLimit is the longest time for one attempt at readiness; lastAttempt is the least, even if the check time
	// is over.
	attemptLimit = 5 * time.Second
	lastAttempt  = time.Second
)

// markLog records the length of the process's log before the start.
func (n *session) markLog() {
	path := n.spec.Identity.LogPath
	if n.spec.Ready == nil || n.spec.Ready.Log == "" || path == "" {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(n.spec.Identity.SetupPath, path)
	}
	mark := specstore.LogMark(ready.MarkLog(path, n.Visitor(n.spec)))
	n.progress.Log = &mark
	n.save()
}

// Visitor opens files for a spec: with the rights of its account, as far as the policy of the host lets.
func (o *Operator) Visitor(spec *process.Spec) trail.Visit {
	return func(path string, do func(*trail.Trail) error) error { return o.Commands.Visit(spec, path, do) }
}

// upCheck checks whether a step brought the process up, by the readiness test of the spec if there is one. before is
// the instance that ran before the step.
func (n *session) upCheck(st *specstore.Step, before *procfs.Identity) (instance.Sighting, checkFailure, error) {
	if !n.asksReady() {
		return n.startCheck(st.DoneAt)
	}
	check, err := ready.New(*n.spec.Ready, n.readyEnv(st))
	if err != nil {
		return instance.Sighting{}, checkFailure{}, process.Errorf(process.Failed, "spec.ready: %v", err)
	}
	return n.readyCheck(st, before, check)
}

// asksReady reports whether the process itself tells that it is ready. Otherwise it is ready once it has stayed up.
func (n *session) asksReady() bool { return n.spec.Ready != nil && n.spec.Ready.Alive == nil }

func (n *session) readyEnv(st *specstore.Step) ready.Env {
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
	if n.progress.Log != nil {
		env.Log, env.Visit = ready.Log(*n.progress.Log), n.Visitor(n.spec)
	}
	return env
}

// readyCheck waits until the process is alive and ready, at most until the end of its check time, counted from the end
// of the step. It accepts the instance before only at that end, because that instance may still be about to go. It
// returns the last sighting and the verdict.
func (n *session) readyCheck(st *specstore.Step, before *procfs.Identity,
	check *ready.Check,
) (instance.Sighting, checkFailure, error) {
	limit := seconds(max(n.spec.Policy.StartCheckBegin, n.spec.Policy.StartCheckEnd))
	until := st.DoneAt + limit
	death := &deathWatch{session: n}
	defer death.stop()
	for pause := firstLook; ; pause = min(2*pause, slowLook) {
		seen := n.look()
		left := n.left(until)
		if n.spec.Foreground() && !seen.Alive() {
			return seen, n.deathOf(st).explain("not alive", seen), nil
		}
		var problem error
		if seen.Alive() && (left <= 0 || before == nil || *seen.ID != *before) {
			death.watch(*seen.ID)
			problem = n.attempt(check, left)
			if n.ctx.Err() != nil {
				return seen, checkFailure{}, n.interruption()
			}
			if problem == nil {
				if seen = n.look(); seen.Alive() {
					return seen, checkFailure{}, nil
				}
			}
			left = n.left(until)
		}
		switch {
		case left > 0:
		case problem != nil && seen.Alive():
			text := fmt.Sprintf("not ready after %s: %v", shortly(limit), problem)
			if n.spec.Ready.StopLate {
				text += fmt.Sprintf("; drover ended pid %d, as ready.on_timeout says", seen.ID.PID)
			} else {
				text += fmt.Sprintf("; pid %d runs on", seen.ID.PID)
			}
			return seen, checkFailure{text: text, cause: process.CauseNotReady}, nil
		default:
			return seen, death.explain("not alive", seen), nil
		}
		if err := n.rest(min(pause, left), death); err != nil {
			return seen, checkFailure{}, err
		}
	}
}

// attempt tests readiness once; left is the rest of the check time.
func (n *session) attempt(check *ready.Check, left time.Duration) error {
	ctx, cancel := context.WithTimeout(n.ctx, min(attemptLimit, max(left, lastAttempt)))
	defer cancel()
	return check.Try(ctx)
}

// rest pauses for d, or until the followed instance ends.
func (n *session) rest(d time.Duration, death *deathWatch) error {
	if !death.watching() {
		return n.pause(d)
	}
	_, err := death.wait(n.Clock() + d)
	return err
}
