package cli

import "github.com/spf13/cobra"

func newTaskWatch() *cobra.Command {
	var s session
	var o output
	cmd := &cobra.Command{
		Use:   "watch TASK",
		Short: "Follow a task until it is done",
		Long: `Follow a task until it is done. Ctrl-C ends the command, not the task.

Exit codes: 0 done, 1 failed, 6 unreachable or timed out, 7 done on some targets only.`,
		Args: exactly("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			task, err := taskNamed(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			w := waiter{session: &s, output: o}
			return w.finish(cmd, c, task)
		},
		ValidArgsFunction: completeTasks(&s),
	}
	o.flags(cmd, asTable, asJSON, asYAML, asName)
	s.waitingFlags(cmd)
	return cmd
}
