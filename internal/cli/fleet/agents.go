// Package fleet has the commands about the members of a fleet, and the tokens and keys that make hosts trust a server:
// agents, proxies, token and keys.
package fleet

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// NewAgents returns 'drover agents'.
func NewAgents() *cobra.Command {
	var s remote.Session
	var f client.AgentFilter
	cmd := &cobra.Command{
		Use:     "agents [HOST...]",
		Aliases: []string{"hosts"},
		Short:   "List the hosts that have joined",
		Long: `List the hosts that have joined. HOST is an id, CLOUD:IP or a pattern. Without HOST
all hosts are listed. If a filter matches nothing, the exit code is 4.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			f.Hosts = args
			agents, err := client.Collect(c.Agents(cmd.Context(), f))
			if err != nil {
				return remote.ExitOf(err)
			}
			if err := term.PrintList(cmd, s.Output, agents, agentColumns(), func(a client.Agent) string {
				return a.ID
			}); err != nil {
				return err
			}
			switch {
			case len(agents) > 0:
				return nil
			case len(args) > 0 || f.State != "":
				return term.NoSuchf("no host matches")
			}
			term.Say(cmd, "no hosts have joined\n")
			return nil
		},
		ValidArgsFunction: remote.Completing(&s, remote.HostIDs),
	}
	cmd.Flags().StringVar(&f.State, "state", "", "only hosts in this state: online or away")
	term.Complete(cmd, "state", "online", "away")
	s.Flags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML, term.AsName)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if f.State == "" {
			return nil
		}
		return term.OneOf("--state", f.State, "online", "away")
	})
	cmd.AddCommand(agentsRemove()...)
	return cmd
}

func agentsRemove() []*cobra.Command {
	return remote.Resource[client.Agent]{
		Names: func(s *remote.Session) remote.Completer { return remote.Completing(s, remote.HostIDs) },
		Verbs: []remote.Verb[client.Agent]{{
			Use: "remove HOST|KEY", Short: "Remove a host: disconnect it now and reject it if it reconnects",
			Long: `Remove a host, named by its id, CLOUD:IP or key. The server disconnects the host now,
rejects it if it reconnects, and deletes the records of its processes. The processes on the host
keep running; to end them, stop them first. The host can join again with a token. Needs an
administrator.`,
			Call: func(ctx context.Context, c *client.Client, args []string) (client.Agent, error) {
				return client.Agent{}, c.RemoveAgent(ctx, args[0])
			},
			Done: "host %s was removed",
		}},
	}.Commands()
}

// online is the state of a connection.
func online(connected bool) string {
	if connected {
		return "online"
	}
	return "away"
}

func agentColumns() []term.Column[client.Agent] {
	return []term.Column[client.Agent]{
		{Head: "HOST", Cell: func(a client.Agent) string { return a.ID }},
		{Head: "ADDRESS", Cell: func(a client.Agent) string { return remote.Address(a.Host) }},
		{Head: "STATE", State: true, Cell: func(a client.Agent) string { return online(a.Online) }},
		{Head: "SEEN", Cell: func(a client.Agent) string { return term.Since(a.LastSeen) }},
		{Head: "BUILD", Cell: func(a client.Agent) string { return a.Build }},
		{Head: "LABELS", Cell: func(a client.Agent) string { return labelText(a.Labels) }},
		{Head: "NOTES", Cell: func(a client.Agent) string { return strings.Join(a.Notes, "; ") }},
		{Head: "POLICY", Wide: true, Cell: func(a client.Agent) string { return a.Policy }},
		{Head: "BUSINESS", Wide: true, Cell: func(a client.Agent) string { return businessText(a.Business) }},
		{Head: "JOINED", Wide: true, Cell: func(a client.Agent) string { return term.Stamp(&a.JoinedAt) }},
		{Head: "KEY", Wide: true, Cell: func(a client.Agent) string { return a.Key }},
	}
}
