package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newWebhookDelete() *cobra.Command {
	var s session
	return argumentCommand(&cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a webhook: no longer deliver alarms to it",
		RunE: actionCommand(&s, "webhook %s was deleted", func(ctx context.Context, c *client.Client, args []string) error {
			return c.DeleteWebhook(ctx, args[0])
		}),
	}, &s, "NAME", completeWebhooks(&s))
}
