// Package processes has the commands about processes and their tasks: ps, status, why, events, register, task, and one
// for each operation.
package processes

import (
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
)

// NewPs returns 'drover ps'.
func NewPs() *cobra.Command {
	var s remote.Session
	var f client.ProcessFilter
	var sel selection
	var count bool
	cmd := &cobra.Command{
		Use:     "ps [NAMESPACE/NAME...]",
		Aliases: []string{"list"},
		Short:   "List processes",
		Long: `List processes as their hosts last reported them. A state is stale when its host is away.

States:
  unknown     the host has not checked the process yet, or cannot check it
  stopped     not running, and not meant to run (EXITED in other supervisors)
  starting    being started
  running     running
  not-ready   running, and not ready yet
  unhealthy   running, and its health check fails
  flapping    relaunched too often lately, whatever the process does now
  stopping    drover is ending the process, for example because of a limit
  backoff     exited; drover will relaunch the process
  given-up    exited too often; drover no longer relaunches the process (FATAL in other supervisors)
  scheduled   between two runs of its timetable
  finished    a single run that is over
  operating   an operation is in progress
'drover why' explains a state.

If a filter matches nothing, the exit code is 4.`,
		Example: `  drover ps
  drover ps 'web/*' --state flapping,given-up
  drover ps --count
  drover ps --hosts '0:10.2.*' -o wide
  drover ps -l 'role=web,os in (debian,ubuntu)' --process-label tier=front
  drover ps -o name`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			if count {
				return s.UnlessOld(command.Failed, printCounts(cmd, s.Output, c, f, &sel, args))
			}
			rows, err := listProcesses(cmd, c, f, &sel, args)
			if err != nil {
				return err
			}
			if err := term.PrintList(cmd, s.Output, rows, processColumns(), func(p client.Process) string {
				return p.Namespace + "/" + p.Name
			}); err != nil {
				return err
			}
			if len(rows) > 0 {
				return s.UnlessOld(command.Failed, nil)
			}
			if len(args) > 0 || !sel.any() || f.Namespace+f.Name != "" {
				return term.NoSuchf("no process matches%s", sel.where())
			}
			term.Say(cmd, "no processes yet: register one with 'drover register', or through the API\n")
			return nil
		},
		ValidArgsFunction: completeProcesses(&s),
	}
	cmd.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "only processes of this namespace, or of a pattern")
	cmd.Flags().StringVar(&f.Name, "name", "", "only processes of this name, or of a pattern")
	sel.flags(cmd, &s)
	sel.FailedFlag(cmd)
	cmd.Flags().BoolVar(&count, "count", false,
		"show only the number of processes in each state; processes of hosts that are away count as stale")
	s.Flags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML, term.AsName)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if count && (len(sel.states) > 0 || sel.limit > 0) {
			return term.Usagef("--count excludes --state and --limit")
		}
		return nil
	})
	return cmd
}

// checkStates returns an error for the first value of --state that is not a state.
func checkStates(states []string) error {
	for _, state := range states {
		if err := term.OneOf("--state", state, process.States()...); err != nil {
			return err
		}
	}
	return nil
}

// printCounts prints how many processes there are in each state.
func printCounts(cmd *cobra.Command, o term.Output, c *client.Client, f client.ProcessFilter, sel *selection,
	args []string,
) error {
	if len(args) > 1 || len(args) > 0 && f.Namespace+f.Name != "" {
		return term.Usagef("--count takes one NAMESPACE/NAME, or --namespace and --name")
	}
	if len(args) > 0 {
		var err error
		if f.Namespace, f.Name, err = splitID(args[0]); err != nil {
			return err
		}
	}
	if err := sel.ResolveFew(cmd.Context(), c); err != nil {
		return err
	}
	which := sel.filter(sel.Names)
	which.Namespace, which.Name = f.Namespace, f.Name
	n, err := c.CountProcesses(cmd.Context(), which)
	if err != nil {
		return remote.ExitOf(err)
	}
	if o.Form == term.AsJSON || o.Form == term.AsYAML {
		return term.PrintValue(cmd.OutOrStdout(), o.Form, n)
	}
	type row struct {
		state string
		count int
	}
	var rows []row
	for _, state := range slices.Sorted(maps.Keys(n.States)) {
		rows = append(rows, row{state, n.States[state]})
	}
	if n.Stale > 0 {
		rows = append(rows, row{"stale", n.Stale})
	}
	return term.PrintList(cmd, o, append(rows, row{"all", n.Total}), []term.Column[row]{
		{Head: "STATE", State: true, Cell: func(r row) string { return r.state }},
		{Head: "COUNT", Cell: func(r row) string { return strconv.Itoa(r.count) }},
	}, func(r row) string { return r.state })
}

// listProcesses lists the processes that match the filter, the flags and the arguments.
func listProcesses(cmd *cobra.Command, c *client.Client, f client.ProcessFilter, sel *selection,
	args []string,
) ([]client.Process, error) {
	if len(args) > 0 {
		if f.Namespace+f.Name != "" {
			return nil, term.Usagef("--namespace and --name exclude NAMESPACE/NAME")
		}
		return sel.choose(cmd.Context(), c, args, false)
	}
	if err := sel.Resolve(cmd.Context(), c); err != nil {
		return nil, err
	}
	rows, err := sel.list(cmd.Context(), c, f)
	rows = sel.limited(rows)
	sortProcesses(rows)
	return rows, err
}

func processColumns() []term.Column[client.Process] {
	running := func(text func(*client.Instance) string) func(client.Process) string {
		return func(p client.Process) string {
			if p.Instance == nil {
				return ""
			}
			return text(p.Instance)
		}
	}
	return []term.Column[client.Process]{
		{Head: "NAME", Cell: func(p client.Process) string { return p.Namespace + "/" + p.Name }},
		{Head: "HOST", Cell: func(p client.Process) string { return p.Host.ID }},
		{Head: "STATE", Cell: stateOf, State: true},
		{Head: "PID", Cell: running(func(i *client.Instance) string { return strconv.Itoa(i.PID) })},
		{Head: "UPTIME", Cell: running(func(i *client.Instance) string { return term.Since(i.StartedAt) })},
		{Head: "CPU", Cell: running(func(i *client.Instance) string { return term.Percent(i.CPU) })},
		{Head: "MEMORY", Cell: running(func(i *client.Instance) string { return term.Size(i.RSS) })},
		{Head: "HOSTED", Cell: func(p client.Process) string { return term.YesNo(p.Hosted) }},
		{Head: "ADDRESS", Wide: true, Cell: func(p client.Process) string { return remote.Address(p.Host) }},
		{
			Head: "THREADS", Wide: true,
			Cell: running(func(i *client.Instance) string { return strconv.Itoa(i.Threads) }),
		},
		{Head: "VERSION", Wide: true, Cell: running(func(i *client.Instance) string { return i.Version })},
		{Head: "RESTARTS", Wide: true, Cell: func(p client.Process) string { return number(p.Restarts) }},
		{Head: "CAUSE", Wide: true, Cell: causeOf},
		{Head: "REPORTED", Wide: true, Cell: func(p client.Process) string { return term.Since(p.ReportedAt) }},
		{Head: "MESSAGE", Wide: true, Cell: func(p client.Process) string { return p.Message }},
	}
}

// stateOf is the state, marked if it is stale.
func stateOf(p client.Process) string {
	if p.Stale {
		return p.State + " (stale)"
	}
	return p.State
}

// causeOf is the id of the cause; empty if there is none.
func causeOf(p client.Process) string {
	if p.Cause == nil {
		return ""
	}
	return p.Cause.ID
}
