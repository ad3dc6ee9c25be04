// Package events has the commands about what has happened: events, history and changes.
package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
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
		Use:  "events [NAMESPACE/NAME]",
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
		ValidArgsFunction: remote.First(selection.CompleteProcesses(&s)),
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
		faults := []error{Limited(f.Limit)}
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

// Limited rejects a --limit below 0.
func Limited(limit int) error {
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
		Use: "history [NAMESPACE/NAME...]",
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
		ValidArgsFunction: selection.CompleteProcesses(&s),
	}
	flags := cmd.Flags()
	hosts.QueryFlags(cmd, &s, "only on these hosts")
	flags.IntVar(&f.Limit, "limit", 50, "show at most this number of events, the latest ones; 0 shows all")
	when.FlagsOfHistory(cmd)
	s.ListFlags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error { return Limited(f.Limit) })
	return cmd
}

// without returns the arguments that name none of the events.
func without(args []string, rows []v1.Event) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return slices.ContainsFunc(rows, func(e v1.Event) bool { return wildcard.Match(arg, eventSubject(e)) })
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
func historyOf(ctx context.Context, c *client.Client, f client.EventFilter, args []string) ([]v1.Event, error) {
	if len(args) == 0 {
		args = []string{""}
	}
	var all []v1.Event
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
	slices.SortStableFunc(all, func(a, b v1.Event) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Cursor, b.Cursor))
	})
	all = slices.CompactFunc(all, func(a, b v1.Event) bool { return a.Cursor == b.Cursor })
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
func eventSubject(e v1.Event) string {
	if e.Namespace+e.Name == "" {
		return ""
	}
	return e.Namespace + "/" + e.Name
}

func eventColumns() []term.Column[v1.Event] {
	return []term.Column[v1.Event]{
		{Head: "TIME", Cell: func(e v1.Event) string { return term.Stamp(&e.At) }},
		{Head: "HOST", Cell: func(e v1.Event) string { return e.Host.ID }},
		{Head: "PROCESS", Cell: eventSubject},
		{
			Head: "EVENT", Cell: func(e v1.Event) string { return e.Kind },
			Words: func(id string, l words.Lang) string { return words.Kind(id).In(l) },
		},
		{Head: "STATE", Cell: EventStates, Words: statesInWords},
		{Head: "BY", Cell: EventActor},
		{Head: "CAUSE", Cell: func(e v1.Event) string { return EventCause(e) }},
		{Head: "PID", Wide: true, Cell: func(e v1.Event) string { return Number(e.PID) }},
		{Head: "EXIT", Wide: true, Cell: eventExit},
		{Head: "RAN", Wide: true, Cell: eventRan},
		{Head: "ATTEMPT", Wide: true, Cell: func(e v1.Event) string { return Number(e.Attempt) }},
		{Head: "OUTPUT", Wide: true, Cell: func(e v1.Event) string { return strings.TrimSpace(e.Output) }},
	}
}

// EventStates returns the states before and after an event, in words.
func EventStates(e v1.Event) string {
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

// EventCause returns the cause of an event in one line.
func EventCause(e v1.Event) string {
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

// EventActor is the actor of an event; for a caller its user and its app.
func EventActor(e v1.Event) string {
	if e.Actor.App+e.Actor.User == "" {
		return e.Actor.Kind
	}
	return term.Doer(e.Actor.App, e.Actor.User, e.Actor.Reason)
}

// eventExit describes how a process ended.
func eventExit(e v1.Event) string {
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

func eventRan(e v1.Event) string {
	if e.RunSeconds == 0 {
		return ""
	}
	return why.RunTime(time.Duration(e.RunSeconds * float64(time.Second)))
}

// Number returns a number for a table; empty for 0.
func Number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// ClockText says how far the clocks of hosts differ from that of the server; empty below a second.
func ClockText(past v1.Past) string {
	if past.ClockSeconds == 0 {
		return ""
	}
	return "; one differs from the clock of the server by " + strconv.FormatFloat(past.ClockSeconds, 'f', 1, 64) + " s"
}

// Mark returns the sign of an action in a plan.
func Mark(action string) string {
	return map[string]string{
		v1.ActionCreate: "+", v1.ActionChange: "~", v1.ActionRemove: "-", v1.ActionNone: "=", v1.ActionKept: "!",
	}[action]
}

// RevisedProcesses names the processes of a revision and their changed fields.
func RevisedProcesses(r v1.Revision) string {
	var parts []string
	for _, c := range r.Changes {
		text := Mark(c.Action) + " " + c.Process + " on " + process.Count(c.Hosts, "host", "hosts")
		var fields []string
		for _, f := range c.Fields {
			fields = append(fields, f.Path)
		}
		if fields != nil {
			text += ": " + strings.Join(fields, ", ")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
