package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newProxiesRemove() *cobra.Command {
	var s session
	return about(&cobra.Command{
		Use:   "remove NAME|KEY",
		Short: "Take a proxy out: it is cut off at once and refused when it comes back",
		Long: `Take a proxy out, named by its name or key. It is cut off at once and refused when it comes back; its agents go to the other proxies of
their area. Those of an area that has no other are away until they can reach one, or the servers: give them one before. It can join again
with a token. Needs an administrator.`,
		RunE: telling(&s, "proxy %s was removed", func(ctx context.Context, c *client.Client, args []string) error {
			return c.RemoveProxy(ctx, args[0])
		}),
	}, &s, "NAME", cobra.NoFileCompletions)
}
