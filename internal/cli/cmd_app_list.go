package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAppList() *cobra.Command {
	var s session
	var o output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List apps",
		Args:  exactly(),
		RunE: listCommand(&s, &o, "no apps", appColumns(), func(a client.App) string { return a.Code },
			func(ctx context.Context, c *client.Client, _ []string) ([]client.App, error) {
				return client.Collect(c.Apps(ctx))
			}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.flags(cmd, asTable, asWide, asJSON, asYAML, asName)
	s.flags(cmd)
	return cmd
}

func appColumns() []column[client.App] {
	return []column[client.App]{
		{head: "CODE", cell: func(a client.App) string { return a.Code }},
		{head: "STATE", state: true, cell: kindOf},
		{head: "NAMES USERS", cell: func(a client.App) string { return yesNo(a.MayNameUsers) }},
		{head: "RIGHTS", cell: func(a client.App) string {
			if a.Admin {
				return "everything"
			}
			return grantTexts(a.Grants)
		}},
		{head: "LIMITS", wide: true, cell: func(a client.App) string { return limitText(a.Limits) }},
		{head: "CREATED", wide: true, cell: func(a client.App) string { return stamp(&a.CreatedAt) }},
		{head: "NOTE", wide: true, cell: func(a client.App) string { return a.Note }},
	}
}
