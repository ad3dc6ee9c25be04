package schedule

import (
	"context"
	"errors"
	"fmt"

	"drover/internal/clip"
	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// result is what became of a run.
type result struct {
	state store.RunState
	text  string
	// agent and id are the first host that failed and its process, or the first host of a rollout in which none has
	// failed; agent is empty if nobody knows one.
	agent string
	id    process.ID
	// begun says of a run that goes on that its task or rollout is over: the runs of its processes go on.
	begun bool
}

// over reports whether a run has ended; a run that nobody could read or store has not.
func (f *result) over() bool { return f.state != "" && f.state != store.RunRunning }

// result reads what became of a run.
func (rn *Runner) result(ctx context.Context, r *store.ScheduleRun) (found result, err error) {
	if r.Rollout != "" {
		found, err = rn.ofRollout(ctx, r.Rollout)
	} else {
		found, err = rn.ofTask(ctx, r.Task)
	}
	if errors.Is(err, store.ErrNotFound) {
		return result{state: store.RunFailed, text: "its result is not kept any more"}, nil
	}
	return found, err
}

// beginning is a process whose start has succeeded, and the name of its host.
type beginning struct {
	store.ObservedKey
	host string
}

func (rn *Runner) ofTask(ctx context.Context, id string) (found result, err error) {
	t, err := rn.Store.GetTask(ctx, id, "")
	switch {
	case err != nil:
		return found, err
	case t.Open > 0:
		return result{state: store.RunRunning}, nil
	}
	var begun []beginning
	failed, first, why := 0, store.ItemView{}, ""
	err = rn.Store.TaskItems(ctx, id, "", func(v store.ItemView) error {
		if v.Outcome == nil {
			return nil
		}
		a, known := rn.Hosts.LookupID(v.Spelling)
		if _, already := process.Already(v.Op, v.Outcome.Fault); v.Outcome.Fault == process.None || already {
			if known && begins(v.Op) {
				begun = append(begun, beginning{store.ObservedKey{Agent: a.Key, Process: v.Process}, v.Spelling})
			}
			return nil
		}
		if failed++; failed > 1 {
			return nil
		}
		if first, why = v, v.Outcome.Text; known {
			found.agent, found.id = a.Key, v.Process
		}
		return nil
	})
	if err != nil {
		return result{}, err
	}
	if found.state = store.RunOK; failed > 0 {
		found.state = store.RunFailed
		found.text = failedText(failed, t.Keys, "targets", first.Process, first.Spelling, why)
	}
	return rn.withRuns(ctx, found, begun)
}

// begins reports whether an operation begins the run of a process that runs once.
func begins(op process.Op) bool { return op == process.Start || op.Name() == process.Restart }

func (rn *Runner) ofRollout(ctx context.Context, id string) (found result, err error) {
	r, err := rn.Store.GetRollout(ctx, id, "")
	if err != nil {
		return found, err
	}
	counts := r.Counts()
	failed := counts[rollout.Failed]
	lost := r.Plan.OneOf && counts[rollout.Succeeded] > 0 // another host has done it
	switch {
	case r.State == rollout.Aborted:
		found = result{state: store.RunFailed, text: "the rollout was aborted"}
	case r.State == rollout.Done && failed > 0 && !lost, r.State == rollout.Paused && failed > 0:
		found = result{state: store.RunFailed}
	case r.State == rollout.Done && counts[rollout.Succeeded] == 0:
		found = result{state: store.RunFailed, text: "no host was connected"}
	case r.State == rollout.Done:
		return rn.withRuns(ctx, result{state: store.RunOK}, begunBy(r))
	default:
		return result{state: store.RunRunning}, nil
	}
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if found.agent == "" { // an event needs a host, also if none has failed
			found.agent, found.id = h.Agent, r.Steps[h.Steps[0]].Process
		}
		if h.State == rollout.Failed {
			found.agent, found.id = h.Agent, r.Steps[h.Steps[0]].Process
			found.text = failedText(failed, r.Total, "hosts", found.id, h.Name, h.Text)
			if r.State == rollout.Paused {
				found.text = "the rollout is paused: " + found.text
			}
			break
		}
	}
	return found, nil
}

// begunBy returns what a rollout has started.
func begunBy(r *store.Rollout) (begun []beginning) {
	for i := range r.Hosts {
		h := &r.Hosts[i]
		for _, n := range h.Steps {
			if h.State == rollout.Succeeded && begins(r.Steps[n].Op) {
				begun = append(begun, beginning{store.ObservedKey{Agent: h.Agent, Process: r.Steps[n].Process}, h.Name})
			}
		}
	}
	return begun
}

// withRuns adds to the result of a task or a rollout what became of the runs that it has begun: those of processes that
// run once. Such a run is over when its process has ended, and nobody knows its end if the host went away.
func (rn *Runner) withRuns(ctx context.Context, found result, begun []beginning) (result, error) {
	keys := make([]store.ObservedKey, len(begun))
	for i := range begun {
		keys[i] = begun[i].ObservedKey
	}
	seen := map[store.ObservedKey]store.Observed{}
	if len(keys) > 0 {
		if err := rn.Store.ObservedAt(ctx, keys, true, func(o store.Observed) {
			seen[store.ObservedKey{Agent: o.Agent, Process: o.Process}] = o
		}); err != nil {
			return result{}, fmt.Errorf("cannot read what became of a run: %w", err)
		}
	}
	counts := map[store.RunState]int{}
	first := map[store.RunState]result{}
	for _, b := range begun {
		o, known := seen[b.ObservedKey]
		if !known || o.Spec == nil || o.Spec.Kind() != process.SingleRun {
			continue
		}
		state, text := rn.ofRun(&o)
		if counts[state]++; counts[state] == 1 {
			first[state] = result{state: state, text: b.Process.String() + " on " + b.host + ": " +
				clip.Marked(text, mostText, " …"), agent: b.Agent, id: b.Process}
		}
	}
	for _, s := range []store.RunState{store.RunFailed, store.RunUnknown} {
		if counts[s] > 0 && found.state == store.RunOK {
			found = first[s]
			found.text = fmt.Sprintf(map[store.RunState]string{
				store.RunFailed:  "%d of %d runs failed; the first: %s",
				store.RunUnknown: "nobody knows how %d of %d runs ended; the first: %s",
			}[s], counts[s], len(begun), found.text)
		}
	}
	if counts[store.RunRunning] > 0 {
		return result{state: store.RunRunning, begun: true}, nil
	}
	return found, nil
}

// ofRun returns what became of the last run of a process that runs once.
func (rn *Runner) ofRun(o *store.Observed) (state store.RunState, text string) {
	s := &o.Status
	if text = s.Cause.Text; text == "" {
		text = s.Message
	}
	switch s.State {
	case process.StateFinished, process.StateStopped, process.StateGivenUp:
	default:
		_, joined := rn.Hosts.ByKey(o.Agent)
		now := rn.Clock()
		p := rn.Hosts.Presence(o.Agent, now)
		if away := p.Away && now.Sub(p.Since) >= lost; joined && !away {
			return store.RunRunning, ""
		}
		return store.RunUnknown, "its host went away"
	}
	switch {
	case s.State == process.StateFinished && !s.EndedBadly():
		return store.RunOK, ""
	case len(s.Runs) > 0 && s.Runs[0].Ended != 0 && (s.Runs[0].Exit == nil || !s.Runs[0].Exit.Known):
		return store.RunUnknown, text
	default:
		return store.RunFailed, text
	}
}

func failedText(failed, all int, of string, id process.ID, host, text string) string {
	return fmt.Sprintf("%d of %d %s failed; the first: %s on %s: %s", failed, all, of, id, host,
		clip.Marked(text, mostText, " …"))
}
