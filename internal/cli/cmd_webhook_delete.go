package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newWebhookDelete() *cobra.Command {
	var s session
	return about(&cobra.Command{
		Use:   "delete NAME",
		Short: "Deliver no alarms to an address any more",
		RunE: telling(&s, "webhook %s was deleted", func(ctx context.Context, c *client.Client, args []string) error {
			return c.DeleteWebhook(ctx, args[0])
		}),
	}, &s, "NAME", completeWebhooks(&s))
}
