package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/process"
)

func newTaskList() *cobra.Command {
	var s session
	var o output
	var f client.OperationFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, newest first",
		Args:  exactly(),
		RunE: listCommand(&s, &o, "no tasks", taskColumns(), func(t client.Operation) string { return t.ID },
			func(ctx context.Context, c *client.Client, _ []string) ([]client.Operation, error) {
				return client.Collect(c.Operations(ctx, f))
			}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&f.State, "state", "", "only tasks in this state: running or done")
	cmd.Flags().StringVar(&f.App, "app", "", "only tasks of this app")
	cmd.Flags().IntVar(&f.Limit, "limit", 20, "most tasks to list; 0 lists all")
	complete(cmd, "state", "running", "done")
	o.flags(cmd, asTable, asWide, asJSON, asYAML, asName)
	s.flags(cmd)
	return cmd
}

func taskColumns() []column[client.Operation] {
	return []column[client.Operation]{
		{head: "TASK", cell: func(t client.Operation) string { return t.ID }},
		{head: "STATE", cell: func(t client.Operation) string { return t.State }, state: true},
		{head: "OPERATION", cell: func(t client.Operation) string { return t.Op }},
		{head: "PROCESS", cell: func(t client.Operation) string {
			if t.Requests > 1 {
				return t.Subject + " and " + process.Count(t.Requests-1, "other", "others")
			}
			return t.Subject
		}},
		{head: "OK", cell: func(t client.Operation) string { return strconv.Itoa(t.Counts.OK) }},
		{head: "FAILED", cell: func(t client.Operation) string { return strconv.Itoa(t.Counts.Failed) }},
		{head: "RUNNING", cell: func(t client.Operation) string { return strconv.Itoa(t.Counts.Pending) }},
		{head: "AGE", cell: func(t client.Operation) string { return since(&t.CreatedAt) }},
		{head: "BY", cell: func(t client.Operation) string { return by(t.App, t.User) }},
		{head: "REQUEST", wide: true, cell: func(t client.Operation) string { return t.RequestID }},
	}
}

// by is the caller: app and user.
func by(app, user string) string {
	switch {
	case app == "":
		return user
	case user == "":
		return app
	default:
		return user + " through " + app
	}
}
