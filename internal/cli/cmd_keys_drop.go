package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newKeysDrop() *cobra.Command {
	var s session
	return argumentCommand(&cobra.Command{
		Use:   "drop KIND KEY",
		Short: "Discard a pending key, or retire an old one early",
		Long: `Discard a key of stage next, or retire a key of stage former before it expires. Use
it if the key has leaked. A host that is away and knows no later key cannot reconnect afterwards.
Such a host joins again with a token ('drover-agent join') and keeps its key, names and processes.`,
		Args: exactly("KIND", "KEY"),
		RunE: actionCommand(&s, "the %s key was dropped", func(ctx context.Context, c *client.Client, args []string) error {
			return c.DropKey(ctx, args[0], args[1])
		}),
	}, &s, "KIND", keyKinds)
}
