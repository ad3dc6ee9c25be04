package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newUserCreate() *cobra.Command {
	var s session
	var note string
	cmd := userVerb(&cobra.Command{
		Use:               "create NAME",
		Short:             "Create a user",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: actionCommand(&s, "created user %s; 'drover user token' creates a token for the user",
			func(ctx context.Context, c *client.Client, args []string) error {
				_, err := c.CreateUser(ctx, client.UserChange{Name: args[0], Note: &note})
				return err
			}),
	}, &s)
	cmd.Flags().StringVar(&note, "note", "", "a note for administrators")
	return cmd
}
