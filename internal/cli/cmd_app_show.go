package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAppShow() *cobra.Command {
	var s session
	var o output
	return appVerb(&cobra.Command{
		Use:   "show CODE",
		Short: "Show an app, its rights and when its secrets expire",
		RunE: changed(&s, &o, func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
			return c.App(ctx, args[0])
		}),
	}, &s, &o)
}
