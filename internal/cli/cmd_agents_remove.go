package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAgentsRemove() *cobra.Command {
	var s session
	return about(&cobra.Command{
		Use:   "remove HOST|KEY",
		Short: "Take a host out: it is cut off at once and refused when it comes back",
		Long: `Take a host out, named by its id, CLOUD:IP or key. It is cut off at once, refused when it comes back, and what was known of its
processes is forgotten. What runs on the host goes on; stop it first if it should not. It can join again with a token. Needs an
administrator.`,
		RunE: telling(&s, "host %s was removed", func(ctx context.Context, c *client.Client, args []string) error {
			return c.RemoveAgent(ctx, args[0])
		}),
	}, &s, "HOST", completing(&s, hostIDs))
}
