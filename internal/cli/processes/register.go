package processes

import (
	"context"
	_ "embed"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/processfile"
)

// NewRegister returns 'drover register'.
func NewRegister() *cobra.Command {
	var a operateCommand
	var hosts remote.Hosts
	var file string
	var replace bool
	cmd := &cobra.Command{
		Use:   "register NAMESPACE/NAME --hosts HOST,... --file FILE",
		Short: "Register a process and its spec on hosts",
		Long: `Register a process on hosts. Its spec says how to start, stop and find the process.
The command neither starts nor watches the process; 'drover start' does both. If a host knows the
process already, the command fails there; --replace changes the spec.

The file is YAML or JSON with the fields of one process, as in the files of 'drover apply'; - reads
stdin. 'drover explain' describes every field. An example:

` + indented(specExample) + `
'drover ps -o json' shows hosts; 'drover status NAMESPACE/NAME -o yaml' shows the spec of a process.`,
		Example: `  drover register web/nginx --hosts 0:10.0.0.1,0:10.0.0.2 --file nginx.yaml
  drover register web/nginx --hosts '0:10.0.*' --file nginx.yaml --replace --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, err := splitID(args[0])
			if err != nil {
				return err
			}
			if file == "" || hosts.Any() {
				return term.Usagef("%s: --hosts or --selector, and --file are needed", cmd.CommandPath())
			}
			spec, err := readSpec(cmd.InOrStdin(), file)
			if err != nil {
				return err
			}
			c, err := a.Client(cmd)
			if err != nil {
				return err
			}
			found, err := hostsNamed(cmd.Context(), c, &hosts)
			if err != nil {
				return err
			}
			targets := make([]processRef, len(found))
			for i, h := range found {
				targets[i] = processRef{namespace, name, h}
			}
			a.op, a.selector = "register", hosts.Selector
			if replace {
				a.op = "update"
			}
			return a.carryOut(cmd, c, targets, spec)
		},
		Args:              term.Args,
		ValidArgsFunction: remote.First(completeProcesses(&a.Session)),
	}
	hosts.QueryFlags(cmd, &a.Session, "hosts to register the process on")
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the spec; - reads stdin")
	cmd.Flags().BoolVar(&replace, "replace", false, "change the spec if a host knows the process already")
	a.operateFlags(cmd)
	return cmd
}

// indented indents each line of a text.
func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// hostsNamed returns the ids of the chosen hosts. A name or pattern without a match is an error.
func hostsNamed(ctx context.Context, c *client.Client, hosts *remote.Hosts) ([]string, error) {
	if err := hosts.Resolve(ctx, c); err != nil {
		return nil, err
	}
	filters := []client.AgentFilter{{Selector: hosts.Selector}}
	if len(hosts.Names) > 0 {
		filters = nil
		for _, name := range hosts.Names {
			filters = append(filters, client.AgentFilter{Hosts: []string{name}, Selector: hosts.Selector})
		}
	}
	var ids []string
	seen := map[string]bool{}
	for _, f := range filters {
		agents, err := client.Collect(c.Agents(ctx, f))
		if err != nil {
			return nil, remote.ExitOf(err)
		}
		if len(agents) == 0 {
			if err := remote.UnmatchedHost(ctx, c, f.Hosts); err != nil {
				return nil, err
			}
			return nil, term.NoSuchf("no host matches %s", strings.TrimSpace(strings.Join(f.Hosts, "")+" "+f.Selector))
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

// specExample is a spec with every field that one spec can have.
//
//go:embed spec.yaml
var specExample string

// readSpec reads a spec. It rejects a misspelt name, because the field would silently have its default.
func readSpec(in io.Reader, file string) (*client.Spec, error) {
	data, err := readFile(in, file)
	if err != nil {
		return nil, err
	}
	spec, err := processfile.ReadSpec(file, data)
	if err != nil {
		return nil, term.Usagef("%s is not a valid spec:\n  %s", file, strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return &spec, nil
}
