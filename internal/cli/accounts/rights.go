package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/server/access"
)

// grantsOf parses rights in text form.
func grantsOf(texts []string) ([]v1.Grant, error) {
	grants := make([]v1.Grant, len(texts))
	var faults []string
	for i, text := range texts {
		g, err := access.ParseGrant(text)
		if err != nil {
			faults = append(faults, err.Error())
		}
		grants[i] = v1.Grant(g)
	}
	if len(faults) > 0 {
		return nil, term.Usagef("%s", strings.Join(faults, "; "))
	}
	return grants, nil
}

// grantText is a right, and whether it has ended.
func grantText(g v1.Grant) string {
	right := access.Grant(g)
	if right.Ended(time.Now()) {
		return right.String() + " (ended)"
	}
	return right.String()
}

// rightsText is all rights of an app or a user.
func rightsText(admin bool, grants []v1.Grant) string {
	if admin {
		return "everything"
	}
	texts := make([]string, len(grants))
	for i, g := range grants {
		texts[i] = grantText(g)
	}
	return strings.Join(texts, "; ")
}

// bounds are the end and the limit of the rights that a command gives.
type bounds struct {
	until      string
	maxTargets int
	given      func(flag string) bool
}

func (b *bounds) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&b.until, "until", "", "when the rights end: RFC 3339, or a time from now on such as 8h")
	flags.IntVar(&b.maxTargets, "max-targets", 0, "how many targets, processes times hosts, one call may change")
	b.given = flags.Changed
}

// set gives rights the end and the limit of the flags.
func (b *bounds) set(grants []v1.Grant) error {
	var faults []string
	until, err := term.Ahead("--until", b.until)
	switch {
	case err != nil:
		faults = append(faults, err.Error())
	case b.given("until") && !until.After(time.Now()):
		faults = append(faults, fmt.Sprintf("--until %q: expected a time to come", b.until))
	}
	if b.given("max-targets") && b.maxTargets <= 0 {
		faults = append(faults, fmt.Sprintf("--max-targets %d: expected 1 or more", b.maxTargets))
	}
	if len(faults) > 0 {
		return term.Usagef("%s", strings.Join(faults, "; "))
	}
	for i := range grants {
		if b.given("until") {
			grants[i].Until = until.UTC().Truncate(time.Second)
		}
		if b.given("max-targets") {
			grants[i].MaxTargets = b.maxTargets
		}
	}
	return nil
}

func appGrant() remote.Verb[v1.App] {
	var b bounds
	return remote.Verb[v1.App]{
		Use:   "grant CODE RIGHT...",
		Flags: b.flags, Call: changeApp(b.add),
	}
}

func appRevoke() remote.Verb[v1.App] {
	return remote.Verb[v1.App]{
		Use:  "revoke CODE RIGHT...",
		Call: changeApp(removeRights),
	}
}

func userGrant() remote.Verb[v1.User] {
	var b bounds
	return remote.Verb[v1.User]{
		Use:   "grant NAME RIGHT...",
		Flags: b.flags, Call: changeUser(b.add), Done: "user %s has the rights from now on",
	}
}

func userRevoke() remote.Verb[v1.User] {
	return remote.Verb[v1.User]{
		Use:  "revoke NAME RIGHT...",
		Call: changeUser(removeRights), Done: "user %s no longer has the rights",
	}
}

// rightsChange adds rights in text form to others, or removes them.
type rightsChange func(have []access.Grant, rights []string) ([]access.Grant, error)

func (b *bounds) add(have []access.Grant, rights []string) ([]access.Grant, error) {
	given, err := grantsOf(rights)
	if err := errors.Join(err, b.set(given)); err != nil {
		return nil, err
	}
	for _, g := range given {
		have = access.With(have, access.Grant(g))
	}
	return have, nil
}

func removeRights(have []access.Grant, rights []string) ([]access.Grant, error) {
	for _, right := range rights {
		kept, removed := access.Without(have, right)
		if !removed {
			given, err := grantsOf([]string{right})
			if err != nil {
				return nil, err
			}
			return nil, term.NoSuchf("there is no right %q", access.Grant(given[0]).String())
		}
		have = kept
	}
	return have, nil
}

// changed applies a change to the rights of a record.
func changed(have []v1.Grant, rights []string, change rightsChange) ([]v1.Grant, error) {
	list := make([]access.Grant, len(have))
	for i, g := range have {
		list[i] = access.Grant(g)
	}
	list, err := change(list, rights)
	if err != nil {
		return nil, err
	}
	grants := make([]v1.Grant, len(list))
	for i, g := range list {
		grants[i] = v1.Grant(g)
	}
	return grants, nil
}

// changeApp returns a call that changes the rights of an app.
func changeApp(change rightsChange) func(context.Context, *client.Client, []string) (v1.App, error) {
	return func(ctx context.Context, c *client.Client, args []string) (v1.App, error) {
		a, err := c.App(ctx, args[0])
		if err != nil {
			return v1.App{}, err
		}
		if a.Grants, err = changed(a.Grants, args[1:], change); err != nil {
			return v1.App{}, err
		}
		return c.ChangeApp(ctx, args[0], v1.AppChange{Grants: &a.Grants})
	}
}

// changeUser returns a call that changes the rights of a user.
func changeUser(change rightsChange) func(context.Context, *client.Client, []string) (v1.User, error) {
	return func(ctx context.Context, c *client.Client, args []string) (v1.User, error) {
		u, err := c.User(ctx, args[0])
		if err != nil {
			return v1.User{}, err
		}
		if u.Grants, err = changed(u.Grants, args[1:], change); err != nil {
			return v1.User{}, err
		}
		return c.ChangeUser(ctx, args[0], v1.UserChange{Grants: &u.Grants})
	}
}
