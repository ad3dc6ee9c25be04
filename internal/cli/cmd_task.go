package cli

import "github.com/spf13/cobra"

func newTask() *cobra.Command {
	return noun("task", "List, show and follow tasks",
		`List, show and follow tasks. A task is one call of an operation, by this command line or by
a program. The server keeps a task for some days after its end. The beginning of its id, such as
20260131, is enough to name a recent task.`,
		newTaskList(), newTaskGet(), newTaskWatch())
}
