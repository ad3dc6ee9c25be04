package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
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

The file is YAML or JSON; - reads the standard input. Times are seconds, and what is left out has its default:

  identity:
    proc_name: nginx            # the base name of the executable
    setup_path: /usr/sbin       # where the commands run
    pid_path: /run/nginx.pid
    user: root
  commands: {start: ./nginx, stop: ./nginx -s quit, reload: ./nginx -s reload}
  policy: {kind: resident, start_check_begin: 5, stop_check: 5, op_timeout: 60, start_retries: 4, start_interval: 10}

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
	completeHosts(cmd, &s, "hosts")
	a.flags(cmd)
	s.waitingFlags(cmd)
	return cmd
}

// maxSpec is the largest file with a spec that is read, in bytes.
const maxSpec = 1 << 20

// readSpec reads a spec. A misspelt name is refused: it would be a default.
func readSpec(in io.Reader, file string) (*client.Spec, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usagef("--file: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSpec+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	case len(data) > maxSpec:
		return nil, usagef("%s is over %d bytes", file, maxSpec)
	}
	data, err = yaml.YAMLToJSON(data)
	if err != nil {
		return nil, usagef("%s is no YAML: %w", file, err)
	}
	var spec client.Spec
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return nil, usagef("%s is no spec: %s", file, strings.TrimPrefix(err.Error(), "json: "))
	}
	return &spec, nil
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
