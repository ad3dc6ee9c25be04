package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
)

func newKeysRotate() *cobra.Command {
	var s session
	var o output
	var keep time.Duration
	var force bool
	cmd := &cobra.Command{
		Use:   "rotate KIND",
		Short: "Advance a key rotation by one step",
		Long: `Advance the rotation of a kind of key by one step. KIND is manifest, ca or
agent-signer.

The first step makes the next key. The server announces it to all hosts within seconds, signed by
the present key. The second step activates the next key and makes the present key a former key.
Until it expires, the server uses a former key only for hosts that were away and know no later key.

The server rejects the second step while a host that is online has not received the next key. If
several servers share a database, import the keys of this server into the others between the two
steps ('drover server keys').`,
		Example: `  drover keys rotate manifest     # make the next key and announce it
  drover keys list                # until all online hosts use it
  drover keys rotate manifest     # activate the next key`,
		Args: exactly("KIND"),
		RunE: queryCommand(&s, func(ctx context.Context, c *client.Client, args []string) (client.Keys, error) {
			return c.RotateKeys(ctx, args[0], keep, force)
		}, func(cmd *cobra.Command, args []string, keys client.Keys) error {
			for _, k := range keys.Keys {
				if k.Kind == args[0] && k.Stage == "next" {
					say(cmd,
						"the server announces the next key to all hosts; once they have it, run this command again to activate it\n")
				}
			}
			return printKeys(cmd, &s, o, keys)
		}),
		ValidArgsFunction: keyKinds,
	}
	cmd.Flags().DurationVar(&keep, "keep", 0,
		"how long the server keeps the present key for hosts that are away (default 4320h, 180 days)")
	cmd.Flags().BoolVar(&force, "force", false, "do not wait for online hosts that have not received the next key")
	o.flags(cmd, asTable, asWide, asJSON, asYAML, asName)
	s.flags(cmd)
	cmd.PreRunE = chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if cmd.Flags().Changed("keep") && keep < time.Minute {
			return usagef("--keep %s: expected 1m or more", keep)
		}
		return nil
	})
	return cmd
}
