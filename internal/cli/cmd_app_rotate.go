package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAppRotate() *cobra.Command {
	var s session
	var o output
	var keep time.Duration
	cmd := &cobra.Command{
		Use:   "rotate CODE",
		Short: "Give an app a new secret, and keep the old one valid for a while",
		Long: `Give an app a new secret, and print it once. The old secret stays valid for the time
of --keep, so that callers can switch without a gap.`,
		Example: `  drover app rotate bk_nodeman --keep 48h`,
		RunE: changed(&s, &o, func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
			if keep < time.Second {
				return client.App{},
					usagef("--keep %s: expected 1s or more; 'drover app reset-secret' revokes the old secret now", keep)
			}
			return c.NewSecret(ctx, args[0], keep)
		}),
	}
	cmd.Flags().DurationVar(&keep, "keep", 24*time.Hour, "how long the old secret stays valid, at most 2160h")
	return appVerb(cmd, &s, &o)
}
