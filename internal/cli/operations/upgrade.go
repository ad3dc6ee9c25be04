package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// NewUpgrade returns 'drover hosts upgrade'. It is a rollout, so it is here.
func NewUpgrade() *cobra.Command {
	var a Command
	s, plan := &a.Session, &a.rollout
	var hosts remote.Hosts
	to := ""
	cmd := &cobra.Command{
		Use:  "upgrade [HOST...] --to VERSION",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if plan.batch == "" {
				plan.batch = "100%"
			}
			p, err := plan.read()
			if err != nil {
				return err
			}
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			if err := hosts.Only(cmd.Context(), c); err != nil {
				return err
			}
			r := v1.UpgradeRequest{
				Version: to, Hosts: hosts.Names, Select: hosts.Selector, At: plan.At, Rollout: &p,
			}
			if a.DryRun {
				p, err := c.PlanUpgrade(cmd.Context(), r)
				if err != nil {
					return cmp.Or(hosts.UnmatchedAfter(cmd.Context(), c, err), remote.ExitOf(err))
				}
				return a.showPlan(cmd, c, p)
			}
			if err := a.confirmUpgrade(cmd, c, r); err != nil {
				return err
			}
			begun, err := Uninterrupted(cmd.Context(), func(ctx context.Context) (v1.Rollout, error) {
				return c.UpgradeAgents(ctx, r)
			}, s.Again("rollout list"))
			if err != nil {
				return cmp.Or(hosts.UnmatchedAfter(cmd.Context(), c, err), err)
			}
			return Attend(cmd, s, c, begun, a.NoWait)
		},
		ValidArgsFunction: remote.Completing(s, remote.HostIDs),
	}
	hosts.ChangeFlags(cmd, s, "further hosts")
	cmd.Flags().StringVar(&to, "to", "", "version of the agent")
	cmd.Flags().BoolVarP(&a.Yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&a.NoWait, "no-wait", false, "print the id of the rollout and return")
	cmd.Flags().BoolVar(&a.DryRun, "dry-run", false, "check the command, print its targets, and do nothing")
	plan.flags(cmd, true)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) error {
		var faults []error
		if !cmd.Flags().Changed("to") {
			faults = append(faults, term.Usagef("--to is missing: expected a version of 'drover packages list'"))
		}
		hosts.Also(args)
		if hosts.Any() {
			faults = append(faults, term.Usagef("HOST is missing: expected hosts, or --selector"))
		}
		return errors.Join(faults...)
	})
	s.WaitingFlags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	return cmd
}

// confirmUpgrade asks for confirmation if a request is about more than one host.
func (a *Command) confirmUpgrade(cmd *cobra.Command, c *client.Client, r v1.UpgradeRequest) error {
	if a.Yes {
		return nil
	}
	count := 0
	for _, err := range c.Hosts(cmd.Context(), client.HostFilter{Hosts: r.Hosts, Selector: r.Select}) {
		if err != nil {
			return remote.ExitOf(err)
		}
		count++
	}
	if count < 2 {
		return nil
	}
	return a.AskFirst(cmd, fmt.Sprintf("upgrade the agents of %d hosts to %s", count, r.Version), count)
}
