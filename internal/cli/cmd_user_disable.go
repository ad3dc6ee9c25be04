package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newUserDisable() *cobra.Command {
	return userSwitch("disable NAME", "Reject all calls for a user from now on", "user %s is disabled", true)
}

func newUserEnable() *cobra.Command {
	return userSwitch("enable NAME", "Accept calls for a disabled user again", "user %s is enabled", false)
}

func userSwitch(use, short, what string, disabled bool) *cobra.Command {
	var s session
	return userVerb(&cobra.Command{
		Use:   use,
		Short: short,
		RunE: actionCommand(&s, what, func(ctx context.Context, c *client.Client, args []string) error {
			_, err := c.ChangeUser(ctx, args[0], client.UserChange{Disabled: &disabled})
			return err
		}),
	}, &s)
}
