package processes

import (
	"context"
	"errors"
	"fmt"
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
			c, err := hosts.Connect(cmd, &s)
			if err != nil {
				return err
			}
			f.Hosts, f.Selector = hosts.Names, hosts.Selector
			if follow {
				return followEvents(cmd, s.Output, c, f)
			}
			rows, err := client.Collect(c.Events(cmd.Context(), f))
			if err != nil {
				return remote.ExitOf(err)
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
	flags.IntVar(&f.Limit, "limit", 50, "most past events to list; 0 lists all, or none with --follow")
	term.Complete(cmd, "kind", eventKinds()...)
	s.Flags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		for _, k := range f.Kinds {
			if !slices.Contains(eventKinds(), k) {
				return term.Usagef("--kind %q: expected %s", k, term.OrList(eventKinds()))
			}
		}
		switch {
		case f.Limit < 0:
			return term.Usagef("--limit %d: expected 0 or more", f.Limit)
		case follow && when.Until != "":
			return term.Usagef("--until and --follow exclude each other")
		case follow && s.Form == term.AsYAML:
			return term.Usagef("-o yaml and --follow exclude each other: use -o json")
		}
		return nil
	})
	return cmd
}

// NewHistory returns 'drover history'.
func NewHistory() *cobra.Command {
	var s remote.Session
	var f client.EventFilter
	var hosts remote.Hosts
	var when term.TimeRange
	cmd := &cobra.Command{
		Use:   "history [NAMESPACE/NAME]",
		Short: "Show the timeline of processes, oldest first",
		Long: `Show who and what started, stopped, changed and ended processes, oldest first: the events of
drover events. Without --from these are the last 50.`,
		Example: `  drover history shop/api
  drover history 'shop/*' --from 24h --to 1h`,
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := eventFilter(&f, args, when); err != nil {
				return err
			}
			if !cmd.Flags().Changed("limit") && !f.Since.IsZero() {
				f.Limit = 0
			}
			c, err := hosts.Connect(cmd, &s)
			if err != nil {
				return err
			}
			f.Hosts, f.Selector = hosts.Names, hosts.Selector
			rows, err := client.Collect(c.Events(cmd.Context(), f))
			if err != nil {
				return remote.ExitOf(err)
			}
			slices.Reverse(rows)
			if len(rows) == 0 && s.Form == term.AsTable {
				term.Say(cmd, "no events\n")
			}
			return s.UnlessOld(command.Failed, term.PrintList(cmd, s.Output, rows, eventColumns(), eventSubject))
		},
		ValidArgsFunction: remote.First(completeProcesses(&s)),
	}
	flags := cmd.Flags()
	hosts.QueryFlags(cmd, &s, "only on these hosts")
	flags.IntVar(&f.Limit, "limit", 50, "most events, the latest ones; 0 shows all")
	when.FlagsOfHistory(cmd)
	s.Flags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if f.Limit < 0 {
			return term.Usagef("--limit %d: expected 0 or more", f.Limit)
		}
		return nil
	})
	return cmd
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
		namespace, name, err := splitID(args[0])
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
		{Head: "EVENT", Cell: func(e client.Event) string { return e.Kind }},
		{Head: "STATE", Cell: eventStates},
		{Head: "BY", Cell: eventActor},
		{Head: "CAUSE", Cell: eventCause},
		{Head: "PID", Wide: true, Cell: func(e client.Event) string { return number(e.PID) }},
		{Head: "EXIT", Wide: true, Cell: eventExit},
		{Head: "RAN", Wide: true, Cell: eventRan},
		{Head: "ATTEMPT", Wide: true, Cell: func(e client.Event) string { return number(e.Attempt) }},
		{Head: "OUTPUT", Wide: true, Cell: func(e client.Event) string { return strings.TrimSpace(e.Output) }},
	}
}

func eventStates(e client.Event) string {
	if e.From == e.To || e.From == "" {
		return e.To
	}
	return e.From + " → " + e.To
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
	return term.Caller(e.Actor.App, e.Actor.User)
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
	return why.Age(time.Duration(e.RunSeconds * float64(time.Second)))
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
