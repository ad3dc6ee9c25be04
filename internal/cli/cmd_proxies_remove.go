package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newProxiesRemove() *cobra.Command {
	var s session
	return argumentCommand(&cobra.Command{
		Use:   "remove NAME|KEY",
		Short: "Remove a proxy: disconnect it now and reject it if it reconnects",
		Long: `Remove a proxy, named by its name or key. The server disconnects the proxy now and
rejects it if it reconnects. Its agents connect to the other proxies of their area. If the area has
no other proxy, its agents are away until they reach a proxy or a server, so add another proxy
first. The removed proxy can join again with a token. Needs an administrator.`,
		RunE: actionCommand(&s, "proxy %s was removed", func(ctx context.Context, c *client.Client, args []string) error {
			return c.RemoveProxy(ctx, args[0])
		}),
	}, &s, "NAME", cobra.NoFileCompletions)
}
