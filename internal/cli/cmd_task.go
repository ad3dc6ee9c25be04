package cli

import "github.com/spf13/cobra"

func newTask() *cobra.Command {
	return noun("task", "See what was asked for, and what came of it", `See what was asked for, and what came of it on each host. A task is one call of an operation, by this command line or by a
program; it is kept for some days after it has ended. A recent one may be named by the beginning of its id, such as 20260131.`,
		newTaskList(), newTaskGet(), newTaskWatch())
}
