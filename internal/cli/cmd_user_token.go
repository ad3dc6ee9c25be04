package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
)

func newUserToken() *cobra.Command {
	var s session
	var o output
	var ttl time.Duration
	var note string
	cmd := &cobra.Command{
		Use:     "token NAME",
		Short:   "Create a token for a user, and print it once",
		Long:    "Create a token for a user, and print it. drover shows the token only this once, and stores only its hash.",
		Example: `  drover user token anna --ttl 720h --note laptop`,
		RunE: queryCommand(&s, func(ctx context.Context, c *client.Client, args []string) (client.Token, error) {
			if ttl < 0 || ttl > 0 && ttl < time.Second {
				return client.Token{}, usagef("--ttl %s: expected 1s or more, or 0 for ever", ttl)
			}
			return c.CreateToken(ctx, args[0], note, ttl)
		}, func(cmd *cobra.Command, _ []string, t client.Token) error {
			return showOnce(cmd, o, t, t.Token+"\n", "drover shows the token only this once, and stores only its hash")
		}),
	}
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "how long the token is valid, such as 720h; 0 is for ever")
	cmd.Flags().StringVar(&note, "note", "", "a note for administrators")
	o.flags(cmd, asText, asJSON, asYAML)
	return userVerb(cmd, &s)
}

func newUserTokens() *cobra.Command {
	var s session
	var o output
	cmd := &cobra.Command{
		Use:   "tokens NAME",
		Short: "List the tokens of a user",
		RunE: listCommand(&s, &o, "no tokens", tokenColumns(), func(t client.Token) string { return t.ID },
			func(ctx context.Context, c *client.Client, args []string) ([]client.Token, error) {
				return c.Tokens(ctx, args[0])
			}),
	}
	o.flags(cmd, asTable, asJSON, asYAML, asName)
	return userVerb(cmd, &s)
}

func tokenColumns() []column[client.Token] {
	return []column[client.Token]{
		{head: "ID", cell: func(t client.Token) string { return t.ID }},
		{head: "CREATED", cell: func(t client.Token) string { return stamp(&t.CreatedAt) }},
		{head: "ENDS", cell: func(t client.Token) string { return stamp(t.ExpiresAt) }},
		{head: "NOTE", cell: func(t client.Token) string { return t.Note }},
	}
}

func newUserRevoke() *cobra.Command {
	var s session
	return userVerb(&cobra.Command{
		Use:   "revoke NAME TOKEN",
		Short: "Revoke a token of a user, by its id",
		Args:  exactly("NAME", "TOKEN"),
		RunE: actionCommand(&s, "revoked the token of user %s",
			func(ctx context.Context, c *client.Client, args []string) error {
				return c.DeleteToken(ctx, args[0], args[1])
			}),
	}, &s)
}
