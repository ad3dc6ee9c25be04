package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
)

func newWebhook() *cobra.Command {
	return noun("webhook", "Manage the addresses that receive alarms",
		`Manage the addresses that receive alarms, such as relaunches, processes that were given up
and exceeded limits. docs/alarms.md shows a delivery and how to verify its signature. If a receiver
is down, drover keeps the alarms and delivers them later. Needs an administrator.`,
		newWebhookCreate(), newWebhookList(), newWebhookShow(), newWebhookChange(), newWebhookTest(),
		newWebhookRotate(), newWebhookDelete())
}

// deliveryText is how it stands with a webhook, in a word. A test delivery changes nothing.
func deliveryText(w client.Webhook) string {
	switch {
	case w.Delivery.Failures > 0:
		return "failing"
	case w.Delivery.DeliveredAt == nil:
		return "untried"
	}
	return "ok"
}

// wantedText is whose alarms a webhook is for.
func wantedText(w client.Webhook) string {
	if len(w.Namespaces) == 0 {
		return "all"
	}
	return strings.Join(w.Namespaces, ",")
}

// showWebhook writes a webhook in the form that is asked for.
func showWebhook(cmd *cobra.Command, o output, w client.Webhook) error {
	out := cmd.OutOrStdout()
	if o.form != asText {
		return printValue(out, o.form, w)
	}
	if _, err := fmt.Fprintf(out, "%s: %s\n", printable(w.Name), deliveryText(w)); err != nil {
		return err
	}
	d := w.Delivery
	fields := []field{
		{"URL", w.URL},
		{"Namespaces", wantedText(w)},
		{"Local", yesNo(w.Local)},
		{"Note", w.Note},
		{"Last delivered", stamp(d.DeliveredAt)},
		{"Alarms behind", fmt.Sprint(d.Lag)},
	}
	if d.Failures > 0 {
		fields = append(fields, field{"Failing since", stamp(d.FailingSince)},
			field{"Attempts failed", fmt.Sprint(d.Failures)},
			field{"Error", d.Error}, field{"Next attempt", stamp(d.NextAt)})
	}
	return writeFields(out, append(fields, field{"Created", stamp(&w.CreatedAt)},
		field{"Changed", stamp(&w.ChangedAt)}))
}

// changedWebhook returns the run of a command that does something to a webhook and shows it, or the secret that it has
// got.
func changedWebhook(s *session, o *output,
	do func(ctx context.Context, c *client.Client, args []string) (client.Webhook, error),
) run {
	return queryCommand(s, do, func(cmd *cobra.Command, _ []string, w client.Webhook) error {
		if w.Secret != "" {
			return showOnce(cmd, *o, w, fmt.Sprintf("name    %s\nsecret  %s\n", w.Name, w.Secret),
				"drover shows the secret only this once, and signs every delivery with it")
		}
		return showWebhook(cmd, *o, w)
	})
}

// webhookVerb completes a command about one webhook.
func webhookVerb(cmd *cobra.Command, s *session, o *output) *cobra.Command {
	o.flags(cmd, asText, asJSON, asYAML)
	return argumentCommand(cmd, s, "NAME", completeWebhooks(s))
}
