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

// rightsText is all rights of an app or a user.
func rightsText(admin bool, grants []client.Grant) string {
	if admin {
		return "everything"
	}
	texts := make([]string, len(grants))
	for i, g := range grants {
		texts[i] = grantText(g)
	}
	return strings.Join(texts, "; ")
}

func appGrant() remote.Verb[client.App] {
	return remote.Verb[client.App]{
		Use: "grant CODE RIGHT...", Short: "Give an app rights",
		Long:    "Add rights to those of an app. 'drover app --help' explains how to write a right.",
		Example: `  drover app grant viewer 'read on biz:7' 'restart on web-* at area:0'`,
		Call:    changeApp(addRight),
	}
}

func appRevoke() remote.Verb[client.App] {
	return remote.Verb[client.App]{
		Use: "revoke CODE RIGHT...", Short: "Remove rights from an app",
		Long:    "Remove rights from an app. Write each right as 'drover app show' shows it.",
		Example: `  drover app revoke viewer 'read on biz:7'`,
		Call:    changeApp(removeRight),
	}
}

func userGrant() remote.Verb[client.User] {
	return remote.Verb[client.User]{
		Use: "grant NAME RIGHT...", Short: "Give a user rights or a role",
		Long:    "Add rights to those of a user. 'drover user --help' names the roles.",
		Example: `  drover user grant anna 'operator on shop* at label:env=prod' 'viewer on *'`,
		Call:    changeUser(addRight), Done: "user %s has the rights from now on",
	}
}

func userRevoke() remote.Verb[client.User] {
	return remote.Verb[client.User]{
		Use: "revoke NAME RIGHT...", Short: "Remove rights from a user",
		Long:    "Remove rights from a user. Write each right as 'drover user list' shows it.",
		Example: `  drover user revoke anna 'viewer on *'`,
		Call:    changeUser(removeRight), Done: "user %s no longer has the rights",
	}
}

// rightChange adds a right to others, or removes it.
type rightChange func(have []client.Grant, given client.Grant) ([]client.Grant, error)

func addRight(have []client.Grant, given client.Grant) ([]client.Grant, error) {
	if slices.ContainsFunc(have, same(given)) {
		return have, nil
	}
	return append(have, given), nil
}

func removeRight(have []client.Grant, given client.Grant) ([]client.Grant, error) {
	i := slices.IndexFunc(have, same(given))
	if i < 0 {
		return nil, term.NoSuchf("there is no right %q", grantText(given))
	}
	return slices.Delete(have, i, i+1), nil
}

// same reports whether a right equals the given right in its text form.
func same(g client.Grant) func(client.Grant) bool {
	return func(other client.Grant) bool { return grantText(other) == grantText(g) }
}

// changed applies a change for each right in text form.
func changed(have []client.Grant, texts []string, change rightChange) ([]client.Grant, error) {
	given, err := grantsOf(texts)
	for _, g := range given {
		if err == nil {
			have, err = change(have, g)
		}
	}
	return have, err
}

// changeApp returns a call that changes the rights of an app.
func changeApp(change rightChange) func(context.Context, *client.Client, []string) (client.App, error) {
	return func(ctx context.Context, c *client.Client, args []string) (client.App, error) {
		a, err := c.App(ctx, args[0])
		if err != nil {
			return client.App{}, err
		}
		if a.Grants, err = changed(a.Grants, args[1:], change); err != nil {
			return client.App{}, err
		}
		return c.ChangeApp(ctx, args[0], client.AppChange{Grants: &a.Grants})
	}
}

// changeUser returns a call that changes the rights of a user.
func changeUser(change rightChange) func(context.Context, *client.Client, []string) (client.User, error) {
	return func(ctx context.Context, c *client.Client, args []string) (client.User, error) {
		u, err := c.User(ctx, args[0])
		if err != nil {
			return client.User{}, err
		}
		if u.Grants, err = changed(u.Grants, args[1:], change); err != nil {
			return client.User{}, err
		}
		return c.ChangeUser(ctx, args[0], client.UserChange{Grants: &u.Grants})
	}
}
