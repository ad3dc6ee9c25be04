package remote

import (
	"context"
	"fmt"
	"iter"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/term"
)

// StoppedRollouts lists the paused and the held rollouts, of all hosts or of the chosen ones.
func StoppedRollouts(ctx context.Context, c *client.Client, hosts []string, selector string,
) iter.Seq2[v1.Rollout, error] {
	return func(yield func(v1.Rollout, error) bool) {
		for _, state := range []string{v1.RolloutPaused, v1.RolloutHeld} {
			for r, err := range c.Rollouts(ctx, client.RolloutFilter{State: state, Hosts: hosts, Selector: selector}) {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// StoppedText says why a paused or held rollout waits, and which command shows its failures and all ways on.
func StoppedText(r *v1.Rollout) (text, command string) {
	state := "paused"
	if r.State == v1.RolloutHeld {
		state = "held"
	}
	over := "no process"
	if len(r.Processes) > 0 {
		over = r.Processes[0]
	}
	if more := len(r.Processes) - 1; more > 0 {
		over += fmt.Sprintf(" (+%d)", more)
	}
	text = fmt.Sprintf("%s rollout %s over %s: %s", state, r.ID, term.Printable(over), term.Printable(r.Reason))
	return text, "drover rollout status " + r.ID
}
