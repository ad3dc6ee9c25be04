package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"drover/client"
)

func newWebhookList() *cobra.Command {
	var s session
	var o output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List webhooks, and how far each has got",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			list, err := c.Webhooks(cmd.Context())
			if err != nil {
				return exitOf(err)
			}
			if len(list) == 0 {
				say(cmd, "no webhooks\n")
			}
			return printList(cmd, &s, o, list, webhookColumns(), func(w client.Webhook) string { return w.Name })
		},
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
