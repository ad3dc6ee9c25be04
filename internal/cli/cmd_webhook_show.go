package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newWebhookShow() *cobra.Command {
	var s session
	var o output
	return webhookVerb(&cobra.Command{
		Use:   "show NAME",
		Short: "Show a webhook, the progress of its delivery, and its last error",
		RunE: changedWebhook(&s, &o,
			func(ctx context.Context, c *client.Client, args []string) (client.Webhook, error) {
				return c.Webhook(ctx, args[0])
			}),
	}, &s, &o)
}
