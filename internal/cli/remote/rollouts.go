package remote

import (
	"context"
	"fmt"
	"iter"

	"drover/client"
	"drover/internal/cli/term"
)

// StoppedRollouts lists the paused and the held rollouts, of all hosts or of the chosen ones.
func StoppedRollouts(ctx context.Context, c *client.Client, hosts []string, selector string,
) iter.Seq2[client.Rollout, error] {
	return func(yield func(client.Rollout, error) bool) {
		for _, state := range []string{client.RolloutPaused, client.RolloutHeld} {
			for r, err := range c.Rollouts(ctx, client.RolloutFilter{State: state, Hosts: hosts, Selector: selector}) {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// StoppedText says why a paused or held rollout waits, and which command shows its failures and all ways on.
func StoppedText(r *client.Rollout) (text, command string) {
	state := "paused"
	if r.State == client.RolloutHeld {
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
