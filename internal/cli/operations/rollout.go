package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/events"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/why"
	"drover/internal/words"
)

// rollOut begins a rollout and follows it.
func (a *Command) rollOut(cmd *cobra.Command, c *client.Client, request v1.Request) error {
	r, err := Uninterrupted(cmd.Context(), func(ctx context.Context) (v1.Rollout, error) {
		return c.RollOut(ctx, request)
	}, a.Again("rollout list"))
	if err != nil {
		return err
	}
	return Attend(cmd, &a.Session, c, r, a.NoWait)
}

// SayOrder says that none of the hosts of a rollout has the label or fact that sorts them.
func SayOrder(cmd *cobra.Command, c *client.Client, r *v1.Rollout) {
	if r.Plan.Order == "" {
		return
	}
	f := client.HostFilter{Selector: r.Plan.Order, Limit: 1}
	for i := range r.Hosts {
		f.Hosts = append(f.Hosts, r.Hosts[i].Host)
	}
	if len(f.Hosts) > remote.MostAsked {
		f.Hosts = nil
	}
	// Without an answer, as for a person who may not read hosts, there is nothing to say.
	if found, err := client.Collect(c.Hosts(cmd.Context(), f)); err == nil && len(found) == 0 {
		term.Say(cmd, "--order %s sorts nothing: no host has this label or fact\n", r.Plan.Order)
	}
}

// Attend follows a rollout that has just begun. With noWait it prints the id. Nobody waits for a scheduled rollout.
func Attend(cmd *cobra.Command, s *remote.Session, c *client.Client, r v1.Rollout, noWait bool) error {
	SayOrder(cmd, c, &r)
	switch {
	case noWait:
		_, err := fmt.Fprintln(cmd.OutOrStdout(), r.ID)
		return err
	case r.State == v1.RolloutScheduled:
		term.Say(cmd, "%s\nend it: %s\n", rolloutLine(&r), s.Again("rollout abort %s", r.ID))
		if s.Form != term.AsTable {
			return term.PrintValue(cmd.OutOrStdout(), s.Form, r)
		}
		return nil
	}
	return followRollout(cmd, s, c, r)
}

// followRollout prints the progress of a rollout until it is done, aborted or paused, or waits for an approval.
func followRollout(cmd *cobra.Command, s *remote.Session, c *client.Client, r v1.Rollout) error {
	ctx := cmd.Context()
	view := rolloutView{cmd: cmd, rewrite: term.Rewritable(cmd.ErrOrStderr())}
	heard := time.Now()
	for {
		view.show(&r, time.Now())
		if r.State != v1.RolloutRunning && r.State != v1.RolloutScheduled && !r.Undoing {
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
	verdict := rolloutVerdict(&r)
	if r.Plan.UndoOnFailure && r.State == v1.RolloutAborted && s.Form == term.AsTable {
		return errors.Join(verdict, followUndo(cmd, s, c, r.ID))
	}
	return verdict
}

// followUndo follows the undo of a rollout that has just been undone, if there is one.
func followUndo(cmd *cobra.Command, s *remote.Session, c *client.Client, id string) error {
	recent, err := c.RolloutPage(cmd.Context(), client.RolloutFilter{Limit: 50}, "")
	if err != nil {
		return remote.ExitOf(err)
	}
	for _, undo := range recent.Items {
		if undo.Undoes == id {
			return followRollout(cmd, s, c, undo)
		}
	}
	return nil
}

// rolloutView shows the progress of a rollout: lines that it rewrites, or one line for each change.
type rolloutView struct {
	cmd     *cobra.Command
	rewrite bool
	last    string
	// drawn is the number of lines on the terminal that it rewrites.
	drawn int
}

// The sizes of lanes: the characters of a bar, the lanes at a time, and the characters of a line.
const (
	barWidth  = 20
	mostLanes = 6
	lineWidth = 79
)

func (v *rolloutView) show(r *v1.Rollout, now time.Time) {
	if !v.rewrite {
		if line := rolloutLine(r); line != v.last {
			term.Say(v.cmd, "%s\n", line)
			v.last = line
		}
		return
	}
	head := fmt.Sprintf("%s: %s, %d/%d ok, %d failed%s", r.ID, r.State, r.Counts.OK, r.Counts.Hosts, r.Counts.Failed,
		pace(r, now))
	lines := append([]string{head}, lanes(r)...)
	if r.Reason != "" {
		lines = append(lines, "  "+term.Printable(r.Reason))
	}
	if r.Active() { // the result has them, too
		for _, f := range r.Failures {
			lines = append(lines, "  "+failureLine(&f))
		}
	}
	var text strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA\r\x1b[J", v.drawn)
	}
	for _, l := range lines {
		text.WriteString(shortened(l, lineWidth) + "\n")
	}
	v.drawn = len(lines)
	term.Say(v.cmd, "%s", text.String())
}

// shortened cuts a line, so that it takes one line of a terminal.
func shortened(line string, most int) string {
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return line
}

// pace returns the hosts a minute so far and the time that is left at this rate; empty if nobody can know.
func pace(r *v1.Rollout, now time.Time) string {
	begun := r.CreatedAt
	if r.At != nil {
		begun = *r.At
	}
	n := r.Counts
	over, left := n.OK+n.Failed+n.Skipped, n.Waiting+n.Begun+n.Baking
	passed := now.Sub(begun)
	if r.State != v1.RolloutRunning || over == 0 || left == 0 || passed <= 0 {
		return ""
	}
	return fmt.Sprintf(", %.1f hosts/min, about %s left", float64(over)/passed.Minutes(),
		why.Age(passed*time.Duration(left)/time.Duration(over)))
}

// lanes returns a line with a bar for each batch around the present one.
func lanes(r *v1.Rollout) (lines []string) {
	states := map[int]map[string]int{}
	for _, h := range r.Hosts {
		if states[h.Batch] == nil {
			states[h.Batch] = map[string]int{}
		}
		states[h.Batch][h.State]++
	}
	batches := slices.Sorted(maps.Keys(states))
	present := max(0, slices.Index(batches, r.Batch))
	first := max(0, min(present-mostLanes/2, len(batches)-mostLanes))
	for _, batch := range batches[first:min(first+mostLanes, len(batches))] {
		lines = append(lines, fmt.Sprintf("  batch %-4d %s", batch+1, lane(states[batch])))
	}
	if hidden := len(batches) - first - len(lines); hidden > 0 {
		lines = append(lines, "  and "+process.Count(hidden, "more batch", "more batches"))
	}
	return lines
}

// lane returns the bar of a batch and its hosts by state.
func lane(states map[string]int) string {
	total := 0
	for _, n := range states {
		total += n
	}
	bar, seen := "", 0
	var words []string
	for _, s := range []struct{ state, mark, word string }{
		{v1.RolloutHostOK, "#", "ok"},
		{v1.RolloutHostFailed, "!", "failed"},
		{v1.RolloutHostSkipped, "-", "skipped"},
		{v1.RolloutHostBaking, "=", "baking"},
		{v1.RolloutHostBegun, ">", "under way"},
		{v1.RolloutHostWaiting, ".", "waiting"},
	} {
		n := states[s.state]
		seen += n
		bar += strings.Repeat(s.mark, seen*barWidth/total-len(bar))
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, s.word))
		}
	}
	return "[" + bar + "] " + strings.Join(words, ", ")
}

// rolloutLine is the progress of a rollout in one line.
func rolloutLine(r *v1.Rollout) string {
	n := r.Counts
	text := fmt.Sprintf("%s: %s, batch %d, %d/%d ok, %d failed, %d skipped, %d under way, %d baking, %d waiting", r.ID,
		r.State, r.Batch+1, n.OK, n.Hosts, n.Failed, n.Skipped, n.Begun, n.Baking, n.Waiting)
	if r.State == v1.RolloutScheduled && r.At != nil {
		text += ": begins at " + r.At.Local().Format(time.RFC3339)
	}
	if r.Reason != "" {
		text += ": " + term.Printable(r.Reason)
	}
	return text
}

// failureLine names a group of failed hosts.
func failureLine(f *v1.RolloutFailure) string {
	line := fmt.Sprintf("%d failed, %s: %s (%s)", len(f.Hosts), term.Printable(f.Cause), term.Printable(briefly(f.Message)),
		FirstOf(f.Hosts, 3))
	if len(f.Common) > 0 {
		line += ", all with " + FirstOf(f.Common, 3)
	}
	return line
}

// FirstOf names at most a number of a list, and counts the others.
func FirstOf(names []string, most int) string {
	text := term.Printable(strings.Join(names[:min(most, len(names))], ", "))
	if left := len(names) - most; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// rolloutLines say how a rollout is, its failures by cause, and what else concerns its processes.
func rolloutLines(r *v1.Rollout) []string {
	lines := []string{rolloutLine(r)}
	if r.Undoes != "" {
		lines = append(lines, "  undoes "+r.Undoes)
	}
	if len(r.ApprovedBy) > 0 {
		lines = append(lines, "  approved by "+term.Printable(strings.Join(r.ApprovedBy, ", ")))
	}
	for _, f := range r.Failures {
		lines = append(lines, "  "+failureLine(&f))
	}
	lines = append(lines, skippedLines(r)...)
	for _, o := range r.Others {
		lines = append(lines, fmt.Sprintf("  beside it: %s %s by %s at %s (%s)", o.Op, term.Printable(o.Subject),
			term.Printable(term.Caller(o.App, o.User)), term.Stamp(&o.CreatedAt), o.ID))
	}
	const shown = 3
	left := leftAlone(r)
	for _, h := range left[:min(shown, len(left))] {
		lines = append(lines, fmt.Sprintf("  %s: %s", term.Printable(h.Host), term.Printable(briefly(h.Message))))
	}
	if more := len(left) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more that the rollout leaves alone", more))
	}
	return lines
}

// answerLines prints lines that are the answer of a command, in the language of the person.
func answerLines(cmd *cobra.Command, lines []string) error {
	w := cmd.OutOrStdout()
	_, err := fmt.Fprintln(w, term.Told(cmd, w, strings.Join(lines, "\n")))
	return err
}

// printRollout prints what a command that acts on a rollout has come to, and what a person can do next.
func printRollout(cmd *cobra.Command, s *remote.Session, r *v1.Rollout) error {
	if s.Form != term.AsTable {
		return term.PrintValue(cmd.OutOrStdout(), s.Form, r)
	}
	for _, line := range rolloutLines(r)[1:] { // the command has said the first one
		term.Say(cmd, "%s\n", line)
	}
	sayNext(cmd, s, r)
	return nil
}

// sayNext says what a person can do next.
func sayNext(cmd *cobra.Command, s *remote.Session, r *v1.Rollout) {
	if len(r.Failures) > 0 || r.State == v1.RolloutHeld {
		sayPage(cmd, s, "rollouts/"+r.ID)
	}
	if r.State == v1.RolloutHeld {
		term.Say(cmd, "another person approves it: %s; end it: %s\n", s.Again("rollout approve %s", r.ID),
			s.Again("rollout abort %s", r.ID))
	}
	if r.State == "paused" {
		term.Say(cmd, "go on: %s; end it: %s\n", s.Again("rollout resume %s", r.ID), s.Again("rollout abort %s", r.ID))
	}
	if n := skippedAway(r); n > 0 && r.Op == v1.OpApply {
		sayFollow(cmd)
	} else if n > 0 {
		term.Say(cmd, "repeat on the hosts that were away: %s\n", s.Again("rollout retry %s --away", r.ID))
	}
	if r.State == v1.RolloutDone && r.Op == v1.OpApply && meddled(r) {
		term.Say(cmd, "apply the file again to bring it to the hosts that somebody has changed\n")
	}
	if r.Counts.Failed > 0 && r.State != "running" && r.State != "aborted" {
		term.Say(cmd, "repeat on the failed hosts: %s\n", s.Again("rollout retry %s", r.ID))
		if r.Op == v1.OpApply {
			term.Say(cmd, "take it back: %s\n", s.Again("rollout undo %s", r.ID))
		}
	}
}

// NewRollout returns 'drover rollout'.
func NewRollout() *cobra.Command {
	return term.Noun("rollout",
		newRolloutList(), newRolloutStatus(), newRolloutWatch(), newRolloutRetry(),
		newRolloutChange("pause", (*client.Client).PauseRollout),
		newRolloutChange("resume", (*client.Client).ResumeRollout),
		newRolloutChange("abort", (*client.Client).AbortRollout),
		newRolloutChange("approve", (*client.Client).ApproveRollout),
		newRolloutPace(), newRolloutUndo())
}

func newRolloutList() *cobra.Command {
	var s remote.Session
	var f client.RolloutFilter
	var hosts remote.Hosts
	cmd := remote.List[v1.Rollout]{
		Use: "list", None: "no rollouts",
		ID: func(r v1.Rollout) string { return r.ID },
		Columns: []term.Column[v1.Rollout]{
			{Head: "ROLLOUT", Cell: func(r v1.Rollout) string { return r.ID }},
			{Head: "STATE", Cell: func(r v1.Rollout) string { return words.Result(r.State, r.Counts.Failed) }, State: true},
			{Head: "OPERATION", Cell: func(r v1.Rollout) string { return r.Op }},
			{Head: "PROCESS", Cell: func(r v1.Rollout) string { return processesOf(r.Processes) }},
			{Head: "HOSTS", Cell: func(r v1.Rollout) string { return strconv.Itoa(r.Counts.Hosts) }},
			{Head: "OK", Cell: func(r v1.Rollout) string { return strconv.Itoa(r.Counts.OK) }},
			{Head: "FAILED", Cell: func(r v1.Rollout) string { return strconv.Itoa(r.Counts.Failed) }},
			{Head: "SKIPPED", Cell: func(r v1.Rollout) string { return strconv.Itoa(r.Counts.Skipped) }},
			{Head: "WAITING", Cell: func(r v1.Rollout) string { return strconv.Itoa(r.Counts.Waiting) }},
			{Head: "AGE", Cell: func(r v1.Rollout) string { return term.Since(&r.CreatedAt) }},
			{Head: "BY", Cell: func(r v1.Rollout) string { return term.Caller(r.App, r.User) }},
			{Head: "SCHEDULE", Wide: true, Cell: func(r v1.Rollout) string { return r.Schedule }},
			{Head: "UNDOES", Wide: true, Cell: func(r v1.Rollout) string { return r.Undoes }},
			{Head: "REASON", Wide: true, Cell: func(r v1.Rollout) string { return r.Reason }},
		},
		Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.Rollout, error) {
			f.Hosts, f.Selector = hosts.Names, hosts.Selector
			rows, err := client.Collect(c.Rollouts(ctx, f))
			if err == nil && len(rows) == 0 {
				err = hosts.Unmatched(ctx, c)
			}
			return rows, err
		},
	}.Command(&s)
	flags := cmd.Flags()
	flags.StringVar(&f.State, "state", "",
		"only rollouts in this state: scheduled, running, held, paused, done or aborted; active is all but the last two")
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "only rollouts with a process of this namespace, or of a pattern")
	hosts.Flags(cmd, &s, "only rollouts that have one of these hosts")
	flags.IntVar(&f.Limit, "limit", 20, "list at most this number of rollouts; 0 lists all")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error { return events.Limited(f.Limit) })
	term.Complete(cmd, "state", "active", "scheduled", "running", "held", "paused", "done", "aborted")
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

// rolloutNamed returns the client of a session, and the rollout with that id.
func rolloutNamed(cmd *cobra.Command, s *remote.Session, id string) (*client.Client, v1.Rollout, error) {
	c, err := s.Client(cmd)
	if err != nil {
		return nil, v1.Rollout{}, err
	}
	r, err := onRollout(cmd.Context(), c, id, func(id string) (v1.Rollout, error) {
		return c.Rollout(cmd.Context(), id)
	})
	return c, r, err
}

func newRolloutStatus() *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:  "status ROLLOUT",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, r, err := rolloutNamed(cmd, &s, args[0])
			if err != nil {
				return err
			}
			if s.Form == term.AsTable {
				if err := answerLines(cmd, rolloutLines(&r)); err != nil {
					return err
				}
				name := func(h v1.RolloutHost) string { return h.Host }
				if err := term.PrintList(cmd, s.Output, r.Hosts, hostColumns(), name); err != nil {
					return err
				}
				sayNext(cmd, &s, &r)
				return nil
			}
			return term.PrintValue(cmd.OutOrStdout(), s.Form, r)
		},
		ValidArgsFunction: completeRollouts(&s),
	}
	s.Flags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	return cmd
}

func hostColumns() []term.Column[v1.RolloutHost] {
	return []term.Column[v1.RolloutHost]{
		{Head: "HOST", Cell: func(h v1.RolloutHost) string { return h.Host }},
		{Head: "BATCH", Cell: func(h v1.RolloutHost) string { return strconv.Itoa(h.Batch + 1) }},
		{Head: "STATE", Cell: func(h v1.RolloutHost) string { return h.State }, State: true},
		{Head: "CAUSE", Cell: func(h v1.RolloutHost) string { return h.Cause }},
		{Head: "MESSAGE", Cell: func(h v1.RolloutHost) string { return h.Message }},
		{Head: "TASK", Wide: true, Cell: func(h v1.RolloutHost) string { return h.Operation }},
	}
}

func newRolloutWatch() *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:  "watch ROLLOUT",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, r, err := rolloutNamed(cmd, &s, args[0])
			if err != nil {
				return err
			}
			return followRollout(cmd, &s, c, r)
		},
		ValidArgsFunction: completeRollouts(&s),
	}
	s.WaitingFlags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	return cmd
}

// newRolloutChange returns a command that changes a rollout.
func newRolloutChange(verb string,
	change func(c *client.Client, ctx context.Context, id string) (v1.Rollout, error),
) *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:  verb + " ROLLOUT",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			r, err := onRollout(cmd.Context(), c, args[0], func(id string) (v1.Rollout, error) {
				return change(c, cmd.Context(), id)
			})
			if err != nil {
				return err
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
	cmd := newRolloutChange("retry", func(c *client.Client, ctx context.Context, id string) (v1.Rollout, error) {
		return c.RetryRollout(ctx, id, away)
	})
	cmd.Flags().BoolVar(&away, "away", false, "only hosts that were not connected, failed or skipped")
	return cmd
}

func newRolloutPace() *cobra.Command {
	var plan RolloutFlags
	cmd := newRolloutChange("pace", func(c *client.Client, ctx context.Context, id string) (v1.Rollout, error) {
		return c.PaceRollout(ctx, id, plan.Fields())
	})
	plan.pace(cmd)
	return cmd
}

func newRolloutUndo() *cobra.Command {
	var a Command
	var plan RolloutFlags
	cmd := &cobra.Command{
		Use:  "undo [ROLLOUT]",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, r, err := toUndo(cmd, &a.Session, args)
			if err != nil {
				return err
			}
			if r.Op != v1.OpApply {
				return term.Usagef("%s is a rollout of the operation %s, which nothing undoes: expected the rollout of an apply",
					r.ID, r.Op)
			}
			reached := process.Count(reachedBy(&r), "host", "hosts")
			if !a.Yes {
				if err := a.AskFirst(cmd, "undo "+r.ID+" on "+reached, reachedBy(&r)); err != nil {
					return err
				}
			}
			slower := plan.Fields()
			if plan.At != "" {
				slower["at"] = plan.At
			}
			undo, err := Uninterrupted(cmd.Context(), func(ctx context.Context) (v1.Rollout, error) {
				return c.UndoRollout(ctx, r.ID, slower)
			}, a.Again("rollout list"))
			if err != nil {
				return err
			}
			return Attend(cmd, &a.Session, c, undo, a.NoWait)
		},
		ValidArgsFunction: completeRollouts(&a.Session),
	}
	cmd.Flags().BoolVarP(&a.Yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&a.NoWait, "no-wait", false, "print the id of the new rollout and do not wait for it")
	plan.flags(cmd, true)
	a.WaitingFlags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	return cmd
}

// reachedBy returns the number of hosts whose operation has begun.
func reachedBy(r *v1.Rollout) int {
	return r.Counts.Hosts - r.Counts.Waiting - r.Counts.Skipped
}

// completeRollouts completes the id of a rollout.
func completeRollouts(s *remote.Session) remote.Completer {
	return remote.First(remote.Completing(s, func(ctx context.Context, c *client.Client, _ string) []string {
		return remote.Words(c.Rollouts(ctx, client.RolloutFilter{Limit: 50}), func(r v1.Rollout) string {
			return r.ID + "\t" + r.Op + " " + term.Printable(processesOf(r.Processes))
		})
	}))
}
