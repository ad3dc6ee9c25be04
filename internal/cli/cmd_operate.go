package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"drover/client"
)

// verb is an operation on processes that are known already.
type verb struct {
	op, short, long string
}

// verbs lists them; each is a command.
func verbs() []verb {
	return []verb{
		{
			"start", "Start processes, and keep them running",
			"Start processes and have them watched: one that ends by itself is started again. One that runs already stays as it is.",
		},
		{
			"stop", "Stop processes, and leave them stopped",
			"Stop processes and watch them no longer. One that does not run stays as it is.",
		},
		{"restart", "Restart processes", "Restart processes, and have them watched from then on."},
		{"reload", "Have processes read their configuration again", "Run the reload command of processes; they go on running."},
		{
			"kill", "Kill processes at once",
			"Run the kill command of processes; where that is empty, kill the whole tree of each. They are watched no longer.",
		},
		{
			"host", "Watch processes, and start them again when they end by themselves",
			"Have processes watched: one that does not run is started.",
		},
		{
			"unhost", "Watch processes no longer, and leave them as they are",
			"Have processes watched no longer. Those that run go on running, and are not started again when they end.",
		},
		{
			"retry", "Try again what was given up",
			"Have hosted processes start with a full budget of restarts: one that was given up, or waits for its next try, is started at once.",
		},
		{
			"unregister", "Forget processes, and leave them as they are",
			"Forget processes. Those that run go on running, and nobody watches them.",
		},
	}
}

func newOperate(v verb) *cobra.Command {
	var s session
	var a act
	var hosts []string
	cmd := &cobra.Command{
		Use:   v.op + " NAMESPACE/NAME...",
		Short: v.short,
		Long: v.long + `

It is done on every host that knows the process, or on those of --hosts. More than one is asked about first; without a
terminal that needs --yes. Ctrl-C ends the waiting, not the operation. A host that is gone is given up after 10 s at most, or after
--host-timeout, and does not begin the operation later; what is known of the others is printed meanwhile.

Exit codes: 0 done, 1 failed, 4 no such process, 5 not allowed, 6 unreachable or not done in time, 7 done on some only.`,
		Example: fmt.Sprintf(`  drover %[1]s web/nginx
  drover %[1]s 'web/*' --hosts '0:10.2.*' --yes
  drover %[1]s --failed-of op-x7k2m9q4w1zd --yes`, v.op),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			a.session, a.op = &s, v.op
			targets, err := a.targets(cmd, c, args, hosts)
			if err != nil {
				return err
			}
			return a.carryOut(cmd, c, targets, nil)
		},
		ValidArgsFunction: completeProcesses(&s),
	}
	cmd.Flags().StringSliceVar(&hosts, "hosts", nil, "only on these hosts, or on those of a pattern")
	cmd.Flags().StringVar(&a.failedOf, "failed-of", "", "what failed in the task of this id, in place of names")
	completeHosts(cmd, &s)
	a.flags(cmd)
	s.waitingFlags(cmd)
	return cmd
}

// targets returns what the command is about.
func (a *act) targets(cmd *cobra.Command, c *client.Client, args, hosts []string) ([]chosen, error) {
	var targets []chosen
	if a.failedOf != "" {
		if len(args)+len(hosts) > 0 {
			return nil, usagef("--failed-of goes with neither names nor --hosts")
		}
		results, err := client.Collect(c.Results(cmd.Context(), a.failedOf, client.ResultFilter{Outcome: "failed"}))
		if err != nil {
			return nil, exitOf(err)
		}
		for _, r := range results {
			targets = append(targets, chosen{r.Namespace, r.Name, r.Host})
		}
		if len(targets) == 0 {
			return nil, noSuchf("nothing failed in %s", a.failedOf)
		}
		return targets, nil
	}
	if len(args) == 0 {
		return nil, usagef("%s: NAMESPACE/NAME is missing", cmd.CommandPath())
	}
	found, err := choose(cmd.Context(), c, args, hosts, false)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		targets = append(targets, chosen{p.Namespace, p.Name, p.Host.ID})
	}
	return targets, nil
}
