package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAppGrant() *cobra.Command {
	return appRights("grant CODE RIGHT...", "Give an app rights",
		"Add rights to those of an app. 'drover app --help' explains how to write a right.",
		`  drover app grant viewer 'read on biz:7' 'restart on web-* at area:0'`,
		func(have, given []client.Grant) ([]client.Grant, error) {
			for _, g := range given {
				if !slices.ContainsFunc(have, same(g)) {
					have = append(have, g)
				}
			}
			return have, nil
		})
}

func newAppRevoke() *cobra.Command {
	return appRights("revoke CODE RIGHT...", "Remove rights from an app",
		"Remove rights from an app. Write each right as 'drover app show' shows it.",
		`  drover app revoke viewer 'read on biz:7'`,
		func(have, given []client.Grant) ([]client.Grant, error) {
			for _, g := range given {
				i := slices.IndexFunc(have, same(g))
				if i < 0 {
					return nil, noSuchf("the app has no right %q", grantText(g))
				}
				have = slices.Delete(have, i, i+1)
			}
			return have, nil
		})
}

// same reports whether a right equals the given right in its text form.
func same(g client.Grant) func(client.Grant) bool {
	return func(other client.Grant) bool { return grantText(other) == grantText(g) }
}

func appRights(use, short, long, example string,
	change func(have, given []client.Grant) ([]client.Grant, error),
) *cobra.Command {
	var s session
	var o output
	return appVerb(&cobra.Command{
		Use:     use,
		Short:   short,
		Long:    long,
		Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return exactly("CODE", "RIGHT")(cmd, args)
			}
			return nil
		},
		RunE: changed(&s, &o, func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
			given, err := grantsOf(args[1:])
			if err != nil {
				return client.App{}, err
			}
			a, err := c.App(ctx, args[0])
			if err != nil {
				return client.App{}, err
			}
			grants, err := change(a.Grants, given)
			if err != nil {
				return client.App{}, err
			}
			return c.ChangeApp(ctx, args[0], client.AppChange{Grants: &grants})
		}),
	}, &s, &o)
}
