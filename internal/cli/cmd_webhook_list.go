package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"drover/client"
)

func newWebhookList() *cobra.Command {
	var s session
	var o output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List webhooks, and the progress of each delivery",
		Args:  exactly(),
		RunE: listCommand(&s, &o, "no webhooks", webhookColumns(), func(w client.Webhook) string { return w.Name },
			func(ctx context.Context, c *client.Client, _ []string) ([]client.Webhook, error) {
				return c.Webhooks(ctx)
			}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.flags(cmd, asTable, asWide, asJSON, asYAML, asName)
	s.flags(cmd)
	return cmd
}

func webhookColumns() []column[client.Webhook] {
	return []column[client.Webhook]{
		{head: "NAME", cell: func(w client.Webhook) string { return w.Name }},
		{head: "STATE", state: true, cell: deliveryText},
		{head: "BEHIND", cell: func(w client.Webhook) string { return fmt.Sprint(w.Delivery.Lag) }},
		{head: "DELIVERED", cell: func(w client.Webhook) string { return since(w.Delivery.DeliveredAt) }},
		{head: "FAILING", cell: func(w client.Webhook) string { return since(w.Delivery.FailingSince) }},
		{head: "NAMESPACES", cell: wantedText},
		{head: "URL", cell: func(w client.Webhook) string { return w.URL }},
		{head: "ERROR", wide: true, cell: func(w client.Webhook) string { return w.Delivery.Error }},
		{head: "NOTE", wide: true, cell: func(w client.Webhook) string { return w.Note }},
	}
}
