package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAppResetSecret() *cobra.Command {
	var s session
	var o output
	return appVerb(&cobra.Command{
		Use:   "reset-secret CODE",
		Short: "Give an app a new secret, and end all others now",
		Long: `Give an app a new secret, which is printed once, and end all others now: for a secret that was lost, or that got out. On the
server's own host this needs no secret.`,
		RunE: changed(&s, &o, func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
			return c.NewSecret(ctx, args[0], 0)
		}),
	}, &s, &o)
}
