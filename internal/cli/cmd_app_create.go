package cli

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
)

// appFlags are what an app can be made or changed to.
type appFlags struct {
	note         string
	admin        bool
	mayNameUsers bool
	rate         float64
	burst        int
	concurrent   int
}

func (f *appFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.note, "note", "", "a note for administrators")
	flags.BoolVar(&f.admin, "admin", false, "grant every right, and the management of apps and users")
	flags.BoolVar(&f.mayNameUsers, "may-name-users", false, "let the app name its user without a proof")
	flags.Float64Var(&f.rate, "rate", 0, "limit of calls a second; 0 is no limit")
	flags.IntVar(&f.burst, "burst", 0, "burst of calls that the app may make after a pause")
	flags.IntVar(&f.concurrent, "concurrent", 0, "limit of concurrent calls; 0 is no limit")
}

// change copies the given flags. Limits change together: limits that are not given keep their values.
func (f *appFlags) change(cmd *cobra.Command, before client.Rates) client.AppChange {
	var change client.AppChange
	given := cmd.Flags().Changed
	if given("note") {
		change.Note = &f.note
	}
	if given("admin") {
		change.Admin = &f.admin
	}
	if given("may-name-users") {
		change.MayNameUsers = &f.mayNameUsers
	}
	limits := before
	if given("rate") {
		limits.Rate = f.rate
	}
	if given("burst") {
		limits.Burst = f.burst
	}
	if given("concurrent") {
		limits.Concurrent = f.concurrent
	}
	if limits != before {
		change.Limits = &limits
	}
	return change
}

func newAppCreate() *cobra.Command {
	var s session
	var o output
	var f appFlags
	var grants []string
	cmd := &cobra.Command{
		Use:   "create [CODE]",
		Short: "Create an app, and print its secret once",
		Long: `Create an app, and print its code and secret. drover shows the secret only this once.
Without CODE drover generates a code. A new app has no rights until you grant it one.`,
		Example: `  drover app create bk_nodeman --may-name-users --grant '* on *'
  drover app create viewer --grant 'read on biz:7' -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exactly("CODE")(cmd, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = changed(&s, &o, func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
		change := f.change(cmd, client.Rates{})
		if change.Code = "app-" + strings.ToLower(rand.Text()[:8]); len(args) == 1 {
			change.Code = args[0]
		}
		if len(grants) > 0 {
			parsed, err := grantsOf(grants)
			if err != nil {
				return client.App{}, err
			}
			change.Grants = &parsed
		}
		return c.CreateApp(ctx, change)
	})
	f.flags(cmd)
	cmd.Flags().StringArrayVar(&grants, "grant", nil, "a right of the new app; may be repeated")
	return appVerb(cmd, &s, &o)
}
