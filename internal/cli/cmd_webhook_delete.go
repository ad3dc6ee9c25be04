package cli

import (
	"github.com/spf13/cobra"
)

func newWebhookDelete() *cobra.Command {
	var s session
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Deliver no alarms to an address any more",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			if err := c.DeleteWebhook(cmd.Context(), args[0]); err != nil {
				return exitOf(err)
			}
			say(cmd, "webhook %s was deleted\n", args[0])
			return nil
		},
		ValidArgsFunction: completeWebhooks(&s),
	}
	s.flags(cmd)
	return cmd
}
