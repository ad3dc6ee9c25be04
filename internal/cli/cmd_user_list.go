package cli

import (
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			users, err := client.Collect(c.Users(cmd.Context()))
			if err != nil {
				return exitOf(err)
			}
			if len(users) == 0 {
				say(cmd, "no users\n")
			}
			return printList(cmd, &s, o, users, userColumns(), func(u client.User) string { return u.Name })
		},
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
