package cli

import (
	"github.com/spf13/cobra"
)

func newKeysDrop() *cobra.Command {
	var s session
	cmd := &cobra.Command{
		Use:   "drop KIND KEY",
		Short: "Give up a next key, or drop a former one before its time is over",
		Long: `Give up a next key, or drop a former one before its time is over: where it got into the wrong hands. Hosts that are away and know
no later key can't come back by themselves after that; each is let in again with a token ('drover-agent join'), and keeps its key, its
names and its processes.`,
		Args: exactly("KIND", "KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			if err := c.DropKey(cmd.Context(), args[0], args[1]); err != nil {
				return exitOf(err)
			}
			say(cmd, "key %s was dropped\n", args[1])
			return nil
		},
		ValidArgsFunction: keyKinds,
	}
	s.flags(cmd)
	return cmd
}
