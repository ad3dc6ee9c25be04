package cli

import (
	"github.com/spf13/cobra"

	"drover/client"
)

func newTaskGet() *cobra.Command {
	var s session
	var o output
	var failed bool
	cmd := &cobra.Command{
		Use:   "get TASK",
		Short: "Show a task, and the result of each target",
		Args:  exactly("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			task, err := taskNamed(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			var f client.ResultFilter
			if failed {
				f.Outcome = "failed"
			}
			results, err := client.Collect(c.Results(cmd.Context(), task.ID, f))
			if err != nil {
				return exitOf(err)
			}
			if o.form == asTable {
				say(cmd, "%s: %s by %s, %s ago, %s\n", task.ID, task.Op, printable(by(task.App, task.User)),
					since(&task.CreatedAt), task.State)
			}
			w := waiter{session: &s, output: o}
			if o.form == asTable { // all of them: they were asked for
				return printList(cmd, &s, o, results, resultColumns(), func(r client.Result) string {
					return r.Namespace + "/" + r.Name
				})
			}
			return w.print(cmd, task, results)
		},
		ValidArgsFunction: completeTasks(&s),
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "only failed targets")
	o.flags(cmd, asTable, asJSON, asYAML, asName)
	s.flags(cmd)
	return cmd
}
