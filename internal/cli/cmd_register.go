package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
)

func newRegister() *cobra.Command {
	var s session
	var a act
	var hosts []string
	var file string
	var replace bool
	cmd := &cobra.Command{
		Use:   "register NAMESPACE/NAME --hosts HOST,... --file FILE",
		Short: "Make a process known to hosts, and how it is run",
		Long: `Make a process known to hosts: how it is started, stopped and found again. It is neither started nor watched; 'drover start'
does that. A process that a host knows already is a failure; --replace changes it.

The file is YAML or JSON; - reads the standard input. Times are seconds. All but proc_name, setup_path and user may be left out. This is all that
there is; the numbers of policy and probes are the defaults:

` + indented(specExample) + `
'drover ps -o json' shows hosts; 'drover status NAMESPACE/NAME -o yaml' shows the spec of a process.`,
		Example: `  drover register web/nginx --hosts 0:10.0.0.1,0:10.0.0.2 --file nginx.yaml
  drover register web/nginx --hosts '0:10.0.*' --file nginx.yaml --replace --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, err := splitID(args[0])
			if err != nil {
				return err
			}
			if file == "" || len(hosts) == 0 {
				return usagef("%s: --hosts and --file are needed", cmd.CommandPath())
			}
			spec, err := readSpec(cmd.InOrStdin(), file)
			if err != nil {
				return err
			}
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			found, err := hostsNamed(cmd.Context(), c, hosts)
			if err != nil {
				return err
			}
			targets := make([]chosen, len(found))
			for i, h := range found {
				targets[i] = chosen{namespace, name, h}
			}
			a.session, a.op = &s, "register"
			if replace {
				a.op = "update"
			}
			return a.carryOut(cmd, c, targets, spec)
		},
		Args:              exactly("NAMESPACE/NAME"),
		ValidArgsFunction: only(completeProcesses(&s)),
	}
	cmd.Flags().StringSliceVar(&hosts, "hosts", nil, "the hosts, or patterns of hosts")
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the spec, - for the standard input")
	cmd.Flags().BoolVar(&replace, "replace", false, "change the spec of a process that is known already")
	completeHosts(cmd, &s)
	a.flags(cmd)
	s.waitingFlags(cmd)
	return cmd
}

// indented sets each line of a text off.
func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// hostsNamed returns the ids of the hosts of some patterns. A pattern without a host is an error.
func hostsNamed(ctx context.Context, c *client.Client, patterns []string) ([]string, error) {
	var ids []string
	seen := map[string]bool{}
	for _, pattern := range patterns {
		agents, err := client.Collect(c.Agents(ctx, client.AgentFilter{Hosts: []string{pattern}}))
		if err != nil {
			return nil, exitOf(err)
		}
		if len(agents) == 0 {
			return nil, noSuchf("no host matches %s", pattern)
		}
		for _, a := range agents {
			if !seen[a.ID] {
				seen[a.ID] = true
				ids = append(ids, a.ID)
			}
		}
	}
	return ids, nil
}
