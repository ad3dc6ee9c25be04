package processes

import (
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
			found, err := hosts.IDs(cmd.Context(), c)
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
	hosts.ChangeFlags(cmd, &a.Session, "hosts to register the process on")
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the spec; - reads stdin")
	cmd.Flags().BoolVar(&replace, "replace", false, "change the spec if a host knows the process already")
	a.operateFlags(cmd)
	return cmd
}

// indented indents each line of a text.
func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
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
