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
		Short: "Sign with a new secret from now on, and print the secret once",
		Long: `Sign with a new secret from now on, and print it. drover shows the secret only this
once. If a receiver rejects deliveries until it knows the new secret, drover retries them, and no
alarm is lost.`,
		RunE: changedWebhook(&s, &o,
			func(ctx context.Context, c *client.Client, args []string) (client.Webhook, error) {
				return c.RotateWebhook(ctx, args[0], "")
			}),
	}, &s, &o)
}
