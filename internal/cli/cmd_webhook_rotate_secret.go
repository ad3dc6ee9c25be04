package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newWebhookRotate() *cobra.Command {
	var s session
	var o output
	return webhookVerb(&cobra.Command{
		Use:   "rotate-secret NAME",
		Short: "Sign with a new secret from now on, and print it once",
		Long: `Sign with a new secret from now on, and print it. It is shown this once. A receiver that refuses what it cannot verify misses
nothing: it is tried again until it knows the secret.`,
		RunE: changedWebhook(&s, &o, func(ctx context.Context, c *client.Client, args []string) (client.Webhook, error) {
			return c.RotateWebhook(ctx, args[0], "")
		}),
	}, &s, &o)
}
