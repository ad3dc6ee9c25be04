package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAppDisable() *cobra.Command {
	return appSwitch("disable CODE", "Reject all calls of an app from now on", true)
}

func newAppEnable() *cobra.Command {
	return appSwitch("enable CODE", "Accept calls of a disabled app again", false)
}

func appSwitch(use, short string, disabled bool) *cobra.Command {
	var s session
	var o output
	return appVerb(&cobra.Command{
		Use:   use,
		Short: short,
		RunE: changed(&s, &o, func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
			return c.ChangeApp(ctx, args[0], client.AppChange{Disabled: &disabled})
		}),
	}, &s, &o)
}
