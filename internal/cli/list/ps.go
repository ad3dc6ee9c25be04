// Package list has the commands that show processes: ps, status, is-active, is-failed and wait.
package list

import (
	"cmp"
	"errors"
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
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/why"
)

// NewPs returns 'drover ps'.
func NewPs() *cobra.Command {
	var s remote.Session
	var f client.ProcessFilter
	var sel selection.Selection
	var count bool
	var when string
	cmd := &cobra.Command{
		Use:     "ps [NAMESPACE/NAME...]",
		Aliases: []string{"list"},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			at, err := term.Moment("--at", when)
			if err != nil {
				return err
			}
			if !at.IsZero() {
				return psAt(cmd, &s, c, at, f, &sel, args, count)
			}
			if count {
				return s.UnlessOld(command.Failed, printCounts(cmd, s.Output, c, f, &sel, args))
			}
			rows, err := listProcesses(cmd, c, f, &sel, args)
			if err != nil && len(args) > 0 && len(rows) == 0 && !s.Structured() {
				err = begun(cmd, c, args, &sel, err)
				if exit, ok := errors.AsType[*command.ExitError](err); ok && exit.Code == command.NotRunning {
					return nil
				}
			}
			if err != nil && len(rows) == 0 {
				return err
			}
			lacking := err
			underWay(cmd.Context(), c, rows)
			if err := term.PrintList(cmd, s.Output, rows, processColumns(), func(p v1.Process) string {
				return p.Namespace + "/" + p.Name
			}); err != nil || lacking != nil {
				return cmp.Or(err, lacking)
			}
			if len(rows) > 0 {
				return s.UnlessOld(command.Failed, nil)
			}
			return noProcesses(cmd, c, &sel, len(args) > 0 || f.Namespace+f.Name+f.Search != "")
		},
		ValidArgsFunction: selection.CompleteProcesses(&s),
	}
	cmd.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "only processes of this namespace, or of a pattern")
	cmd.Flags().StringVar(&f.Name, "name", "", "only processes of this name, or of a pattern")
	cmd.Flags().StringVar(&f.Search, "search", "", "only processes with this text in their name or their host, in any case")
	sel.ProcessFlags(cmd, &s)
	sel.FailedFlag(cmd)
	cmd.Flags().BoolVar(&count, "count", false,
		"show only the number of processes in each state; processes of hosts that are away count as stale")
	cmd.Flags().StringVar(&when, "at", "",
		"the processes as they were at this time: RFC 3339, 10:00 or an age such as 15m")
	s.ListFlags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML, term.AsName)
	remote.Watch(&s, cmd)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) error {
		return checkPs(cmd, when, count, &f, &sel, args)
	})
	return cmd
}

// checkPs tells a wrong time, and which flags and arguments of ps do not go together.
func checkPs(cmd *cobra.Command, when string, count bool, f *client.ProcessFilter, sel *selection.Selection,
	args []string,
) error {
	_, err := term.Moment("--at", when)
	faults := []error{err}
	var refused []string
	for _, flag := range []string{"process-label", "limit", "search"} {
		if when != "" && cmd.Flags().Changed(flag) {
			refused = append(refused, "--"+flag)
		}
	}
	if len(refused) > 0 {
		faults = append(faults, term.Usagef("--at excludes %s", strings.Join(refused, " and ")))
	}
	if count && (len(sel.States) > 0 || sel.Limit > 0 || f.Search != "") {
		faults = append(faults, term.Usagef("--count excludes --state, --limit and --search"))
	}
	named := len(args) > 0 && f.Namespace+f.Name != ""
	switch {
	case count && when == "" && (len(args) > 1 || named):
		faults = append(faults, term.Usagef("--count takes one NAMESPACE/NAME, or --namespace and --name"))
	case named:
		faults = append(faults, term.Usagef("--namespace and --name exclude NAMESPACE/NAME"))
	}
	if len(args) > 0 && f.Search != "" {
		faults = append(faults, term.Usagef("--search and NAMESPACE/NAME exclude each other"))
	}
	return errors.Join(faults...)
}

// noProcesses reports that a list is empty: an error if a flag or an argument has chosen among the processes.
func noProcesses(cmd *cobra.Command, c *client.Client, sel *selection.Selection, chosen bool) error {
	if err := sel.Unmatched(cmd.Context(), c); err != nil {
		return err
	}
	if chosen || !sel.Any() {
		return term.NoSuchf("no process matches%s", sel.Where())
	}
	term.Say(cmd, "no processes yet: describe them in a file, and run 'drover apply -f FILE'\n")
	return nil
}

// printCounts prints how many processes there are in each state.
func printCounts(cmd *cobra.Command, o term.Output, c *client.Client, f client.ProcessFilter, sel *selection.Selection,
	args []string,
) error {
	if len(args) > 0 {
		var err error
		if f.Namespace, f.Name, err = term.SplitID(args[0]); err != nil {
			return err
		}
	}
	if err := sel.ResolveFew(cmd.Context(), c); err != nil {
		return err
	}
	which := sel.Filter(sel.Names)
	which.Namespace, which.Name = f.Namespace, f.Name
	n, err := c.CountProcesses(cmd.Context(), which)
	if err != nil {
		return remote.ExitOf(err)
	}
	return showCounts(cmd, o, n)
}

func showCounts(cmd *cobra.Command, o term.Output, n v1.ProcessCounts) error {
	if o.Structured() {
		return term.PrintValue(cmd.OutOrStdout(), o.Form, n)
	}
	type row struct {
		State string `json:"state"`
		Count int    `json:"count"`
	}
	var rows []row
	for _, state := range slices.Sorted(maps.Keys(n.States)) {
		rows = append(rows, row{state, n.States[state]})
	}
	if n.Stale > 0 {
		rows = append(rows, row{"stale", n.Stale})
	}
	return term.PrintList(cmd, o, append(rows, row{"all", n.Total}), []term.Column[row]{
		{Head: "STATE", State: true, Cell: func(r row) string { return r.State }},
		{Head: "COUNT", Cell: func(r row) string { return strconv.Itoa(r.Count) }},
	}, func(r row) string { return r.State })
}

// listProcesses lists the processes that match the filter, the flags and the arguments.
func listProcesses(cmd *cobra.Command, c *client.Client, f client.ProcessFilter, sel *selection.Selection,
	args []string,
) ([]v1.Process, error) {
	if len(args) > 0 {
		return sel.Choose(cmd.Context(), c, args, false)
	}
	if err := sel.Resolve(cmd.Context(), c); err != nil {
		return nil, err
	}
	rows, err := sel.List(cmd.Context(), c, f)
	rows = sel.Limited(rows)
	selection.SortProcesses(rows)
	return rows, err
}

// running shows a process that runs; the cell of another one is empty.
func running(text func(*v1.Instance) string) func(v1.Process) string {
	return func(p v1.Process) string {
		if p.Instance == nil {
			return ""
		}
		return text(p.Instance)
	}
}

// using is a cell about what a running process uses with its whole tree.
func using(text func(v1.Usage) string) func(v1.Process) string {
	return func(p v1.Process) string {
		if p.Instance == nil {
			return ""
		}
		return text(remote.Used(&p))
	}
}

func processColumns() []term.Column[v1.Process] {
	return []term.Column[v1.Process]{
		{Head: "NAME", Cell: func(p v1.Process) string { return p.Namespace + "/" + p.Name }},
		{Head: "HOST", Cell: func(p v1.Process) string { return p.Host.ID }},
		{Head: "STATE", Cell: stateOf, State: true},
		{Head: "PID", Cell: running(func(i *v1.Instance) string { return strconv.Itoa(i.PID) })},
		{Head: "UPTIME", Cell: running(func(i *v1.Instance) string { return term.Since(i.StartedAt) })},
		{Head: "CPU/HOST", Cell: using(func(u v1.Usage) string { return term.Percent(u.CPU) })},
		{Head: "MEMORY", Cell: using(func(u v1.Usage) string { return term.Size(u.RSS) })},
		{Head: "HOSTED", Cell: func(p v1.Process) string { return term.YesNo(p.Hosted) }},
		{Head: "ADDRESS", Wide: true, Cell: func(p v1.Process) string { return remote.Address(p.Host) }},
		{
			Head: "THREADS", Wide: true,
			Cell: running(func(i *v1.Instance) string { return strconv.Itoa(i.Threads) }),
		},
		{Head: "VERSION", Wide: true, Cell: running(func(i *v1.Instance) string { return i.Version })},
		{Head: "RESTARTS", Wide: true, Cell: func(p v1.Process) string { return events.Number(p.Restarts) }},
		{Head: "CAUSE", Wide: true, Cell: CauseOf},
		{Head: "REPORTED", Wide: true, Cell: func(p v1.Process) string { return term.Since(p.ReportedAt) }},
		{Head: "MESSAGE", Wide: true, Cell: func(p v1.Process) string { return p.Message }},
	}
}

// stateOf is the state, marked if it is stale.
func stateOf(p v1.Process) string {
	if p.Stale {
		return p.State + " (stale)"
	}
	return p.State
}

// CauseOf is the id of the cause; empty if there is none.
func CauseOf(p v1.Process) string {
	if p.Cause == nil {
		return ""
	}
	return p.Cause.ID
}

// psAt lists the processes as they were at a moment, or counts them.
func psAt(cmd *cobra.Command, s *remote.Session, c *client.Client, at time.Time, f client.ProcessFilter,
	sel *selection.Selection, args []string, count bool,
) error {
	if err := sel.ResolveFew(cmd.Context(), c); err != nil {
		return err
	}
	if err := sel.Ever(cmd.Context(), c); err != nil {
		return err
	}
	if err := term.SplitIDs(args); err != nil {
		return err
	}
	which := sel.Filter(sel.Names)
	which.Namespace, which.Name = f.Namespace, f.Name
	var rows []v1.Process
	var past v1.Past
	for _, arg := range append(args, "")[:max(len(args), 1)] {
		if arg != "" {
			which.Namespace, which.Name, _ = strings.Cut(arg, "/")
		}
		found, p, err := c.ProcessesAt(cmd.Context(), which, at)
		if err != nil {
			return remote.ExitOf(err)
		}
		if arg != "" && len(found) == 0 {
			sayPast(cmd, nil, p)
			return term.NoSuchf("no process matched %s%s at %s", arg, sel.Where(), term.Stamp(&p.At))
		}
		rows, past = append(rows, found...), p
	}
	selection.SortProcesses(rows)
	rows = slices.CompactFunc(rows, func(a, b v1.Process) bool {
		return a.Namespace == b.Namespace && a.Name == b.Name && a.Host.ID == b.Host.ID && a.Host.Cloud == b.Host.Cloud
	})
	if err := printPast(cmd, s.Output, rows, past, count); err != nil {
		return err
	}
	sayPast(cmd, rows, past)
	if len(rows) == 0 && !count {
		return term.NoSuchf("no process matched%s at %s", sel.Where(), term.Stamp(&past.At))
	}
	return s.UnlessOld(command.Failed, nil)
}

func printPast(cmd *cobra.Command, o term.Output, rows []v1.Process, past v1.Past, count bool) error {
	if !count {
		return term.PrintList(cmd, o, rows, pastColumns(past.At), func(p v1.Process) string {
			return p.Namespace + "/" + p.Name
		})
	}
	n := v1.ProcessCounts{States: map[string]int{}, Total: len(rows)}
	for _, p := range rows {
		if p.Unknown != nil {
			n.Stale++
		} else {
			n.States[p.State]++
		}
	}
	return showCounts(cmd, o, n)
}

// sayPast says how far the answer is certain.
func sayPast(cmd *cobra.Command, rows []v1.Process, past v1.Past) {
	hosts := map[string]bool{}
	unknown := 0
	for _, p := range rows {
		if p.Unknown != nil {
			unknown++
			hosts[p.Host.ID] = true
		}
	}
	term.Say(cmd, "at %s by the clock of each host%s\n", term.Stamp(&past.At), events.ClockText(past))
	if unknown > 0 {
		term.Say(cmd, "not known: %s on %s\n", process.Count(unknown, "process", "processes"),
			process.Count(len(hosts), "host", "hosts"))
	}
	if past.KeptSince != nil && past.At.Before(*past.KeptSince) {
		term.Say(cmd, "the server keeps records since %s\n", term.Stamp(past.KeptSince))
	}
}

// pastColumns are the columns of processes at a moment.
func pastColumns(at time.Time) []term.Column[v1.Process] {
	return []term.Column[v1.Process]{
		{Head: "NAME", Cell: func(p v1.Process) string { return p.Namespace + "/" + p.Name }},
		{Head: "HOST", Cell: func(p v1.Process) string { return p.Host.ID }},
		{Head: "STATE", Cell: pastState, State: true},
		{Head: "PID", Cell: running(func(i *v1.Instance) string { return strconv.Itoa(i.PID) })},
		{Head: "UPTIME", Cell: running(func(i *v1.Instance) string {
			if i.StartedAt == nil {
				return ""
			}
			return why.Age(at.Sub(*i.StartedAt))
		})},
		{Head: "HOSTED", Cell: func(p v1.Process) string {
			if p.Unknown != nil {
				return ""
			}
			return term.YesNo(p.Hosted)
		}},
		{Head: "CAUSE", Cell: CauseOf},
		{Head: "ADDRESS", Wide: true, Cell: func(p v1.Process) string { return remote.Address(p.Host) }},
		{Head: "VERSION", Wide: true, Cell: running(func(i *v1.Instance) string { return i.Version })},
		{Head: "RESTARTS", Wide: true, Cell: func(p v1.Process) string { return events.Number(p.Restarts) }},
		{Head: "MESSAGE", Wide: true, Cell: func(p v1.Process) string { return p.Message }},
	}
}

// pastState is the state at a moment; for an unknown one also since when.
func pastState(p v1.Process) string {
	if p.Unknown == nil || p.Unknown.Since == nil {
		return p.State
	}
	return p.State + " since " + term.Stamp(p.Unknown.Since)
}
