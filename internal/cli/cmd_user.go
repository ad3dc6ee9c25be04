package cli

import "github.com/spf13/cobra"

func newUser() *cobra.Command {
	return noun("user", "Manage the users that apps act for, and their tokens",
		`Manage the users that apps act for, and their tokens. A token proves the user of a call if the
app may not name users itself. The caller sends the token as bk_token. Needs an administrator.`,
		newUserCreate(), newUserList(), newUserDisable(), newUserEnable(), newUserToken(), newUserTokens(),
		newUserRevoke())
}

// userVerb completes a command about one user.
func userVerb(cmd *cobra.Command, s *session) *cobra.Command {
	return argumentCommand(cmd, s, "NAME", completeUsers(s))
}
