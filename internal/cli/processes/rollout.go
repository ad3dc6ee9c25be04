package processes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
)

// rolloutFlags are the flags of an operation that spreads over its hosts in batches.
type rolloutFlags struct {
	client.RolloutPlan
	bake, pause time.Duration
}

func (r *rolloutFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.Batch, "batch", "", "operate in batches of so many hosts, such as 20 or 10%")
	f.IntVar(&r.Canary, "canary", 0, "hosts of the first batch, of which none may fail")
	f.DurationVar(&r.bake, "bake", 0, "how long the processes of a batch must stay well, such as 60s")
	f.DurationVar(&r.pause, "pause", 0, "the wait after that, such as 30s")
	f.StringVar(&r.MaxFailures, "max-failures", "", "hosts that may fail, such as 3 or 5%; default none")
	f.StringVar(&r.Order, "order", "", "the label or fact that sorts the hosts")
	f.BoolVar(&r.SkipAway, "skip-away", false, "leave out hosts that are not connected")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		for _, name := range []string{"canary", "bake", "pause", "max-failures", "order", "skip-away"} {
			if f.Changed(name) && r.Batch == "" {
				return term.Usagef("--%s is for a rollout: give --batch", name)
			}
		}
		for name, d := range map[string]time.Duration{"bake": r.bake, "pause": r.pause} {
			if d < 0 || d%time.Second != 0 {
				return term.Usagef("--%s is %s: expected whole seconds", name, d)
			}
		}
		return nil
	})
}

// plan returns the plan of the flags; nil if there is none.
func (r *rolloutFlags) plan() *client.RolloutPlan {
	if r.Batch == "" {
		return nil
	}
	p := r.RolloutPlan
	p.BakeSeconds, p.PauseSeconds = int(r.bake/time.Second), int(r.pause/time.Second)
	return &p
}

// rollOut begins a rollout and follows it.
func (a *operateCommand) rollOut(cmd *cobra.Command, c *client.Client, request client.Request) error {
	r, err := c.RollOut(context.WithoutCancel(cmd.Context()), request)
	if unreachable, ok := errors.AsType[*client.UnreachableError](err); ok {
		err = fmt.Errorf("%w; the server may have accepted the call: check with %s", unreachable,
			a.Again("rollout list"))
	}
	if err != nil {
		return remote.ExitOf(err)
	}
	if a.noWait {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), r.ID)
		return err
	}
	return followRollout(cmd, &a.Session, c, r)
}

// followRollout prints the progress of a rollout until it is done, aborted or paused.
func followRollout(cmd *cobra.Command, s *remote.Session, c *client.Client, r client.Rollout) error {
	ctx := cmd.Context()
	last, heard := "", time.Now()
	for {
		if line := rolloutLine(&r); line != last {
			last = line
			term.Say(cmd, "%s\n", line)
		}
		if r.State != "running" {
			break
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
		next, err := c.Rollout(ctx, r.ID)
		if err == nil {
			r, heard = next, time.Now()
			continue
		}
		if _, away := errors.AsType[*client.UnreachableError](err); away && ctx.Err() == nil &&
			time.Since(heard) < patience {
			continue
		}
		term.Say(cmd, "%s continues; follow it with: %s\n", r.ID, s.Again("rollout watch %s", r.ID))
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return &command.ExitError{Code: command.Unreachable, Err: fmt.Errorf("not done within %s", s.Timeout)}
		case ctx.Err() != nil:
			return &command.ExitError{Code: command.Unreachable}
		default:
			return remote.ExitOf(err)
		}
	}
	if err := printRollout(cmd, s, &r); err != nil {
		return err
	}
	return rolloutVerdict(&r)
}

// rolloutVerdict is the exit code of a rollout that does not run, as an error.
func rolloutVerdict(r *client.Rollout) error {
	n := r.Counts
	switch {
	case r.State == "done" && n.OK+n.Skipped == n.Hosts && n.OK > 0:
		return nil
	case r.State == "paused" || n.OK > 0:
		return &command.ExitError{Code: command.Partial}
	default:
		return &command.ExitError{Code: command.Failed}
	}
}

// rolloutLine is the progress of a rollout in one line.
func rolloutLine(r *client.Rollout) string {
	n := r.Counts
	text := fmt.Sprintf("%s: %s, batch %d, %d/%d ok, %d failed, %d skipped, %d under way, %d baking, %d waiting", r.ID,
		r.State, r.Batch+1, n.OK, n.Hosts, n.Failed, n.Skipped, n.Begun, n.Baking, n.Waiting)
	if r.Reason != "" {
		text += ": " + term.Printable(r.Reason)
	}
	return text
}

// printRollout prints the failures of a rollout grouped by cause, and what a person can do next.
func printRollout(cmd *cobra.Command, s *remote.Session, r *client.Rollout) error {
	if s.Form != term.AsTable {
		return term.PrintValue(cmd.OutOrStdout(), s.Form, r)
	}
	const shown = 3
	for _, f := range r.Failures {
		more := ""
		if left := len(f.Hosts) - shown; left > 0 {
			more = fmt.Sprintf(" and %d more", left)
		}
		term.Say(cmd, "  %d failed, %s: %s (%s%s)\n", len(f.Hosts), term.Printable(f.Cause), term.Printable(f.Message),
			term.Printable(strings.Join(f.Hosts[:min(shown, len(f.Hosts))], ", ")), more)
	}
	if r.State == "paused" {
		term.Say(cmd, "go on: %s; end it: %s\n", s.Again("rollout resume %s", r.ID), s.Again("rollout abort %s", r.ID))
	}
	if r.Counts.Failed > 0 && r.State != "running" && r.State != "aborted" {
		term.Say(cmd, "repeat on the failed hosts: %s\n", s.Again("rollout retry %s", r.ID))
	}
	return nil
}

// NewRollout returns 'drover rollout'.
func NewRollout() *cobra.Command {
	return term.Noun("rollout", "List, follow, pause and end rollouts",
		`List, follow, pause and end rollouts. A rollout is an operation with --batch: the server begins it on
a batch of hosts, and on the next batch after the processes of the first have stayed well. It pauses
itself when too many hosts fail.`,
		newRolloutList(), newRolloutStatus(), newRolloutWatch(), newRolloutRetry(),
		newRolloutChange("pause", "Begin no further batch", `Begin no further batch. The hosts of the present batch go on.`,
			(*client.Client).PauseRollout),
		newRolloutChange("resume", "Go on with a paused rollout",
			`Go on with a paused rollout. The hosts that have failed so far no longer count.`,
			(*client.Client).ResumeRollout),
		newRolloutChange("abort", "End a rollout", `End a rollout. It begins no further batch. In the present batch, an operation that has not begun on
its host never begins.`, (*client.Client).AbortRollout))
}

func newRolloutList() *cobra.Command {
	var s remote.Session
	var f client.RolloutFilter
	cmd := remote.List[client.Rollout]{
		Use: "list", Short: "List rollouts, newest first", None: "no rollouts",
		ID: func(r client.Rollout) string { return r.ID },
		Columns: []term.Column[client.Rollout]{
			{Head: "ROLLOUT", Cell: func(r client.Rollout) string { return r.ID }},
			{Head: "STATE", Cell: func(r client.Rollout) string { return r.State }, State: true},
			{Head: "OPERATION", Cell: func(r client.Rollout) string { return r.Op }},
			{Head: "PROCESS", Cell: func(r client.Rollout) string { return processesOf(r.Processes) }},
			{Head: "HOSTS", Cell: func(r client.Rollout) string { return strconv.Itoa(r.Counts.Hosts) }},
			{Head: "OK", Cell: func(r client.Rollout) string { return strconv.Itoa(r.Counts.OK) }},
			{Head: "FAILED", Cell: func(r client.Rollout) string { return strconv.Itoa(r.Counts.Failed) }},
			{Head: "WAITING", Cell: func(r client.Rollout) string { return strconv.Itoa(r.Counts.Waiting) }},
			{Head: "AGE", Cell: func(r client.Rollout) string { return term.Since(&r.CreatedAt) }},
			{Head: "BY", Cell: func(r client.Rollout) string { return term.Caller(r.App, r.User) }},
			{Head: "REASON", Wide: true, Cell: func(r client.Rollout) string { return r.Reason }},
		},
		Rows: func(ctx context.Context, c *client.Client, _ []string) ([]client.Rollout, error) {
			return client.Collect(c.Rollouts(ctx, f))
		},
	}.Command(&s)
	cmd.Flags().StringVar(&f.State, "state", "", "only rollouts in this state: running, paused, done or aborted")
	cmd.Flags().IntVar(&f.Limit, "limit", 20, "most rollouts to list; 0 lists all")
	term.Complete(cmd, "state", "running", "paused", "done", "aborted")
	return cmd
}

// processesOf names the first process, and counts the others.
func processesOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	if len(names) > 1 {
		return names[0] + " and " + process.Count(len(names)-1, "other", "others")
	}
	return names[0]
}

func newRolloutStatus() *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:   "status ROLLOUT",
		Short: "Show a rollout, its failures by cause and each host",
		Args:  term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			r, err := c.Rollout(cmd.Context(), args[0])
			if err != nil {
				return remote.ExitOf(err)
			}
			if s.Form == term.AsTable {
				term.Say(cmd, "%s\n", rolloutLine(&r))
				name := func(h client.RolloutHost) string { return h.Host }
				err = term.PrintList(cmd, s.Output, r.Hosts, hostColumns(), name)
			}
			return cmp.Or(err, printRollout(cmd, &s, &r))
		},
		ValidArgsFunction: completeRollouts(&s),
	}
	s.Flags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	return cmd
}

func hostColumns() []term.Column[client.RolloutHost] {
	return []term.Column[client.RolloutHost]{
		{Head: "HOST", Cell: func(h client.RolloutHost) string { return h.Host }},
		{Head: "BATCH", Cell: func(h client.RolloutHost) string { return strconv.Itoa(h.Batch + 1) }},
		{Head: "STATE", Cell: func(h client.RolloutHost) string { return h.State }, State: true},
		{Head: "CAUSE", Cell: func(h client.RolloutHost) string { return h.Cause }},
		{Head: "MESSAGE", Cell: func(h client.RolloutHost) string { return h.Message }},
		{Head: "TASK", Wide: true, Cell: func(h client.RolloutHost) string { return h.Operation }},
	}
}

func newRolloutWatch() *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:   "watch ROLLOUT",
		Short: "Follow a rollout until it is done or paused",
		Long: `Follow a rollout until it is done, aborted or paused. Ctrl-C ends the command, not the rollout.

Exit codes: 0 done, 1 failed, 6 unreachable or timed out, 7 done on some hosts only, or paused.`,
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			r, err := c.Rollout(cmd.Context(), args[0])
			if err != nil {
				return remote.ExitOf(err)
			}
			return followRollout(cmd, &s, c, r)
		},
		ValidArgsFunction: completeRollouts(&s),
	}
	s.WaitingFlags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	return cmd
}

// newRolloutChange returns a command that changes a rollout.
func newRolloutChange(verb, short, long string,
	change func(c *client.Client, ctx context.Context, id string) (client.Rollout, error),
) *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:   verb + " ROLLOUT",
		Short: short,
		Long:  long,
		Args:  term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			r, err := change(c, cmd.Context(), args[0])
			if err != nil {
				return remote.ExitOf(err)
			}
			if s.Form != term.AsTable {
				return term.PrintValue(cmd.OutOrStdout(), s.Form, r)
			}
			term.Say(cmd, "%s\n", rolloutLine(&r))
			return nil
		},
		ValidArgsFunction: completeRollouts(&s),
	}
	s.Flags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	return cmd
}

func newRolloutRetry() *cobra.Command {
	var away bool
	cmd := newRolloutChange("retry", "Repeat the operation on the failed hosts",
		`Repeat the operation on the failed hosts of a paused or done rollout, in new batches. With --away
only on the hosts that were not connected. A rollout that is done becomes active again.`,
		func(c *client.Client, ctx context.Context, id string) (client.Rollout, error) {
			return c.RetryRollout(ctx, id, away)
		})
	cmd.Flags().BoolVar(&away, "away", false, "only hosts that were not connected, failed or skipped")
	return cmd
}

// completeRollouts completes the id of a rollout.
func completeRollouts(s *remote.Session) remote.Completer {
	return remote.First(remote.Completing(s, func(ctx context.Context, c *client.Client, _ string) []string {
		return remote.Words(c.Rollouts(ctx, client.RolloutFilter{Limit: 50}), func(r client.Rollout) string {
			return r.ID + "\t" + r.Op + " " + term.Printable(processesOf(r.Processes))
		})
	}))
}
