package processes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/why"
	"drover/internal/wildcard"
	"drover/internal/words"
)

// NewEvents returns 'drover events'.
func NewEvents() *cobra.Command {
	var s remote.Session
	var f client.EventFilter
	var hosts remote.Hosts
	var when term.TimeRange
	var follow bool
	cmd := &cobra.Command{
		Use:   "events [NAMESPACE/NAME]",
		Short: "List the events of processes, or follow them",
		Long: `List the events of processes, newest first: time, host, event, cause and caller. The
time is that of the host's clock.

--follow lists recent events, oldest first, and then each event as it arrives. If the server is unreachable, drover
reconnects and leaves out no event. Ctrl-C or --timeout ends the command. With -o json each event is
one line.`,
		Example: `  drover events --since 1h
  drover events 'web/*' --kind exited,given-up
  drover events -f --hosts 0:10.2.0.7
  drover events -f -o json`,
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := eventFilter(&f, args, when); err != nil {
				return err
			}
			if follow && !cmd.Flags().Changed("timeout") {
				s.Timeout = 0
			}
			c, err := hosts.ConnectPast(cmd, &s)
			if err != nil {
				return err
			}
			f.Hosts, f.Selector = hosts.Names, hosts.Selector
			if follow {
				if err := hosts.Unmatched(cmd.Context(), c); err != nil {
					return err
				}
				return followEvents(cmd, s.Output, c, f)
			}
			rows, err := client.Collect(c.Events(cmd.Context(), f))
			if err != nil {
				return remote.ExitOf(err)
			}
			if len(rows) == 0 {
				if err := neverThere(cmd.Context(), c, args, &hosts); err != nil {
					return err
				}
			}
			if len(rows) == 0 && s.Form == term.AsTable {
				term.Say(cmd, "no events\n")
			}
			return s.UnlessOld(command.Failed, term.PrintList(cmd, s.Output, rows, eventColumns(), eventSubject))
		},
		ValidArgsFunction: remote.First(completeProcesses(&s)),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "follow new events as they arrive")
	hosts.QueryFlags(cmd, &s, "only on these hosts")
	flags.StringSliceVar(&f.Kinds, "kind", nil, "only events of these kinds, such as exited or given-up")
	when.Flags(cmd)
	flags.IntVar(&f.Limit, "limit", 50, "list at most this number of past events; 0 lists all, or none with --follow")
	term.Complete(cmd, "kind", eventKinds()...)
	s.ListFlags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		faults := []error{limited(f.Limit)}
		for _, k := range f.Kinds {
			faults = append(faults, term.OneOf("--kind", k, eventKinds()...))
		}
		if follow && when.Until != "" {
			faults = append(faults, term.Usagef("--until and --follow exclude each other"))
		}
		if follow && !slices.Contains([]string{term.AsTable, term.AsWide, term.AsJSON}, s.Form) {
			faults = append(faults, term.Usagef("-o %s and --follow exclude each other: use -o json", s.Form))
		}
		return errors.Join(faults...)
	})
	return cmd
}

// limited rejects a --limit below 0.
func limited(limit int) error {
	if limit < 0 {
		return term.Usagef("--limit %d: expected 0 or more", limit)
	}
	return nil
}

// NewHistory returns 'drover history'.
func NewHistory() *cobra.Command {
	var s remote.Session
	var f client.EventFilter
	var hosts remote.Hosts
	var when term.TimeRange
	cmd := &cobra.Command{
		Use:   "history [NAMESPACE/NAME...]",
		Short: "Show the timeline of processes, oldest first",
		Long: `Show who and what started, stopped, changed and ended processes, oldest first: the events of
drover events. Without --from these are the last 50.`,
		Example: `  drover history shop/api
  drover history shop/api shop/web -l zone=b --from 10:00 --to 10:15
  drover history 'shop/*' --from 24h --to 1h`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := term.SplitIDs(args); err != nil {
				return err
			}
			if f.Since, f.Until, err = when.Times(); err != nil {
				return err
			}
			if !cmd.Flags().Changed("limit") && !f.Since.IsZero() {
				f.Limit = 0
			}
			c, err := hosts.ConnectPast(cmd, &s)
			if err != nil {
				return err
			}
			f.Hosts, f.Selector = hosts.Names, hosts.Selector
			rows, err := historyOf(cmd.Context(), c, f, args)
			if err != nil {
				return remote.ExitOf(err)
			}
			if missing := without(args, rows); len(missing) > 0 || len(rows) == 0 {
				if err := neverThere(cmd.Context(), c, missing, &hosts); err != nil {
					return err
				}
			}
			if len(rows) == 0 && s.Form == term.AsTable {
				term.Say(cmd, "no events\n")
			}
			return s.UnlessOld(command.Failed, term.PrintList(cmd, s.Output, rows, eventColumns(), eventSubject))
		},
		ValidArgsFunction: completeProcesses(&s),
	}
	flags := cmd.Flags()
	hosts.QueryFlags(cmd, &s, "only on these hosts")
	flags.IntVar(&f.Limit, "limit", 50, "show at most this number of events, the latest ones; 0 shows all")
	when.FlagsOfHistory(cmd)
	s.ListFlags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error { return limited(f.Limit) })
	return cmd
}

// without returns the arguments that name none of the events.
func without(args []string, rows []client.Event) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return slices.ContainsFunc(rows, func(e client.Event) bool { return wildcard.Match(arg, eventSubject(e)) })
	})
}

// neverThere returns an error about processes or hosts that are unknown, and of which no event is kept either.
// Commands about the past call it for what they have not found.
func neverThere(ctx context.Context, c *client.Client, args []string, hosts *remote.Hosts) error {
	if hosts.Any() && len(args) == 0 {
		return nil
	}
	past := client.EventFilter{Hosts: hosts.Names, Selector: hosts.Selector, Limit: 1}
	if len(args) == 0 {
		if found, err := client.Collect(c.Events(ctx, past)); err != nil || len(found) > 0 {
			return nil //nolint:nilerr // the answer only improves a message
		}
		return hosts.Unmatched(ctx, c)
	}
	var missing []string
	for _, arg := range args {
		namespace, name, _ := strings.Cut(arg, "/")
		past.Namespaces, past.Name = []string{namespace}, name
		present := client.ProcessFilter{
			Namespace: namespace, Name: name, Hosts: hosts.Names, Selector: hosts.Selector, Limit: 1,
		}
		if found, err := client.Collect(c.Processes(ctx, present)); err != nil || len(found) > 0 {
			continue
		}
		if found, err := client.Collect(c.Events(ctx, past)); err != nil || len(found) > 0 {
			continue
		}
		missing = append(missing, arg)
	}
	if len(missing) == 0 {
		return nil
	}
	return cmp.Or(hosts.Unmatched(ctx, c), remote.NoProcess(ctx, c, missing, hosts.Where(), hosts.Names))
}

// historyOf returns the latest events of the named processes, each once, oldest first.
func historyOf(ctx context.Context, c *client.Client, f client.EventFilter, args []string) ([]client.Event, error) {
	if len(args) == 0 {
		args = []string{""}
	}
	var all []client.Event
	for _, arg := range args {
		if arg != "" {
			namespace, name, _ := strings.Cut(arg, "/")
			f.Namespaces, f.Name = []string{namespace}, name
		}
		rows, err := client.Collect(c.Events(ctx, f))
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	slices.SortStableFunc(all, func(a, b client.Event) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Cursor, b.Cursor))
	})
	all = slices.CompactFunc(all, func(a, b client.Event) bool { return a.Cursor == b.Cursor })
	if f.Limit > 0 {
		all = all[max(0, len(all)-f.Limit):]
	}
	return all, nil
}

// eventKinds are the words for the kinds of events.
func eventKinds() []string {
	var words []string
	for _, kind := range process.EventKinds() {
		words = append(words, string(kind))
	}
	return words
}

// eventFilter adds the values of arguments and flags to a filter.
func eventFilter(f *client.EventFilter, args []string, when term.TimeRange) (err error) {
	if len(args) > 0 {
		namespace, name, err := term.SplitID(args[0])
		if err != nil {
			return err
		}
		f.Namespaces, f.Name = []string{namespace}, name
	}
	f.Since, f.Until, err = when.Times()
	return err
}

// followEvents prints events as they arrive, until the command is interrupted.
func followEvents(cmd *cobra.Command, o term.Output, c *client.Client, f client.EventFilter) error {
	rows := term.NewLiveTable(cmd, o, eventColumns(), 23, 16, 20, 15, 19, 12)
	connected, lost := false, false
	for e, err := range c.FollowEvents(cmd.Context(), f) {
		_, away := errors.AsType[*client.UnreachableError](err)
		switch {
		case errors.Is(cmd.Context().Err(), context.Canceled):
			return nil
		case cmd.Context().Err() != nil && connected:
			return &command.ExitError{Code: command.Unreachable}
		case away && connected:
			if !lost {
				term.Say(cmd, "%v; trying again\n", err)
			}
			lost = true
			continue
		case err != nil:
			return remote.ExitOf(err)
		}
		connected, lost = true, false
		if err := rows.Print(e); err != nil {
			return err
		}
	}
	return nil
}

// eventSubject is the process of an event.
func eventSubject(e client.Event) string {
	if e.Namespace+e.Name == "" {
		return ""
	}
	return e.Namespace + "/" + e.Name
}

func eventColumns() []term.Column[client.Event] {
	return []term.Column[client.Event]{
		{Head: "TIME", Cell: func(e client.Event) string { return term.Stamp(&e.At) }},
		{Head: "HOST", Cell: func(e client.Event) string { return e.Host.ID }},
		{Head: "PROCESS", Cell: eventSubject},
		{
			Head: "EVENT", Cell: func(e client.Event) string { return e.Kind },
			Words: func(id string, l words.Lang) string { return words.Kind(id).In(l) },
		},
		{Head: "STATE", Cell: eventStates, Words: statesInWords},
		{Head: "BY", Cell: eventActor},
		{Head: "CAUSE", Cell: func(e client.Event) string { return eventCause(e) }},
		{Head: "PID", Wide: true, Cell: func(e client.Event) string { return number(e.PID) }},
		{Head: "EXIT", Wide: true, Cell: eventExit},
		{Head: "RAN", Wide: true, Cell: eventRan},
		{Head: "ATTEMPT", Wide: true, Cell: func(e client.Event) string { return number(e.Attempt) }},
		{Head: "OUTPUT", Wide: true, Cell: func(e client.Event) string { return strings.TrimSpace(e.Output) }},
	}
}

func eventStates(e client.Event) string {
	if to := words.EventState(e.Kind, e.To); e.From == e.To || e.From == "" {
		return to
	}
	return e.From + " → " + e.To
}

// statesInWords is what eventStates returns, in words.
func statesInWords(states string, l words.Lang) string {
	list := strings.Split(states, " → ")
	for i, id := range list {
		list[i] = words.State(id).In(l)
	}
	return strings.Join(list, " → ")
}

func eventCause(e client.Event) string {
	if e.Kind == string(process.EventUpdated) && e.Revision != 0 {
		text := "revision " + strconv.FormatInt(e.Revision, 10)
		if len(e.Fields) > 0 {
			text += ": " + strings.Join(e.Fields, ", ")
		}
		return text
	}
	if e.Cause == nil {
		return ""
	}
	if e.Cause.Text == "" {
		return e.Cause.ID
	}
	return e.Cause.Text
}

// eventActor is the actor of an event; for a caller its user and its app.
func eventActor(e client.Event) string {
	if e.Actor.App+e.Actor.User == "" {
		return e.Actor.Kind
	}
	return term.Doer(e.Actor.App, e.Actor.User, e.Actor.Reason)
}

// eventExit describes how a process ended.
func eventExit(e client.Event) string {
	switch x := e.Exit; {
	case x == nil:
		return ""
	case x.OOM:
		return "out of memory"
	case x.Signal != 0:
		return fmt.Sprintf("signal %d", x.Signal)
	case !x.Known:
		return "unknown"
	default:
		return fmt.Sprintf("status %d", x.Code)
	}
}

func eventRan(e client.Event) string {
	if e.RunSeconds == 0 {
		return ""
	}
	return why.RunTime(time.Duration(e.RunSeconds * float64(time.Second)))
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// NewChanges returns 'drover changes'.
func NewChanges() *cobra.Command {
	var s remote.Session
	var f client.ChangesFilter
	var hosts remote.Hosts
	var from, to string
	cmd := &cobra.Command{
		Use:   "changes [NAMESPACE/NAME...] --from TIME",
		Short: "Show what differs between two moments",
		Long: `Show what differs between two moments: the states of processes, grouped by cause, and what happened
in between: revisions, rollouts, operations, and hosts that joined, went away, came back or got another
agent. The groups that need attention come first.

A process with the same state at both moments counts as changed if it was started again in between. The
moments are by the clock of each host. An operation is shown by its first process, and you see the
operations that 'drover task list' shows you.`,
		Example: `  drover changes --from 10:00 --to 10:05
  drover changes 'shop/*' -l zone=b --from 15m
  drover changes --from 2026-11-20T10:00:00Z --to 2026-11-20T10:05:00Z -o json`,
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
		ValidArgsFunction: completeProcesses(&s),
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
func showChanges(cmd *cobra.Command, o term.Output, c *client.Changes) error {
	w := cmd.OutOrStdout()
	_, err := fmt.Fprintln(w, words.Message(fmt.Sprintf("%s changed from %s to %s",
		process.Count(c.Changed, "process", "processes"), term.Stamp(&c.From), term.Stamp(&c.Past.At)), o.Lang(w)))
	out := changesPrinter{w: w, o: o, err: err}
	section(&out, "", c.Groups, []term.Column[client.ChangeGroup]{
		{Head: "COUNT", Cell: func(g client.ChangeGroup) string { return strconv.Itoa(g.Count) }},
		{Head: "HOSTS", Cell: func(g client.ChangeGroup) string { return strconv.Itoa(g.Hosts) }},
		{Head: "CHANGE", Cell: func(g client.ChangeGroup) string { return changeText(g.From, g.To) }},
		{Head: "CAUSE", Cell: func(g client.ChangeGroup) string { return g.Cause }},
	})
	section(&out, "Revisions:", c.Revisions, []term.Column[client.NamespaceRevision]{
		{Head: "TIME", Cell: func(r client.NamespaceRevision) string { return term.Stamp(&r.At) }},
		{Head: "REVISION", Cell: func(r client.NamespaceRevision) string {
			return r.Namespace + " " + strconv.FormatInt(r.Number, 10)
		}},
		{Head: "BY", Cell: func(r client.NamespaceRevision) string { return term.Caller(r.App, r.User) }},
		{Head: "MESSAGE", Cell: func(r client.NamespaceRevision) string { return r.Message }},
		{Head: "PROCESSES", Cell: func(r client.NamespaceRevision) string { return revisedProcesses(r.Revision) }},
	})
	section(&out, "Rollouts:", c.Rollouts, []term.Column[client.Rollout]{
		{Head: "TIME", Cell: func(r client.Rollout) string { return term.Stamp(&r.CreatedAt) }},
		{Head: "ROLLOUT", Cell: func(r client.Rollout) string { return r.ID }},
		{Head: "OP", Cell: func(r client.Rollout) string {
			if r.Undoes != "" {
				return "undo"
			}
			return r.Op
		}},
		{Head: "PROCESSES", Cell: func(r client.Rollout) string { return strings.Join(r.Processes, " ") }},
		{Head: "BY", Cell: func(r client.Rollout) string { return term.Caller(r.App, r.User) }},
		{Head: "STATE", State: true, Cell: func(r client.Rollout) string { return r.State }},
	})
	section(&out, "Operations:", c.Operations, []term.Column[client.Operation]{
		{Head: "TIME", Cell: func(t client.Operation) string { return term.Stamp(&t.CreatedAt) }},
		{Head: "TASK", Cell: func(t client.Operation) string { return t.ID }},
		{Head: "OP", Cell: func(t client.Operation) string { return t.Op }},
		{Head: "PROCESS", Cell: func(t client.Operation) string { return t.Subject }},
		{Head: "BY", Cell: func(t client.Operation) string { return term.Caller(t.App, t.User) }},
		{Head: "TARGETS", Cell: func(t client.Operation) string { return strconv.Itoa(t.Counts.Targets) }},
		{Head: "FAILED", Cell: func(t client.Operation) string { return number(t.Counts.Failed) }},
	})
	section(&out, "Hosts:", c.Hosts, []term.Column[client.HostChange]{
		{Head: "TIME", Cell: func(h client.HostChange) string { return term.Stamp(&h.At) }},
		{Head: "HOST", Cell: func(h client.HostChange) string { return h.Host.ID }},
		{Head: "CHANGE", Cell: func(h client.HostChange) string { return h.Kind }},
		{Head: "DETAILS", Cell: func(h client.HostChange) string { return h.Text }},
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

func changedColumns() []term.Column[client.ProcessChange] {
	return []term.Column[client.ProcessChange]{
		{Head: "NAME", Cell: func(p client.ProcessChange) string { return p.Namespace + "/" + p.Name }},
		{Head: "HOST", Cell: func(p client.ProcessChange) string { return p.Host.ID }},
		{Head: "CHANGE", Cell: func(p client.ProcessChange) string { return changeText(p.From, p.To) }},
		{Head: "SINCE", Cell: func(p client.ProcessChange) string { return term.Stamp(p.At) }},
		{Head: "PID", Cell: func(p client.ProcessChange) string { return pair(number(p.FromPID), number(p.ToPID)) }},
		{Head: "VERSION", Cell: func(p client.ProcessChange) string { return pair(p.FromVersion, p.ToVersion) }},
		{Head: "WHY", Cell: func(p client.ProcessChange) string {
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
func sayChanges(cmd *cobra.Command, c *client.Changes) {
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
	if text := clockText(c.Past); text != "" {
		term.Say(cmd, "times are by the clock of each host%s\n", text)
	}
}
