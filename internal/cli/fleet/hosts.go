// Package fleet has the commands about the members of a fleet, and the tokens and keys that make hosts trust a server:
// agents, proxies, token and keys.
package fleet

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/selector"
)

// NewHosts returns 'drover hosts'.
func NewHosts() *cobra.Command {
	var s remote.Session
	var hosts remote.Hosts
	var f client.HostFilter
	groupBy := ""
	cmd := &cobra.Command{
		Use:     "hosts [HOST...]",
		Aliases: []string{"agents"},
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			if err := hosts.ResolveFew(cmd.Context(), c); err != nil {
				return err
			}
			if err := hosts.Exist(cmd.Context(), c); err != nil {
				return err
			}
			f.Hosts, f.Selector, f.Limit = hosts.Names, hosts.Selector, hosts.Limit
			var listed int
			if groupBy != "" {
				listed, err = printGroups(cmd, &s, c, f, groupBy)
			} else {
				listed, err = printAgents(cmd, &s, c, f)
			}
			if err != nil || listed > 0 {
				return err
			}
			if err := hosts.Unmatched(cmd.Context(), c); err != nil {
				return err
			}
			if len(f.Hosts) > 0 || f.Selector+f.State+f.Search+f.Proxy+f.Policy != "" {
				return term.NoSuchf("no host matches")
			}
			term.Say(cmd, "no hosts have joined\n")
			return nil
		},
		ValidArgsFunction: remote.Completing(&s, remote.HostIDs),
	}
	flags := cmd.Flags()
	hosts.ChangeFlags(cmd, &s, "further hosts")
	flags.StringVar(&f.Search, "search", "", "only hosts with this text in a name, a label or a fact, in any case")
	flags.StringVar(&f.State, "state", "", "only hosts in this state: online or away")
	flags.StringVar(&f.Proxy, "proxy", "", "only hosts in the area of this proxy; a name or a pattern")
	flags.StringVar(&f.Policy, "policy", "", "only hosts by the policy of their owner: none or limited")
	flags.StringVar(&groupBy, "group-by", "", "count the hosts by the values of this label or fact")
	term.Complete(cmd, "state", "online", "away")
	term.Complete(cmd, "policy", "none", "limited")
	s.ListFlags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML, term.AsName)
	remote.Watch(&s, cmd)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) error {
		faults := []error{checkChoices(&f)}
		if cmd.Flags().Changed("group-by") && !selector.IsKey(groupBy) {
			faults = append(faults,
				term.Usagef("--group-by %q: expected one label or fact, such as role, os or fact.rack", groupBy))
		}
		if groupBy != "" && hosts.Limit > 0 {
			faults = append(faults, term.Usagef("--group-by and --limit exclude each other"))
		}
		hosts.Also(args)
		return errors.Join(faults...)
	})
	cmd.AddCommand(agentsLabel(), agentsRemove())
	return cmd
}

// printAgents prints a list of hosts, and returns their number.
func printAgents(cmd *cobra.Command, s *remote.Session, c *client.Client, f client.HostFilter) (int, error) {
	agents, err := client.Collect(c.Hosts(cmd.Context(), f))
	if err != nil {
		return 0, remote.ExitOf(err)
	}
	name := func(a v1.JoinedHost) string { return a.ID }
	return len(agents), term.PrintList(cmd, s.Output, agents, agentColumns(), name)
}

// printGroups prints the numbers of hosts by the values of a label or a fact, and returns that of all.
func printGroups(
	cmd *cobra.Command, s *remote.Session, c *client.Client, f client.HostFilter, by string,
) (int, error) {
	n, err := c.CountHosts(cmd.Context(), f, by)
	if err != nil {
		return 0, remote.ExitOf(err)
	}
	name := func(g v1.HostGroup) string { return g.Value }
	return n.Hosts, term.PrintList(cmd, s.Output, n.Groups, groupColumns(by), name)
}

// checkChoices rejects a filter whose value is none of a few.
func checkChoices(f *client.HostFilter) error {
	var state, policy error
	if f.State != "" {
		state = term.OneOf("--state", f.State, "online", "away")
	}
	if f.Policy != "" {
		policy = term.OneOf("--policy", f.Policy, "none", "limited")
	}
	return errors.Join(state, policy)
}

func groupColumns(key string) []term.Column[v1.HostGroup] {
	return []term.Column[v1.HostGroup]{
		{Head: strings.ToUpper(key), Cell: func(g v1.HostGroup) string { return g.Value }},
		{Head: "HOSTS", Cell: func(g v1.HostGroup) string { return strconv.Itoa(g.Hosts) }},
		{Head: "ONLINE", Cell: func(g v1.HostGroup) string { return strconv.Itoa(g.Online) }},
	}
}

// agentsLabel returns 'drover hosts label'.
func agentsLabel() *cobra.Command {
	var s remote.Session
	var hosts remote.Hosts
	dryRun, yes := false, false
	r := v1.LabelRequest{Set: map[string]string{}}
	cmd := &cobra.Command{
		Use:  "label [HOST...] KEY=VALUE|KEY-...",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			if err := hosts.Only(cmd.Context(), c); err != nil {
				return err
			}
			r.Hosts, r.Select = hosts.Names, hosts.Selector
			call, text, none := c.LabelHosts, "%s labelled\n", "nothing changed: the labels of %s were so already\n"
			if dryRun {
				call, text = c.PlanLabels, "%s would be labelled\n"
				none = "nothing would change: the labels of %s are so already\n"
			}
			if !dryRun && !yes {
				if err := confirmLabels(cmd, &s, c, r); err != nil {
					return cmp.Or(hosts.UnmatchedAfter(cmd.Context(), c, err), remote.ExitOf(err))
				}
			}
			labelled, err := call(cmd.Context(), r)
			if err != nil {
				return cmp.Or(hosts.UnmatchedAfter(cmd.Context(), c, err), remote.ExitOf(err))
			}
			n := len(labelled.Hosts) - labelled.Unchanged
			if n == 0 {
				n, text = labelled.Unchanged, none
			}
			term.Say(cmd, text, process.Count(n, "host", "hosts"))
			sayReselected(cmd, labelled.Reselected)
			return nil
		},
		ValidArgsFunction: remote.Completing(&s, remote.HostIDs),
	}
	hosts.ChangeFlags(cmd, &s, "further hosts")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the changes of selections, and do nothing")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	s.Flags(cmd)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) error {
		var twice []error
		for _, arg := range args {
			key, value, sets := strings.Cut(arg, "=")
			removed, removes := strings.CutSuffix(arg, "-")
			switch _, set := r.Set[key]; {
			case sets && set:
				twice = append(twice, term.Usagef("the label %s is given twice", key))
			case sets:
				r.Set[key] = value
			case removes:
				r.Remove = append(r.Remove, removed)
			default:
				hosts.Also([]string{arg})
			}
		}
		return errors.Join(append(twice, checkLabels(cmd, r, hosts.Any()))...)
	})
	return cmd
}

// confirmLabels asks before labels by which drover stops processes.
func confirmLabels(cmd *cobra.Command, s *remote.Session, c *client.Client, r v1.LabelRequest) error {
	plan, err := c.PlanLabels(cmd.Context(), r)
	ends := 0
	for _, one := range plan.Reselected {
		ends += one.Ends
	}
	if err != nil || ends == 0 {
		return err
	}
	sayReselected(cmd, plan.Reselected)
	what := "set the labels, and stop processes on " + process.Count(ends, "host", "hosts")
	return s.Ask(cmd, cmd.InOrStdin(), what, ends)
}

// sayReselected tells how labels change the hosts of selections.
func sayReselected(cmd *cobra.Command, all []v1.Reselected) {
	for _, r := range all {
		names := strings.Join(r.Processes, ", ")
		switch {
		case r.Come > 0 && names == "":
			term.Say(cmd, "%s to match a selection that you may not read\n",
				process.Count(r.Come, "host comes", "hosts come"))
		case r.Come > 0:
			term.Say(cmd, "%s to match %q of %s\n", process.Count(r.Come, "host comes", "hosts come"), r.Select, names)
		}
		switch {
		case r.Cease > 0 && names == "":
			term.Say(cmd, "%s to match a selection that you may not read\n",
				process.Count(r.Cease, "host ceases", "hosts cease"))
		case r.Cease > 0:
			term.Say(cmd, "%s to match %q of %s\n",
				process.Count(r.Cease, "host ceases", "hosts cease"), r.Select, names)
		}
	}
}

// checkLabels returns an error with every fault of a request; nowhere says that it chooses no hosts.
func checkLabels(cmd *cobra.Command, r v1.LabelRequest, nowhere bool) error {
	var faults []string
	if nowhere {
		faults = append(faults, "HOST is missing: expected hosts, or --selector")
	}
	if len(r.Set)+len(r.Remove) == 0 {
		faults = append(faults, "KEY=VALUE or KEY- is missing")
	}
	for _, err := range selector.CheckLabels(r.Set) {
		faults = append(faults, err.Error())
	}
	for _, key := range r.Remove {
		if err := selector.CheckKey(key); err != nil {
			faults = append(faults, err.Error())
		} else if _, both := r.Set[key]; both {
			faults = append(faults, "the label "+key+" is both set and removed")
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return term.Usagef("%s: %s", cmd.CommandPath(), strings.Join(faults, "; "))
}

// agentKey is the form of the key of an agent, a public key of NATS.
var agentKey = regexp.MustCompile(`^[A-Z2-7]{56}$`)

// agentsRemove returns 'drover hosts remove'.
func agentsRemove() *cobra.Command {
	var s remote.Session
	var hosts remote.Hosts
	yes := false
	cmd := &cobra.Command{
		Use:  "remove [HOST|KEY...]",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			keys := keysIn(args)
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			names := slices.Compact(slices.Sorted(slices.Values(keys)))
			if len(keys) == 0 {
				hosts.Also(args)
				if names, err = hosts.IDs(cmd.Context(), c); err != nil {
					return err
				}
			}
			what := "remove " + process.Count(len(names), "host", "hosts")
			switch {
			case len(names) == 1:
			case yes:
				term.Say(cmd, "%s\n", what)
			default:
				if err := s.Ask(cmd, cmd.InOrStdin(), what, len(names)); err != nil {
					return err
				}
			}
			return removeAgents(cmd, c, names)
		},
		ValidArgsFunction: remote.Completing(&s, remote.HostIDs),
	}
	hosts.ChangeFlags(cmd, &s, "further hosts")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	s.Flags(cmd)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) error {
		chosen := !hosts.Any() || hosts.Limit > 0
		switch keys := keysIn(args); {
		case len(args) == 0 && hosts.Any():
			return term.Usagef("%s: HOST is missing: expected hosts, or --selector", cmd.CommandPath())
		case len(keys) > 0 && (chosen || len(keys) < len(args)):
			return term.Usagef("%s is a key: expected keys alone, without names and flags that choose hosts", keys[0])
		}
		return nil
	})
	return cmd
}

// keysIn returns the arguments that are keys of agents.
func keysIn(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return !agentKey.MatchString(arg) })
}

// removeAgents removes each host, and ends at the first error.
func removeAgents(cmd *cobra.Command, c *client.Client, names []string) error {
	for i, name := range names {
		err := c.RemoveHost(cmd.Context(), name)
		if err != nil && i > 0 {
			return &command.ExitError{Code: command.Partial, Err: err}
		}
		if err != nil {
			return remote.ExitOf(err)
		}
		term.Say(cmd, "host %s was removed\n", name)
	}
	return nil
}

// online is the state of a connection.
func online(connected bool) string {
	if connected {
		return "online"
	}
	return "away"
}

func agentColumns() []term.Column[v1.JoinedHost] {
	return []term.Column[v1.JoinedHost]{
		{Head: "HOST", Cell: func(a v1.JoinedHost) string { return a.ID }},
		{Head: "ADDRESS", Cell: func(a v1.JoinedHost) string { return remote.Address(a.Host) }},
		{Head: "STATE", State: true, Cell: func(a v1.JoinedHost) string { return online(a.Online) }},
		{Head: "SEEN", Cell: func(a v1.JoinedHost) string { return term.Since(a.LastSeen) }},
		{Head: "BUILD", Cell: func(a v1.JoinedHost) string { return a.Build }},
		{Head: "LABELS", Cell: func(a v1.JoinedHost) string { return labelText(a.Labels) }},
		{Head: "NOTES", Cell: func(a v1.JoinedHost) string { return strings.Join(a.Notes, "; ") }},
		{Head: "NAME", Wide: true, Cell: func(a v1.JoinedHost) string { return a.Name }},
		{Head: "OS", Wide: true, Cell: func(a v1.JoinedHost) string {
			return strings.TrimSpace(a.Facts.OS + " " + a.Facts.OSVersion)
		}},
		{Head: "KERNEL", Wide: true, Cell: func(a v1.JoinedHost) string { return a.Facts.Kernel }},
		{Head: "ARCH", Wide: true, Cell: func(a v1.JoinedHost) string { return a.Facts.Arch }},
		{Head: "CPUS", Wide: true, Cell: func(a v1.JoinedHost) string { return unlessZero(a.Facts.CPUs) }},
		{Head: "MEMORY", Wide: true, Cell: func(a v1.JoinedHost) string {
			if a.Facts.Memory == 0 {
				return ""
			}
			return term.Size(a.Facts.Memory)
		}},
		{Head: "LOAD", Wide: true, Cell: func(a v1.JoinedHost) string {
			if a.Load == nil {
				return ""
			}
			return term.Percent(a.Load.CPU) + " cpu, " + term.Percent(a.Load.Memory) + " memory"
		}},
		{Head: "FACTS", Wide: true, Cell: func(a v1.JoinedHost) string { return labelText(a.Facts.Own) }},
		{Head: "WANTED", Wide: true, Cell: func(a v1.JoinedHost) string { return a.WantedBuild }},
		{Head: "UPGRADE", Wide: true, Cell: func(a v1.JoinedHost) string { return a.Upgrade }},
		{Head: "POLICY", Wide: true, Cell: func(a v1.JoinedHost) string { return a.Policy }},
		{Head: "BUSINESS", Wide: true, Cell: func(a v1.JoinedHost) string { return businessText(a.Business) }},
		{Head: "JOINED", Wide: true, Cell: func(a v1.JoinedHost) string { return term.Stamp(&a.JoinedAt) }},
		{Head: "KEY", Wide: true, Cell: func(a v1.JoinedHost) string { return a.Key }},
	}
}

// unlessZero is a number; empty if it is 0.
func unlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
