package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/command"
)

func newWebhookTest() *cobra.Command {
	var s session
	var o output
	return webhookVerb(&cobra.Command{
		Use:   "test NAME",
		Short: "Deliver a test alarm now, and show the result",
		Long: `Deliver a test alarm now, and show the result. The alarm is a process_restart_success
of drover:test. If the delivery fails, the exit code is 1.`,
		RunE: queryCommand(&s, func(ctx context.Context, c *client.Client, args []string) (client.WebhookTest, error) {
			return c.TestWebhook(ctx, args[0])
		}, func(cmd *cobra.Command, args []string, t client.WebhookTest) error {
			if o.form != asText {
				if err := printValue(cmd.OutOrStdout(), o.form, t); err != nil {
					return err
				}
			} else if t.Delivered {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "delivered in %.3f s\n", t.Seconds)
				return err
			}
			if !t.Delivered {
				return &command.ExitError{Code: command.Failed, Err: fmt.Errorf("cannot deliver to %s: %s", args[0],
					printable(t.Error))}
			}
			return nil
		}),
	}, &s, &o)
}
