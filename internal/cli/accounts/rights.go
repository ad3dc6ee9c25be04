package accounts

import (
	"context"
	"slices"
	"strings"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/server/access"
)

// grantsOf parses rights in text form.
func grantsOf(texts []string) ([]client.Grant, error) {
	grants := make([]client.Grant, len(texts))
	for i, text := range texts {
		g, err := access.ParseGrant(text)
		if err != nil {
			return nil, term.Usagef("%w", err)
		}
		grants[i] = client.Grant(g)
	}
	return grants, nil
}

func grantText(g client.Grant) string { return access.Grant(g).String() }

// rightsText is all rights of an app.
func rightsText(a client.App) string {
	if a.Admin {
		return "everything"
	}
	texts := make([]string, len(a.Grants))
	for i, g := range a.Grants {
		texts[i] = grantText(g)
	}
	return strings.Join(texts, "; ")
}

func appGrant() remote.Verb[client.App] {
	return remote.Verb[client.App]{
		Use: "grant CODE RIGHT...", Short: "Give an app rights",
		Long:    "Add rights to those of an app. 'drover app --help' explains how to write a right.",
		Example: `  drover app grant viewer 'read on biz:7' 'restart on web-* at area:0'`,
		Call: changeRights(func(have []client.Grant, given client.Grant) ([]client.Grant, error) {
			if slices.ContainsFunc(have, same(given)) {
				return have, nil
			}
			return append(have, given), nil
		}),
	}
}

func appRevoke() remote.Verb[client.App] {
	return remote.Verb[client.App]{
		Use: "revoke CODE RIGHT...", Short: "Remove rights from an app",
		Long:    "Remove rights from an app. Write each right as 'drover app show' shows it.",
		Example: `  drover app revoke viewer 'read on biz:7'`,
		Call: changeRights(func(have []client.Grant, given client.Grant) ([]client.Grant, error) {
			i := slices.IndexFunc(have, same(given))
			if i < 0 {
				return nil, term.NoSuchf("the app has no right %q", grantText(given))
			}
			return slices.Delete(have, i, i+1), nil
		}),
	}
}

// same reports whether a right equals the given right in its text form.
func same(g client.Grant) func(client.Grant) bool {
	return func(other client.Grant) bool { return grantText(other) == grantText(g) }
}

// changeRights returns a call that changes the rights of an app by each of the given rights.
func changeRights(change func(have []client.Grant, given client.Grant) ([]client.Grant, error),
) func(context.Context, *client.Client, []string) (client.App, error) {
	return func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
		given, err := grantsOf(args[1:])
		if err != nil {
			return client.App{}, err
		}
		a, err := c.App(ctx, args[0])
		if err != nil {
			return client.App{}, err
		}
		for _, g := range given {
			if a.Grants, err = change(a.Grants, g); err != nil {
				return client.App{}, err
			}
		}
		return c.ChangeApp(ctx, args[0], client.AppChange{Grants: &a.Grants})
	}
}
