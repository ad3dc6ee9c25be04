package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newWebhookChange() *cobra.Command {
	var s session
	var o output
	var f webhookFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "change NAME",
		Short: "Change a webhook's address, namespaces or note",
		Long: `Change a webhook's address, namespaces or note. drover retries undelivered alarms at
once. --namespace replaces all previous namespaces.`,
		Example: `  drover webhook change pager --url https://new.example/drover
  drover webhook change shop --all-namespaces`,
	}
	cmd.RunE = changedWebhook(&s, &o,
		func(ctx context.Context, c *client.Client, args []string) (client.Webhook, error) {
			change := f.change(cmd)
			if all {
				if change.Namespaces != nil {
					return client.Webhook{}, usagef("--namespace and --all-namespaces exclude each other")
				}
				change.Namespaces = &[]string{}
			}
			if change == (client.WebhookChange{}) {
				return client.Webhook{}, usagef("nothing to change: 'drover webhook change --help' lists the flags")
			}
			return c.ChangeWebhook(ctx, args[0], change)
		})
	f.flags(cmd)
	cmd.Flags().BoolVar(&all, "all-namespaces", false, "deliver the alarms of all namespaces")
	return webhookVerb(cmd, &s, &o)
}
