package accounts

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// NewUser returns the commands about users and their tokens.
func NewUser() *cobra.Command {
	var note string
	var admin bool
	cmd := remote.Resource[v1.User]{
		Use:  "user",
		List: userList(), Names: userList().Names,
		Verbs: []remote.Verb[v1.User]{
			{
				Use: "create NAME", New: true,
				Flags: func(cmd *cobra.Command) {
					cmd.Flags().StringVar(&note, "note", "", "a note for administrators")
					cmd.Flags().BoolVar(&admin, "admin", false, "give the user every right")
				},
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.User, error) {
					return c.CreateUser(ctx, v1.UserChange{Name: args[0], Note: &note, Admin: &admin})
				},
				Done: "created user %s; 'drover user grant' gives the user rights, 'drover login' signs a browser in",
			},
			userGrant(), userRevoke(),
			{
				Use:  "disable NAME",
				Call: switchUser(true), Done: "user %s is disabled",
			},
			{
				Use:  "enable NAME",
				Call: switchUser(false), Done: "user %s is enabled",
			},
			{
				Use: "drop NAME TOKEN",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.User, error) {
					return v1.User{}, dropToken(ctx, c, args[0], args[1])
				},
				Done: "ended the token of user %s",
			},
		},
	}.Command()
	cmd.AddCommand(newUserToken()...)
	cmd.AddCommand(newUserTokens())
	return cmd
}

// dropToken ends the token with an id, or the only one whose id begins so.
func dropToken(ctx context.Context, c *client.Client, user, id string) error {
	_, err := remote.ByPrefix(id, func(id string) (v1.Token, error) {
		return v1.Token{}, c.DeleteToken(ctx, user, id)
	}, remote.Each(func() ([]v1.Token, error) { return c.Tokens(ctx, user) }),
		func(t v1.Token) string { return t.ID })
	return err
}

func userList() remote.List[v1.User] {
	return remote.List[v1.User]{
		Use: "list", None: "no users",
		ID: func(u v1.User) string { return u.Name },
		Columns: []term.Column[v1.User]{
			{Head: "NAME", Cell: func(u v1.User) string { return u.Name }},
			{Head: "STATE", State: true, Cell: func(u v1.User) string {
				if u.Disabled {
					return "disabled"
				}
				return "enabled"
			}},
			{Head: "RIGHTS", Cell: func(u v1.User) string { return rightsText(u.Admin, u.Grants) }},
			{Head: "BY GROUPS", Cell: func(u v1.User) string {
				if u.Provider == nil {
					return ""
				}
				return strings.Join(u.Provider.Groups, ", ") + ": " + rightsText(u.Provider.Admin, u.Provider.Grants)
			}},
			{Head: "CREATED", Cell: func(u v1.User) string { return term.Stamp(&u.CreatedAt) }},
			{Head: "NOTE", Cell: func(u v1.User) string { return u.Note }},
		},
		Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.User, error) {
			return client.Collect(c.Users(ctx))
		},
	}
}

func switchUser(disabled bool) func(context.Context, *client.Client, []string) (v1.User, error) {
	return func(ctx context.Context, c *client.Client, args []string) (v1.User, error) {
		return c.ChangeUser(ctx, args[0], v1.UserChange{Disabled: &disabled})
	}
}

func newUserToken() []*cobra.Command {
	var ttl time.Duration
	var note string
	return remote.Resource[v1.Token]{
		Names: userList().Names,
		Once: func(t v1.Token) (text, note string) {
			return t.Token + "\n", "drover shows the token only this once, and stores only its hash"
		},
		Verbs: []remote.Verb[v1.Token]{{
			Use: "token NAME",
			Flags: func(cmd *cobra.Command) {
				term.LengthVar(cmd.Flags(), &ttl, "ttl", 0, "how long the token is valid, such as 720h; 0 is for ever")
				cmd.Flags().StringVar(&note, "note", "", "a note for administrators")
				cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
					if ttl < 0 || ttl > 0 && ttl < time.Second {
						return term.Usagef("--ttl %s: expected 1s or more, or 0 for ever", ttl)
					}
					return nil
				})
			},
			Call: func(ctx context.Context, c *client.Client, args []string) (v1.Token, error) {
				return c.CreateToken(ctx, args[0], note, ttl)
			},
		}},
	}.Commands()
}

func newUserTokens() *cobra.Command {
	var s remote.Session
	cmd := remote.List[v1.Token]{
		Use: "tokens NAME", None: "no tokens",
		ID: func(t v1.Token) string { return t.ID },
		Columns: []term.Column[v1.Token]{
			{Head: "ID", Cell: func(t v1.Token) string { return t.ID }},
			{Head: "KIND", Cell: func(t v1.Token) string { return t.Kind }},
			{Head: "CREATED", Cell: func(t v1.Token) string { return term.Stamp(&t.CreatedAt) }},
			{Head: "SEEN", Cell: func(t v1.Token) string { return term.Stamp(t.SeenAt) }},
			{Head: "ENDS", Cell: func(t v1.Token) string { return term.Stamp(t.ExpiresAt) }},
			{Head: "NOTE", Cell: func(t v1.Token) string { return t.Note }},
		},
		Rows: func(ctx context.Context, c *client.Client, args []string) ([]v1.Token, error) {
			return c.Tokens(ctx, args[0])
		},
	}.Command(&s)
	cmd.ValidArgsFunction = userList().Names(&s)
	return cmd
}
