package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newUserDisable() *cobra.Command {
	return userSwitch("disable NAME", "Refuse all calls for a user from now on", "user %s is disabled", true)
}

func newUserEnable() *cobra.Command {
	return userSwitch("enable NAME", "Take calls for a user that was disabled", "user %s is enabled", false)
}

func userSwitch(use, short, what string, disabled bool) *cobra.Command {
	var s session
	return userVerb(&cobra.Command{
		Use:   use,
		Short: short,
		RunE: telling(&s, what, func(ctx context.Context, c *client.Client, args []string) error {
			_, err := c.ChangeUser(ctx, args[0], client.UserChange{Disabled: &disabled})
			return err
		}),
	}, &s)
}
