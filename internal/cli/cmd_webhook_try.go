package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"drover/internal/command"
)

func newWebhookTest() *cobra.Command {
	var s session
	var o output
	return webhookVerb(&cobra.Command{
		Use:   "test NAME",
		Short: "Deliver a made-up alarm now, and tell what came of it",
		Long: `Deliver a made-up alarm now, and tell what came of it: it is a process_restart_success of drover:test. The exit code is 1 when
it was not taken.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			t, err := c.TestWebhook(cmd.Context(), args[0])
			if err != nil {
				return exitOf(err)
			}
			if o.form != asText {
				if err := printValue(cmd.OutOrStdout(), o.form, t); err != nil {
					return err
				}
			} else if t.Delivered {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "delivered in %.3f s\n", t.Seconds)
				return err
			}
			if !t.Delivered {
				return &command.ExitError{Code: command.Failed, Err: fmt.Errorf("cannot deliver to %s: %s", args[0], printable(t.Error))}
			}
			return nil
		},
	}, &s, &o)
}
