package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

// webhookFlags are what a webhook can be made or changed to.
type webhookFlags struct {
	url        string
	namespaces []string
	local      bool
	note       string
}

func (f *webhookFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "address that alarms are posted to, http or https")
	flags.StringArrayVar(&f.namespaces, "namespace", nil,
		"pattern of namespaces whose alarms to deliver; may be repeated (default all)")
	flags.BoolVar(&f.local, "local", false,
		"allow loopback, link-local and multicast addresses, and metadata services of clouds")
	flags.StringVar(&f.note, "note", "", "a note for administrators")
}

// change carries the flags that were given over.
func (f *webhookFlags) change(cmd *cobra.Command) client.WebhookChange {
	var change client.WebhookChange
	given := cmd.Flags().Changed
	if given("url") {
		change.URL = &f.url
	}
	if given("namespace") {
		change.Namespaces = &f.namespaces
	}
	if given("local") {
		change.Local = &f.local
	}
	if given("note") {
		change.Note = &f.note
	}
	return change
}

func newWebhookCreate() *cobra.Command {
	var s session
	var o output
	var f webhookFlags
	cmd := &cobra.Command{
		Use:   "create NAME --url URL",
		Short: "Deliver alarms to an address, and print the secret that signs them",
		Long: `Deliver alarms to an address from now on, and print the secret that signs them.
drover shows the secret only this once. 'drover webhook test' tries the address.`,
		Example: `  drover webhook create pager --url https://alarms.example/drover
  drover webhook create shop --url http://127.0.0.1:9000/ --local --namespace 'shop*' -o json`,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = changedWebhook(&s, &o,
		func(ctx context.Context, c *client.Client, args []string) (client.Webhook, error) {
			if f.url == "" {
				return client.Webhook{}, usagef("--url is missing")
			}
			change := f.change(cmd)
			change.Name = args[0]
			return c.CreateWebhook(ctx, change)
		})
	f.flags(cmd)
	return webhookVerb(cmd, &s, &o)
}
