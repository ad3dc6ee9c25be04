package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAgentsRemove() *cobra.Command {
	var s session
	return argumentCommand(&cobra.Command{
		Use:   "remove HOST|KEY",
		Short: "Remove a host: disconnect it now and reject it if it reconnects",
		Long: `Remove a host, named by its id, CLOUD:IP or key. The server disconnects the host now,
rejects it if it reconnects, and deletes the records of its processes. The processes on the host
keep running; to end them, stop them first. The host can join again with a token. Needs an
administrator.`,
		RunE: actionCommand(&s, "host %s was removed", func(ctx context.Context, c *client.Client, args []string) error {
			return c.RemoveAgent(ctx, args[0])
		}),
	}, &s, "HOST", completing(&s, hostIDs))
}
