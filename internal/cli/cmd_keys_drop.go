package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newKeysDrop() *cobra.Command {
	var s session
	return about(&cobra.Command{
		Use:   "drop KIND KEY",
		Short: "Give up a next key, or drop a former one before its time is over",
		Long: `Give up a next key, or drop a former one before its time is over: where it got into the wrong hands. Hosts that are away and know
no later key can't come back by themselves after that; each is let in again with a token ('drover-agent join'), and keeps its key, its
names and its processes.`,
		Args: exactly("KIND", "KEY"),
		RunE: telling(&s, "the %s key was dropped", func(ctx context.Context, c *client.Client, args []string) error {
			return c.DropKey(ctx, args[0], args[1])
		}),
	}, &s, "KIND", keyKinds)
}
