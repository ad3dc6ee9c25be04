package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAgents() *cobra.Command {
	var s session
	var o output
	var f client.AgentFilter
	cmd := &cobra.Command{
		Use:     "agents [HOST...]",
		Aliases: []string{"hosts"},
		Short:   "List the hosts that have joined",
		Long: `List the hosts that have joined. HOST is an id, CLOUD:IP or a pattern. Without HOST
all hosts are listed. If a filter matches nothing, the exit code is 4.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			f.Hosts = args
			agents, err := client.Collect(c.Agents(cmd.Context(), f))
			if err != nil {
				return exitOf(err)
			}
			if err := printList(cmd, &s, o, agents, agentColumns(), func(a client.Agent) string {
				return a.ID
			}); err != nil {
				return err
			}
			switch {
			case len(agents) > 0:
				return nil
			case len(args) > 0 || f.State != "":
				return noSuchf("no host matches")
			}
			say(cmd, "no hosts have joined\n")
			return nil
		},
		ValidArgsFunction: completing(&s, hostIDs),
	}
	cmd.Flags().StringVar(&f.State, "state", "", "only hosts in this state: online or away")
	complete(cmd, "state", "online", "away")
	o.flags(cmd, asTable, asWide, asJSON, asYAML, asName)
	s.flags(cmd)
	cmd.PreRunE = chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if f.State == "" {
			return nil
		}
		return oneOf("--state", f.State, "online", "away")
	})
	cmd.AddCommand(newAgentsRemove())
	return cmd
}

func agentColumns() []column[client.Agent] {
	return []column[client.Agent]{
		{head: "HOST", cell: func(a client.Agent) string { return a.ID }},
		{head: "ADDRESS", cell: func(a client.Agent) string { return address(a.Host) }},
		{head: "STATE", state: true, cell: func(a client.Agent) string {
			if a.Online {
				return "online"
			}
			return "away"
		}},
		{head: "SEEN", cell: func(a client.Agent) string { return since(a.LastSeen) }},
		{head: "BUILD", cell: func(a client.Agent) string { return a.Build }},
		{head: "LABELS", cell: func(a client.Agent) string { return labelText(a.Labels) }},
		{head: "NOTES", cell: func(a client.Agent) string { return strings.Join(a.Notes, "; ") }},
		{head: "POLICY", wide: true, cell: func(a client.Agent) string { return a.Policy }},
		{head: "BUSINESS", wide: true, cell: func(a client.Agent) string { return businessText(a.Business) }},
		{head: "JOINED", wide: true, cell: func(a client.Agent) string { return stamp(&a.JoinedAt) }},
		{head: "KEY", wide: true, cell: func(a client.Agent) string { return a.Key }},
	}
}
