package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/command"
	"drover/internal/process"
)

func newPs() *cobra.Command {
	var s session
	var o output
	var f client.ProcessFilter
	var count bool
	cmd := &cobra.Command{
		Use:     "ps [NAMESPACE/NAME...]",
		Aliases: []string{"list"},
		Short:   "List processes",
		Long: `List processes as their hosts last reported them. A state is stale when its host is away.

States:
  unknown     the host has not checked the process yet, or cannot check it
  stopped     not running, and not meant to run (EXITED in other supervisors)
  starting    started, and not ready yet
  running     running
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
  drover ps -o name`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			if count {
				return s.unlessOld(command.Failed, printCounts(cmd, &s, o, c, f, args))
			}
			rows, err := listProcesses(cmd, c, f, args)
			if err != nil {
				return err
			}
			if err := printList(cmd, &s, o, rows, processColumns(), func(p client.Process) string {
				return p.Namespace + "/" + p.Name
			}); err != nil {
				return err
			}
			if len(rows) > 0 {
				return s.unlessOld(command.Failed, nil)
			}
			if len(args)+len(f.Hosts)+len(f.States) > 0 || f.Namespace+f.Name != "" {
				return noSuchf("no process matches")
			}
			say(cmd, "no processes yet: register one with 'drover register', or through the API\n")
			return nil
		},
		ValidArgsFunction: completeProcesses(&s),
	}
	cmd.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "only processes of this namespace, or of a pattern")
	cmd.Flags().StringVar(&f.Name, "name", "", "only processes of this name, or of a pattern")
	cmd.Flags().StringSliceVar(&f.Hosts, "hosts", nil, "only on these hosts; ids, CLOUD:IP or patterns")
	cmd.Flags().StringSliceVar(&f.States, "state", nil, "only processes in these states")
	cmd.Flags().BoolVar(&count, "count", false,
		"show only the number of processes in each state; processes of hosts that are away count as stale")
	completeHosts(cmd, &s)
	complete(cmd, "state", process.States()...)
	o.flags(cmd, asTable, asWide, asJSON, asYAML, asName)
	s.flags(cmd)
	cmd.PreRunE = chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if count && len(f.States) > 0 {
			return usagef("--count and --state exclude each other")
		}
		return checkStates(f.States)
	})
	return cmd
}

// checkStates returns an error for the first value of --state that is not a state.
func checkStates(states []string) error {
	for _, state := range states {
		if err := oneOf("--state", state, process.States()...); err != nil {
			return err
		}
	}
	return nil
}

// printCounts prints how many processes there are in each state.
func printCounts(cmd *cobra.Command, s *session, o output, c *client.Client, f client.ProcessFilter,
	args []string,
) error {
	if len(args) > 1 || len(args) > 0 && f.Namespace+f.Name != "" {
		return usagef("--count takes one NAMESPACE/NAME, or --namespace and --name")
	}
	if len(args) > 0 {
		var err error
		if f.Namespace, f.Name, err = splitID(args[0]); err != nil {
			return err
		}
	}
	n, err := c.CountProcesses(cmd.Context(), f)
	if err != nil {
		return exitOf(err)
	}
	if o.form == asJSON || o.form == asYAML {
		return printValue(cmd.OutOrStdout(), o.form, n)
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
	return printList(cmd, s, o, append(rows, row{"all", n.Total}), []column[row]{
		{head: "STATE", state: true, cell: func(r row) string { return r.state }},
		{head: "COUNT", cell: func(r row) string { return strconv.Itoa(r.count) }},
	}, func(r row) string { return r.state })
}

// listProcesses lists what the filter lets pass, once for each argument.
func listProcesses(cmd *cobra.Command, c *client.Client, f client.ProcessFilter,
	args []string,
) ([]client.Process, error) {
	if len(args) == 0 {
		rows, err := client.Collect(c.Processes(cmd.Context(), f))
		sortProcesses(rows)
		return rows, exitOf(err)
	}
	if f.Namespace+f.Name != "" {
		return nil, usagef("--namespace and --name exclude NAMESPACE/NAME")
	}
	rows, err := choose(cmd.Context(), c, args, f.Hosts, false)
	if err != nil || len(f.States) == 0 {
		return rows, err
	}
	var kept []client.Process
	for _, p := range rows {
		if slices.Contains(f.States, p.State) {
			kept = append(kept, p)
		}
	}
	return kept, nil
}

func processColumns() []column[client.Process] {
	running := func(text func(*client.Instance) string) func(client.Process) string {
		return func(p client.Process) string {
			if p.Instance == nil {
				return ""
			}
			return text(p.Instance)
		}
	}
	return []column[client.Process]{
		{head: "NAME", cell: func(p client.Process) string { return p.Namespace + "/" + p.Name }},
		{head: "HOST", cell: func(p client.Process) string { return p.Host.ID }},
		{head: "STATE", cell: stateOf, state: true},
		{head: "PID", cell: running(func(i *client.Instance) string { return strconv.Itoa(i.PID) })},
		{head: "UPTIME", cell: running(func(i *client.Instance) string { return since(i.StartedAt) })},
		{head: "CPU", cell: running(func(i *client.Instance) string { return percent(i.CPU) })},
		{head: "MEMORY", cell: running(func(i *client.Instance) string { return size(i.RSS) })},
		{head: "HOSTED", cell: func(p client.Process) string { return yesNo(p.Hosted) }},
		{head: "ADDRESS", wide: true, cell: func(p client.Process) string { return address(p.Host) }},
		{
			head: "THREADS", wide: true,
			cell: running(func(i *client.Instance) string { return strconv.Itoa(i.Threads) }),
		},
		{head: "VERSION", wide: true, cell: running(func(i *client.Instance) string { return i.Version })},
		{head: "RESTARTS", wide: true, cell: func(p client.Process) string { return number(p.Restarts) }},
		{head: "CAUSE", wide: true, cell: causeOf},
		{head: "REPORTED", wide: true, cell: func(p client.Process) string { return since(p.ReportedAt) }},
		{head: "MESSAGE", wide: true, cell: func(p client.Process) string { return p.Message }},
	}
}

// stateOf is the state, and whether it can be relied on.
func stateOf(p client.Process) string {
	if p.Stale {
		return p.State + " (stale)"
	}
	return p.State
}

// causeOf is the name of the cause, where there is one.
func causeOf(p client.Process) string {
	if p.Cause == nil {
		return ""
	}
	return p.Cause.ID
}

func address(h client.Host) string { return fmt.Sprintf("%d:%s", h.Cloud, h.IP) }
