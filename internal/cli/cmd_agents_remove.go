package cli

import (
	"github.com/spf13/cobra"
)

func newAgentsRemove() *cobra.Command {
	var s session
	cmd := &cobra.Command{
		Use:   "remove HOST|KEY",
		Short: "Take a host out: it is cut off at once and refused when it comes back",
		Long: `Take a host out, named by its id, CLOUD:IP or key. It is cut off at once, refused when it comes back, and what was known of its
processes is forgotten. What runs on the host goes on; stop it first if it should not. It can join again with a token. Needs an
administrator.`,
		Args: exactly("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			if err := c.RemoveAgent(cmd.Context(), args[0]); err != nil {
				return exitOf(err)
			}
			say(cmd, "host %s was removed\n", args[0])
			return nil
		},
		ValidArgsFunction: completing(&s, hostIDs),
	}
	s.flags(cmd)
	return cmd
}
