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
		Short: "Give an app a new secret, and revoke all others now",
		Long: `Give an app a new secret, print it once, and revoke all others now. Use it if a
secret was lost or leaked. On the server's own host this command needs no secret.`,
		RunE: changed(&s, &o, func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
			return c.NewSecret(ctx, args[0], 0)
		}),
	}, &s, &o)
}
