package cli

import (
	"context"
	"fmt"
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
		Short:   "Give a user a token, and print it once",
		Long:    "Give a user a token, and print it. It is shown this once, and stored only as a hash.",
		Example: `  drover user token anna --ttl 720h --note laptop`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if ttl < 0 || ttl > 0 && ttl < time.Second {
				return usagef("--ttl %s: expected 1s or more, or 0 for ever", ttl)
			}
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			t, err := c.CreateToken(cmd.Context(), args[0], note, ttl)
			if err != nil {
				return exitOf(err)
			}
			if o.form != asText {
				return printValue(cmd.OutOrStdout(), o.form, t)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), t.Token)
			say(cmd, "the token is shown this once, and stored only as a hash\n")
			return err
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "how long it counts, such as 720h; 0 is for ever")
	cmd.Flags().StringVar(&note, "note", "", "a note for people")
	o.flags(cmd, asText, asJSON, asYAML)
	return userVerb(cmd, &s)
}

func newUserTokens() *cobra.Command {
	var s session
	var o output
	cmd := &cobra.Command{
		Use:   "tokens NAME",
		Short: "List the tokens of a user",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			tokens, err := c.Tokens(cmd.Context(), args[0])
			if err != nil {
				return exitOf(err)
			}
			if len(tokens) == 0 {
				say(cmd, "no tokens\n")
			}
			return printList(cmd, &s, o, tokens, tokenColumns(), func(t client.Token) string { return t.ID })
		},
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
		Short: "End a token of a user, by its id",
		Args:  exactly("NAME", "TOKEN"),
		RunE: telling(&s, "has lost the token", func(ctx context.Context, c *client.Client, args []string) error {
			return c.DeleteToken(ctx, args[0], args[1])
		}),
	}, &s)
}
