package events

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/words"
)

// NewChanges returns 'drover changes'.
func NewChanges() *cobra.Command {
	var s remote.Session
	var f client.ChangesFilter
	var hosts remote.Hosts
	var from, to string
	cmd := &cobra.Command{
		Use: "changes [NAMESPACE/NAME...] --from TIME",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.From, f.To, err = term.Span("from", from, "to", to); err != nil {
				return err
			}
			if err := term.SplitIDs(args); err != nil {
				return err
			}
			c, err := hosts.ConnectPast(cmd, &s)
			if err != nil {
				return err
			}
			f.Processes, f.Hosts, f.Selector = args, hosts.Names, hosts.Selector
			found, err := c.Changes(cmd.Context(), f)
			if err != nil {
				return remote.ExitOf(err)
			}
			if found.Changed == 0 && (len(args) > 0 || len(found.Hosts) == 0) {
				if err := neverThere(cmd.Context(), c, args, &hosts); err != nil {
					return err
				}
			}
			if s.Form != term.AsTable {
				return term.PrintValue(cmd.OutOrStdout(), s.Form, found)
			}
			return showChanges(cmd, s.Output, &found)
		},
		ValidArgsFunction: selection.CompleteProcesses(&s),
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "the first moment: RFC 3339, 10:00 or an age such as 15m")
	flags.StringVar(&to, "to", "", "the second moment; now if it is not given")
	flags.IntVar(&f.Limit, "limit", 15, "show at most this number of rows of each list, from 1 to 1000")
	hosts.QueryFlags(cmd, &s, "only on these hosts")
	s.Flags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		_, _, err := term.Span("from", from, "to", to)
		faults := []error{err}
		if !flags.Changed("from") {
			faults = append(faults, term.Usagef("--from is missing: expected a time such as 10:00, or an age such as 15m"))
		}
		if f.Limit < 1 || f.Limit > 1000 {
			faults = append(faults, term.Usagef("--limit %d: expected 1 to 1000", f.Limit))
		}
		return errors.Join(faults...)
	})
	return cmd
}

// showChanges prints changes for a person: the counts first, then rows.
func showChanges(cmd *cobra.Command, o term.Output, c *v1.Changes) error {
	w := cmd.OutOrStdout()
	_, err := fmt.Fprintln(w, words.Message(fmt.Sprintf("%s changed from %s to %s",
		process.Count(c.Changed, "process", "processes"), term.Stamp(&c.From), term.Stamp(&c.Past.At)), o.Lang(w)))
	out := changesPrinter{w: w, o: o, err: err}
	section(&out, "", c.Groups, []term.Column[v1.ChangeGroup]{
		{Head: "COUNT", Cell: func(g v1.ChangeGroup) string { return strconv.Itoa(g.Count) }},
		{Head: "HOSTS", Cell: func(g v1.ChangeGroup) string { return strconv.Itoa(g.Hosts) }},
		{Head: "CHANGE", Cell: func(g v1.ChangeGroup) string { return changeText(g.From, g.To) }},
		{Head: "CAUSE", Cell: func(g v1.ChangeGroup) string { return g.Cause }},
	})
	section(&out, "Revisions:", c.Revisions, []term.Column[v1.NamespaceRevision]{
		{Head: "TIME", Cell: func(r v1.NamespaceRevision) string { return term.Stamp(&r.At) }},
		{Head: "REVISION", Cell: func(r v1.NamespaceRevision) string {
			return r.Namespace + " " + strconv.FormatInt(r.Number, 10)
		}},
		{Head: "BY", Cell: func(r v1.NamespaceRevision) string { return term.Caller(r.App, r.User) }},
		{Head: "MESSAGE", Cell: func(r v1.NamespaceRevision) string { return r.Message }},
		{Head: "PROCESSES", Cell: func(r v1.NamespaceRevision) string { return RevisedProcesses(r.Revision) }},
	})
	section(&out, "Rollouts:", c.Rollouts, []term.Column[v1.Rollout]{
		{Head: "TIME", Cell: func(r v1.Rollout) string { return term.Stamp(&r.CreatedAt) }},
		{Head: "ROLLOUT", Cell: func(r v1.Rollout) string { return r.ID }},
		{Head: "OP", Cell: func(r v1.Rollout) string {
			if r.Undoes != "" {
				return "undo"
			}
			return r.Op
		}},
		{Head: "PROCESSES", Cell: func(r v1.Rollout) string { return strings.Join(r.Processes, " ") }},
		{Head: "BY", Cell: func(r v1.Rollout) string { return term.Caller(r.App, r.User) }},
		{Head: "STATE", State: true, Cell: func(r v1.Rollout) string { return r.State }},
	})
	section(&out, "Operations:", c.Operations, []term.Column[v1.Task]{
		{Head: "TIME", Cell: func(t v1.Task) string { return term.Stamp(&t.CreatedAt) }},
		{Head: "TASK", Cell: func(t v1.Task) string { return t.ID }},
		{Head: "OP", Cell: func(t v1.Task) string { return t.Op }},
		{Head: "PROCESS", Cell: func(t v1.Task) string { return t.Subject }},
		{Head: "BY", Cell: func(t v1.Task) string { return term.Caller(t.App, t.User) }},
		{Head: "TARGETS", Cell: func(t v1.Task) string { return strconv.Itoa(t.Counts.Targets) }},
		{Head: "FAILED", Cell: func(t v1.Task) string { return Number(t.Counts.Failed) }},
	})
	section(&out, "Hosts:", c.Hosts, []term.Column[v1.HostChange]{
		{Head: "TIME", Cell: func(h v1.HostChange) string { return term.Stamp(&h.At) }},
		{Head: "HOST", Cell: func(h v1.HostChange) string { return h.Host.ID }},
		{Head: "CHANGE", Cell: func(h v1.HostChange) string { return h.Kind }},
		{Head: "DETAILS", Cell: func(h v1.HostChange) string { return h.Text }},
	})
	section(&out, "Processes:", c.Processes, changedColumns())
	sayChanges(cmd, c)
	return out.err
}

// changesPrinter writes the sections of changes; err is the first failure.
type changesPrinter struct {
	w   io.Writer
	o   term.Output
	err error
}

// section prints a list below its title, unless the list is empty.
func section[T any](out *changesPrinter, title string, rows []T, columns []term.Column[T]) {
	if len(rows) == 0 || out.err != nil {
		return
	}
	if title != "" {
		_, out.err = fmt.Fprintf(out.w, "\n%s\n", title)
	}
	t := term.TableOf(out.o, out.w, columns)
	if !out.o.NoHeaders {
		t.Add(t.Heads()...)
	}
	for _, row := range rows {
		t.Add(term.Cells(columns, false, row)...)
	}
	if out.err == nil {
		out.err = t.Write(out.w)
	}
}

// changeText is a change of state in words.
func changeText(from, to string) string {
	switch {
	case from == "":
		return "new, " + to
	case to == "":
		return from + ", removed"
	case from == to:
		return to + ", and changed in between"
	}
	return from + " → " + to
}

func changedColumns() []term.Column[v1.ProcessChange] {
	return []term.Column[v1.ProcessChange]{
		{Head: "NAME", Cell: func(p v1.ProcessChange) string { return p.Namespace + "/" + p.Name }},
		{Head: "HOST", Cell: func(p v1.ProcessChange) string { return p.Host.ID }},
		{Head: "CHANGE", Cell: func(p v1.ProcessChange) string { return changeText(p.From, p.To) }},
		{Head: "SINCE", Cell: func(p v1.ProcessChange) string { return term.Stamp(p.At) }},
		{Head: "PID", Cell: func(p v1.ProcessChange) string { return pair(Number(p.FromPID), Number(p.ToPID)) }},
		{Head: "VERSION", Cell: func(p v1.ProcessChange) string { return pair(p.FromVersion, p.ToVersion) }},
		{Head: "WHY", Cell: func(p v1.ProcessChange) string {
			switch {
			case p.Unknown != nil:
				return p.Unknown.Text
			case p.Cause != nil && p.Cause.Text != "":
				return p.Cause.Text
			case p.Cause != nil:
				return p.Cause.ID
			}
			return ""
		}},
	}
}

// pair shows two values; one of them if they are equal.
func pair(from, to string) string {
	if from == to {
		return to
	}
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	return dash(from) + " → " + dash(to)
}

// sayChanges says how far the answer is certain and complete.
func sayChanges(cmd *cobra.Command, c *v1.Changes) {
	if c.Unknown > 0 {
		term.Say(cmd, "not known at one of the moments: %s\n", process.Count(c.Unknown, "process", "processes"))
	}
	if len(c.Incomplete) > 0 {
		term.Say(cmd, "not all %s are shown: use --limit, -o json or a filter\n", strings.Join(c.Incomplete, ", "))
	}
	if c.Past.KeptSince != nil && c.From.Before(*c.Past.KeptSince) {
		term.Say(cmd, "the server keeps records since %s\n", term.Stamp(c.Past.KeptSince))
	}
	if since := &c.OperationsKeptSince; c.From.Before(*since) {
		term.Say(cmd, "the server keeps operations and rollouts since %s\n", term.Stamp(since))
	}
	if text := ClockText(c.Past); text != "" {
		term.Say(cmd, "times are by the clock of each host%s\n", text)
	}
}
