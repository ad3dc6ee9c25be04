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
		Short: "Go one step further with the keys of a kind: manifest, ca or agent-signer",
		Long: `Go one step further with the keys of a kind: manifest, ca or agent-signer. The first time the next key is made, and hosts are told of
it within seconds, signed by the present one. The second time it is taken into use, and the present one becomes a former one: it is
used only for hosts that were away and know no later key, until its time is over.

The second step is refused while a host that is online has not taken the next key. Where several servers share a database, import the
keys of this one into the others between the two steps ('drover server keys').`,
		Example: `  drover keys rotate manifest     # the next key is made and made known
  drover keys list                # until all hosts that are online go by it
  drover keys rotate manifest     # it is taken into use`,
		Args: exactly("KIND"),
		RunE: asking(&s, func(ctx context.Context, c *client.Client, args []string) (client.Keys, error) {
			return c.RotateKeys(ctx, args[0], keep, force)
		}, func(cmd *cobra.Command, args []string, keys client.Keys) error {
			for _, k := range keys.Keys {
				if k.Kind == args[0] && k.Stage == "next" {
					say(cmd, "the next key is made known to hosts; run this again once they have it, to take it into use\n")
				}
			}
			return printKeys(cmd, &s, o, keys)
		}),
		ValidArgsFunction: keyKinds,
	}
	cmd.Flags().DurationVar(&keep, "keep", 0, "how long the present key is kept for hosts that are away, such as 4320h (default 4320h, 180 days)")
	cmd.Flags().BoolVar(&force, "force", false, "do not wait for hosts that are online and have not taken the next key")
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
