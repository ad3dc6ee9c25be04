package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newUserList() *cobra.Command {
	var s session
	var o output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List users",
		Args:  exactly(),
		RunE: listCommand(&s, &o, "no users", userColumns(), func(u client.User) string { return u.Name },
			func(ctx context.Context, c *client.Client, _ []string) ([]client.User, error) {
				return client.Collect(c.Users(ctx))
			}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.flags(cmd, asTable, asJSON, asYAML, asName)
	s.flags(cmd)
	return cmd
}

func userColumns() []column[client.User] {
	return []column[client.User]{
		{head: "NAME", cell: func(u client.User) string { return u.Name }},
		{head: "STATE", state: true, cell: func(u client.User) string {
			if u.Disabled {
				return "disabled"
			}
			return "enabled"
		}},
		{head: "CREATED", cell: func(u client.User) string { return stamp(&u.CreatedAt) }},
		{head: "NOTE", cell: func(u client.User) string { return u.Note }},
	}
}
