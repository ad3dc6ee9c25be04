package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/clip"
	"drover/internal/command"
	"drover/internal/why"
	"drover/internal/words"
)

// Waiter waits for an operation and reports its results.
type Waiter struct {
	Session *remote.Session
	// called replaces the operation in the summary, if it is not empty.
	Called string
	// shown has the targets whose results table has already printed during the wait.
	shown map[target]bool
	table term.Table
	// failed is the number of failures at the last look at them, and kinds has the kinds that it has told.
	failed int
	kinds  map[string]bool
}

// target identifies a result.
type target struct{ process, host string }

// The intervals of a waiter.
const (
	// lookSoon is for a line that it rewrites, lookSlow for lines that stay; between these passes tellAgain.
	lookSoon  = 500 * time.Millisecond
	lookSlow  = 2 * time.Second
	tellAgain = 10 * time.Second
	// patience is how long a server may be unreachable before the wait ends.
	patience = 30 * time.Second
	again    = time.Second
)

// Finish waits until the operation is done, prints the result of each target and a summary, and returns the exit code
// as an error.
func (w *Waiter) Finish(cmd *cobra.Command, c *client.Client, o v1.Task) error {
	ctx := cmd.Context()
	w.shown = map[target]bool{}
	w.table = term.TableOf(w.Session.Output, cmd.OutOrStdout(), resultColumns())
	o, err := w.Await(ctx, cmd, c, o)
	if err != nil {
		return w.Detached(cmd, o.ID, err)
	}
	results, err := client.Collect(c.Results(ctx, o.ID, client.ResultFilter{}))
	if err != nil {
		return remote.ExitOf(err)
	}
	if err := w.print(cmd, o, results); err != nil {
		return err
	}
	w.Summarise(cmd, o, results)
	return Verdict(results)
}

// Await blocks until the operation is done or ctx ends. It survives a restart of the server.
func (w *Waiter) Await(ctx context.Context, cmd *cobra.Command, c *client.Client,
	o v1.Task,
) (v1.Task, error) {
	line := progress{cmd: cmd, rewrite: term.Rewritable(cmd.ErrOrStderr()), total: o.Counts.Targets}
	defer line.clear()
	look := lookSlow
	if line.rewrite {
		look = lookSoon
	}
	begun := time.Now()
	heard := begun
	for looks := 0; !o.Done(); looks++ {
		if looks > 0 || line.rewrite { // else an operation that is done at once needs no line
			line.show(o)
		}
		next, err := c.Task(ctx, o.ID, look)
		if err == nil && time.Since(begun) >= lookSlow && !next.Done() {
			err = w.meanwhile(ctx, cmd, c, next, &line)
		}
		if err == nil {
			o, heard = next, time.Now()
			continue
		}
		if _, away := errors.AsType[*client.UnreachableError](err); !away || ctx.Err() != nil {
			return o, cmp.Or(ctx.Err(), remote.ExitOf(err))
		}
		if time.Since(heard) > patience {
			return o, remote.ExitOf(err)
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return o, ctx.Err()
		}
	}
	return o, nil
}

// prints reports whether the waiter prints every result.
func (w *Waiter) prints(cmd *cobra.Command, results int) bool {
	return w.Session.Form == term.AsTable && (results <= fewResults || cmd.Flags().Changed("output"))
}

// meanwhile prints the known results while it waits for others: an unreachable host does not delay the other results.
// Of many targets it tells each new kind of failure.
func (w *Waiter) meanwhile(ctx context.Context, cmd *cobra.Command, c *client.Client, o v1.Task,
	line *progress,
) error {
	if !w.prints(cmd, o.Counts.Targets) {
		return w.failing(ctx, cmd, c, o, line)
	}
	line.clear()
	if o.Counts.OK+o.Counts.Failed == len(w.shown) {
		return nil
	}
	results, err := client.Collect(c.Results(ctx, o.ID, client.ResultFilter{}))
	if err != nil {
		return err
	}
	results = slices.DeleteFunc(results, func(r v1.Result) bool { return r.Outcome == "pending" })
	return w.rows(cmd, results)
}

// mostKinds is how many kinds of failures are told during a wait. All are counted at its end.
const mostKinds = 10

// failing tells the kinds of failures that have come since the last look.
func (w *Waiter) failing(ctx context.Context, cmd *cobra.Command, c *client.Client, o v1.Task,
	line *progress,
) error {
	if o.Counts.Failed <= w.failed || len(w.kinds) >= mostKinds {
		return nil
	}
	w.failed = o.Counts.Failed
	results, err := c.ResultPage(ctx, o.ID, client.ResultFilter{Outcome: "failed", Limit: 1000}, "")
	if err != nil {
		return err
	}
	if w.kinds == nil {
		w.kinds = map[string]bool{}
	}
	for _, r := range results.Items {
		kind := alike(r)
		if w.kinds[kind] || len(w.kinds) >= mostKinds {
			continue
		}
		w.kinds[kind] = true
		line.clear()
		term.Say(cmd, "  failed: %s (%s on %s)\n", term.Printable(briefly(r.Message)), term.Printable(r.Namespace+"/"+r.Name),
			term.Printable(r.Host))
	}
	return nil
}

// rows prints results in a table that continues, each result once.
func (w *Waiter) rows(cmd *cobra.Command, results []v1.Result) error {
	columns := resultColumns()
	if !w.Session.NoHeaders && len(w.shown) == 0 && len(results) > 0 {
		w.table.Add(w.table.Heads()...)
	}
	outputs, order := map[string]string{}, []string{}
	for _, r := range results {
		if of := (target{r.Namespace + "/" + r.Name, r.Host}); !w.shown[of] {
			w.shown[of] = true
			var output string
			if r.Message, output = words.Apart(r.Message); output != "" && outputs[output] == "" {
				outputs[output] = of.process + " on " + of.host
				order = append(order, output)
			}
			w.table.Add(term.Cells(columns, false, r)...)
		}
	}
	if err := w.table.Write(cmd.OutOrStdout()); err != nil {
		return err
	}
	for _, output := range order {
		term.Say(cmd, "%s wrote:\n", term.Printable(outputs[output]))
		for line := range strings.SplitSeq(withoutMiddle(output), "\n") {
			term.Say(cmd, "  %s\n", term.Printable(line))
		}
	}
	return nil
}

// Detached says how to follow an operation that continues.
func (w *Waiter) Detached(cmd *cobra.Command, id string, err error) error {
	term.Say(cmd, "%s continues; follow it with: %s\n", id, w.Session.Again("task watch %s", id))
	sayPage(cmd, w.Session, "tasks/"+id)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &command.ExitError{Code: command.Unreachable, Err: fmt.Errorf("not done within %s", w.Session.Timeout)}
	case errors.Is(err, context.Canceled):
		return &command.ExitError{Code: command.Unreachable}
	default:
		return err
	}
}

// progress shows the progress of an operation: one line that it rewrites, or one line every ten seconds, also without a
// change, because some programs end a job that says nothing.
type progress struct {
	cmd     *cobra.Command
	rewrite bool
	total   int
	last    string
	// told is when it has told a line that stays.
	told time.Time
}

func (p *progress) show(o v1.Task) {
	n := o.Counts
	text := fmt.Sprintf("%d/%d ok, %d failed, %d running", n.OK, n.Targets, n.Failed, n.Pending)
	if over := n.OK + n.Failed; p.rewrite && over > 0 && n.Pending > 0 {
		left := time.Since(o.CreatedAt) * time.Duration(n.Pending) / time.Duration(over)
		text += ", about " + why.Age(left) + " left"
	}
	switch {
	case p.rewrite:
		term.Say(p.cmd, "\r\x1b[K%s: %s", o.Op, text)
	case time.Since(p.told) >= tellAgain:
		term.Say(p.cmd, "%s: %s\n", o.Op, text)
		p.told = time.Now()
	}
	p.last = text
}

// clear removes the line that progress rewrites.
func (p *progress) clear() {
	if p.rewrite && p.last != "" {
		term.Say(p.cmd, "\r\x1b[K")
	}
}

// fewResults is the number of results that are printed without -o.
const fewResults = 50

// print prints the result of each target. For many targets the summary is enough, unless the caller asked for the
// results.
func (w *Waiter) print(cmd *cobra.Command, o v1.Task, results []v1.Result) error {
	if w.Session.Form == term.AsJSON || w.Session.Form == term.AsYAML {
		return term.PrintValue(cmd.OutOrStdout(), w.Session.Form, struct {
			v1.Task
			Results []v1.Result `json:"results"`
		}{o, results})
	}
	if len(results) > fewResults && !cmd.Flags().Changed("output") {
		return nil
	}
	if w.Session.Form == term.AsTable {
		return w.rows(cmd, results)
	}
	return term.PrintList(cmd, w.Session.Output, results, resultColumns(), func(r v1.Result) string {
		return r.Namespace + "/" + r.Name
	})
}

func resultColumns() []term.Column[v1.Result] {
	return []term.Column[v1.Result]{
		{Head: "NAME", Cell: func(r v1.Result) string { return r.Namespace + "/" + r.Name }},
		{Head: "HOST", Cell: func(r v1.Result) string { return r.Host }},
		{Head: "OUTCOME", Cell: func(r v1.Result) string { return r.Outcome }, State: true},
		{Head: "MESSAGE", Cell: func(r v1.Result) string { return withoutMiddle(r.Message) }},
	}
}

// briefly returns a message for a person on one line, without the middle of a long output, which would hide the reason;
// -o json has it whole.
func briefly(message string) string {
	return withoutMiddle(words.Line(message, words.English))
}

func withoutMiddle(message string) string {
	const head, tail = 600, 300
	left := len(message) - head - tail
	if left <= 0 {
		return message
	}
	return fmt.Sprintf("%s [... %d bytes ...] %s", clip.Head(message, head), left, clip.Tail(message, tail))
}

// Summarise counts the results of an operation, groups failures with equal messages, and prints the command that
// retries them.
func (w *Waiter) Summarise(cmd *cobra.Command, o v1.Task, results []v1.Result) {
	n := o.Counts
	term.Say(cmd, "%s: %d ok%s, %d failed, %d running (%s)\n", cmp.Or(w.Called, o.Op), n.OK, already(results), n.Failed,
		n.Pending, o.ID)
	if w.Called != "" && slices.ContainsFunc(results, isAway) {
		sayFollow(cmd)
	}
	if n.Failed == 0 || len(results) == 1 {
		return
	}
	hosts := map[string][]string{}
	var messages []string // one for each kind
	kinds := map[string]string{}
	for _, r := range results {
		if !r.Failed() {
			continue
		}
		kind := alike(r)
		if _, known := kinds[kind]; !known {
			kinds[kind] = briefly(r.Message)
			messages = append(messages, briefly(r.Message))
		}
		m := kinds[kind]
		hosts[m] = append(hosts[m], r.Namespace+"/"+r.Name+" on "+r.Host)
	}
	slices.SortStableFunc(messages, func(a, b string) int { return cmp.Compare(len(hosts[b]), len(hosts[a])) })
	const shown = 3
	for i, m := range messages {
		if i == 10 {
			term.Say(cmd, "  and %d other messages\n", len(messages)-i)
			break
		}
		term.Say(cmd, "  %d failed: %s (%s)\n", len(hosts[m]), term.Printable(m), FirstOf(hosts[m], shown))
	}
	sayPage(cmd, w.Session, "tasks/"+o.ID)
	if w.Called != "" { // the targets have several operations
		return
	}
	term.Say(cmd, "retry only the failed targets: %s\n", w.Session.Again("%s --failed-of %s", o.Op, o.ID))
}

// sayPage names the page of the console with more about an operation or a rollout, if there is one for this person.
func sayPage(cmd *cobra.Command, s *remote.Session, path string) {
	if page := s.Page(path); page != "" {
		term.Say(cmd, "in the console: %s\n", page)
	}
}

// already says how many processes were already in the wanted state.
func already(results []v1.Result) string {
	n, message := 0, ""
	for _, r := range results {
		if r.Already {
			n, message = n+1, strings.TrimPrefix(r.Message, "was ") // one operation has only one such message
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d %s)", n, message)
}

// numbers are what differs in otherwise equal messages: pids, times, ports.
var numbers = regexp.MustCompile(`[0-9]+`)

// alike returns the same text for messages that differ only in their host and in numbers. Messages that name different
// processes differ.
func alike(r v1.Result) string {
	return numbers.ReplaceAllString(strings.ReplaceAll(r.Message, r.Host, "HOST"), "N")
}

// isAway reports whether the host of a result was away.
func isAway(r v1.Result) bool { return r.Outcome == "agent-unavailable" }

// sayFollow says what becomes of an apply on hosts that are away.
func sayFollow(cmd *cobra.Command) {
	term.Say(cmd, "hosts that were away follow within a minute of their return\n")
}

// Verdict is the exit code of a finished operation, as an error.
func Verdict(results []v1.Result) error {
	failed, away := 0, 0
	for _, r := range results {
		if r.Failed() {
			failed++
		}
		if isAway(r) {
			away++
		}
	}
	switch {
	case failed == 0:
		return nil
	case failed < len(results):
		return &command.ExitError{Code: command.Partial}
	case away == len(results):
		return &command.ExitError{Code: command.Unreachable}
	default:
		return &command.ExitError{Code: command.Failed}
	}
}

// rolloutVerdict is the exit code of a rollout that does not run, as an error.
func rolloutVerdict(r *v1.Rollout) error {
	n := r.Counts
	switch {
	case r.State == "done" && n.OK+n.Skipped == n.Hosts && n.OK > 0 && !meddled(r):
		return nil
	case r.State == v1.RolloutPaused || r.State == v1.RolloutHeld || n.OK > 0:
		return &command.ExitError{Code: command.Partial}
	default:
		return &command.ExitError{Code: command.Failed}
	}
}

// leftAlone returns the hosts that keep what somebody has placed there since the plan.
func leftAlone(r *v1.Rollout) (list []v1.RolloutHost) {
	for _, h := range r.Hosts {
		if h.Cause == v1.RolloutCauseChanged {
			list = append(list, h)
		}
	}
	return list
}

// meddled reports whether hosts did not get what an apply has for them, because somebody has changed or removed it
// there since the plan.
func meddled(r *v1.Rollout) bool {
	removed := func(h v1.RolloutHost) bool {
		return h.State == v1.RolloutHostSkipped && h.Cause == v1.RolloutCauseCancelled
	}
	return len(leftAlone(r)) > 0 || r.Op == v1.OpApply && slices.ContainsFunc(r.Hosts, removed)
}

// skippedLines name the hosts that a rollout has skipped, by cause. Hosts of later batches are no news after an abort,
// nor are those that were not needed.
func skippedLines(r *v1.Rollout) (lines []string) {
	if r.State != v1.RolloutDone && r.State != v1.RolloutPaused {
		return nil
	}
	hosts := map[string][]string{}
	var whys []string
	for _, h := range r.Hosts {
		if h.State != v1.RolloutHostSkipped || h.Cause == v1.RolloutCauseChanged ||
			r.OneOf && r.Counts.OK > 0 {
			continue
		}
		why := term.Printable(h.Cause) + ": " + term.Printable(briefly(h.Message))
		if hosts[why] == nil {
			whys = append(whys, why)
		}
		hosts[why] = append(hosts[why], h.Host)
	}
	for _, why := range whys {
		lines = append(lines, fmt.Sprintf("  %d skipped, %s (%s)", len(hosts[why]), why, FirstOf(hosts[why], 3)))
	}
	return lines
}

// skippedAway counts the hosts that a rollout at rest has skipped because they were away.
func skippedAway(r *v1.Rollout) (n int) {
	if r.State != v1.RolloutDone && r.State != v1.RolloutPaused {
		return 0
	}
	for _, h := range r.Hosts {
		if h.State == v1.RolloutHostSkipped && h.Cause == v1.RolloutCauseAway {
			n++
		}
	}
	return n
}
