package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newUser() *cobra.Command {
	return noun("user", "Manage the users that apps act for, and their tokens", `Manage the users that apps act for, and their tokens. A token proves to an app that may not name users who its user is; the
caller sends it as bk_token. Needs an administrator.`,
		newUserCreate(), newUserList(), newUserDisable(), newUserEnable(), newUserToken(), newUserTokens(), newUserRevoke())
}

// userVerb completes a command about one user.
func userVerb(cmd *cobra.Command, s *session) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = exactly("NAME")
	}
	cmd.ValidArgsFunction = completeUsers(s)
	s.flags(cmd)
	return cmd
}

// telling does something to a user and says so.
func telling(s *session, what string, do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := s.client(cmd)
		if err != nil {
			return err
		}
		if err := do(cmd.Context(), c, args); err != nil {
			return exitOf(err)
		}
		say(cmd, "user %s %s\n", args[0], what)
		return nil
	}
}
