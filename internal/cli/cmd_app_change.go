package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAppChange() *cobra.Command {
	var s session
	var o output
	var f appFlags
	cmd := &cobra.Command{
		Use:   "change CODE",
		Short: "Change an app's note, powers or limits",
		Example: `  drover app change viewer --rate 20 --burst 40
  drover app change viewer --admin=false`,
	}
	cmd.RunE = changed(&s, &o, func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
		a, err := c.App(ctx, args[0])
		if err != nil {
			return client.App{}, err
		}
		return c.ChangeApp(ctx, args[0], f.change(cmd, a.Limits))
	})
	f.flags(cmd)
	return appVerb(cmd, &s, &o)
}
