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
		Short: "Give an app a new secret, and let the old one count for a while",
		Long: `Give an app a new secret, which is printed once, and let the old one count for a while, so that its callers can change over
without a gap.`,
		Example: `  drover app rotate bk_nodeman --keep 48h`,
		RunE: changed(&s, &o, func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
			if keep < time.Second {
				return client.App{}, usagef("--keep %s: expected 1s or more; 'drover app reset-secret' ends the old one now", keep)
			}
			return c.NewSecret(ctx, args[0], keep)
		}),
	}
	cmd.Flags().DurationVar(&keep, "keep", 24*time.Hour, "how long the old secret counts on, at most 2160h")
	return appVerb(cmd, &s, &o)
}
