package ui

import (
	"context"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/words"
)

// step is an action on a rollout.
type step struct {
	key, verb string
	word      words.Text
	// hosts counts the hosts on which the step begins an operation, or ends the chance of one.
	hosts func(n v1.RolloutCounts) int
	do    func(c *client.Client, ctx context.Context, id string) (v1.Rollout, error)
}

// steps are the actions on rollouts.
func steps() []step {
	waiting := func(n v1.RolloutCounts) int { return n.Waiting }
	begun := func(n v1.RolloutCounts) int { return n.Hosts - n.Waiting }
	return []step{
		{"p", "pause", words.Act.Pause, func(v1.RolloutCounts) int { return 0 }, (*client.Client).PauseRollout},
		{"r", "resume", words.Act.Resume, waiting, (*client.Client).ResumeRollout},
		{"a", "approve", words.Act.Approve, waiting, (*client.Client).ApproveRollout},
		{"K", "abort", words.Act.Abort, waiting, (*client.Client).AbortRollout},
		{
			"u", "undo", words.Act.Undo, begun,
			func(c *client.Client, ctx context.Context, id string) (v1.Rollout, error) {
				return c.UndoRollout(ctx, id, nil)
			},
		},
		{
			"R", "retry", words.Act.Retry, func(n v1.RolloutCounts) int { return n.Failed },
			func(c *client.Client, ctx context.Context, id string) (v1.Rollout, error) {
				return c.RetryRollout(ctx, id, false)
			},
		},
	}
}

// stepBy returns the step with a key or a verb; nil if there is none.
func stepBy(keyOrVerb string) *step {
	for _, one := range steps() {
		if one.key == keyOrVerb || one.verb == keyOrVerb {
			return &one
		}
	}
	return nil
}

// allows reports whether the state of a rollout allows a step.
func allows(r *v1.Rollout, verb string) bool {
	switch verb {
	case "pause":
		return r.State == "running"
	case "resume":
		return r.State == "paused"
	case "approve":
		return r.State == "held"
	case "abort":
		return r.Active()
	case "retry":
		return r.Counts.Failed > 0 && (r.State == "paused" || !r.Active())
	case "undo":
		return r.Op == v1.OpApply && r.Undoes == "" && (r.State == "paused" || !r.Active())
	}
	return false
}

// onRollout is the rollout that a key is about; nil elsewhere than in a list of rollouts or in the text about one.
func (s State) onRollout() *v1.Rollout {
	items := s.items
	if s.here.kind == rollouts {
		items = []any{s.selected()}
	}
	if (s.here.kind == rollouts || s.here.kind == rollout) && len(items) > 0 {
		if r, ok := items[0].(v1.Rollout); ok {
			return &r
		}
	}
	return nil
}

// step opens the dialog of an action on a rollout.
func (s State) step(one *step, r *v1.Rollout) (State, []Do) {
	switch {
	case s.readOnly:
		s.note = words.Screen.ReadOnly.In(s.lang)
	case !allows(r, one.verb):
		s.note = words.Screen.NotNow.In(s.lang, "op", one.word.In(s.lang), "state", words.State(r.State).In(s.lang))
	default:
		s.dialog = &dialog{op: one.verb, rollout: r}
	}
	return s, nil
}

// stepped tells what became of an action on a rollout.
func (s State) stepped(m Stepped) (State, []Do) {
	s.sending--
	if s.leaving {
		return s, []Do{Leave{}}
	}
	s.note = m.Err
	if m.Err == "" {
		s.note = words.Screen.Stepped.In(s.lang, "op", s.op(m.Verb), "rollout", m.ID,
			"state", words.State(m.State).In(s.lang))
		if m.Verb == "undo" {
			return s.open(place{kind: rollout, of: subject{id: m.ID}})
		}
	}
	return s.ask()
}
