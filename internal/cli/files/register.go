package files

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/operations"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/processfile"
)

// NewRegister returns 'drover register'.
func NewRegister() *cobra.Command {
	var a operations.Command
	var hosts remote.Hosts
	var file string
	var revision int64
	var standing, replace bool
	cmd := &cobra.Command{
		Use: "register NAMESPACE/NAME --hosts HOST,... --file FILE|--revision N|--selection",
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, wrong := term.SplitID(args[0])
			var spec *v1.Spec
			if file != "" {
				var faults error
				spec, faults = readSpec(cmd.InOrStdin(), file)
				wrong = errors.Join(wrong, faults)
			}
			found, c, err := a.HostsOf(cmd, &hosts, wrong)
			if err != nil {
				return err
			}
			switch {
			case revision != 0:
				spec, err = revised(cmd.Context(), c, namespace, name, revision, found)
			case standing:
				spec, err = inForce(cmd.Context(), c, namespace, name, found)
			}
			if err != nil {
				return err
			}
			targets := make([]selection.ProcessRef, len(found))
			for i, h := range found {
				targets[i] = selection.ProcessRef{Namespace: namespace, Name: name, Host: h}
			}
			a.Op, a.Selector = "register", hosts.Selector
			if replace {
				a.Op = "update"
			}
			return a.CarryOut(cmd, c, targets, spec)
		},
		Args:              term.Args,
		ValidArgsFunction: remote.First(selection.CompleteProcesses(&a.Session)),
	}
	hosts.ChangeFlags(cmd, &a.Session, "hosts to register the process on")
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the spec; - reads stdin")
	revisionFlag(cmd, &revision, "take the spec from this revision of the namespace, instead of a file")
	cmd.Flags().BoolVar(&standing, "selection", false,
		"take the spec from the selection in force that the hosts match, instead of a file")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, _ []string) error { return oneSpec(cmd, &hosts) })
	cmd.Flags().BoolVar(&replace, "replace", false, "change the spec if a host knows the process already")
	a.OperateFlags(cmd)
	return cmd
}

// oneSpec rejects a command line without hosts, or without exactly one flag that says where the spec comes from.
func oneSpec(cmd *cobra.Command, hosts *remote.Hosts) error {
	given := slices.DeleteFunc([]string{"selection", "revision", "file"}, func(flag string) bool {
		return !cmd.Flags().Changed(flag) || cmd.Flags().Lookup(flag).Value.String() == "false"
	})
	var faults []error
	if len(given) == 0 || hosts.Any() {
		faults = append(faults, term.Usagef("%s: --hosts or --selector, and --file, --revision or --selection are needed",
			cmd.CommandPath()))
	}
	for i := 1; i < len(given); i++ {
		faults = append(faults, term.Usagef("--%s and --%s exclude each other", given[0], given[i]))
	}
	return errors.Join(faults...)
}

// revised returns the spec that a process has on some hosts by a revision of its namespace.
func revised(ctx context.Context, c *client.Client, namespace, name string, revision int64, hosts []string,
) (*v1.Spec, error) {
	file, err := c.FileAt(ctx, namespace, revision)
	if err != nil {
		return nil, remote.ExitOf(err)
	}
	of := map[string]*v1.Spec{}
	for _, d := range processfile.Documents(file) {
		for _, one := range operations.Chosen(d.Processes, name) {
			for _, host := range one.Hosts.Names {
				spec := one.Spec
				spec.Hosts = v1.Hosts{}
				of[host] = &spec
			}
		}
	}
	id := namespace + "/" + name
	return common(of, hosts, func(host string) error {
		return term.NoSuchf("revision %d of %s has no %s on %s", revision, namespace, id, host)
	}, term.Usagef("revision %d of %s has different specs of %s on these hosts: name the hosts of one spec", revision,
		namespace, id))
}

// inForce returns the spec of the selection in force of a process that some hosts match.
func inForce(ctx context.Context, c *client.Client, namespace, name string, hosts []string) (*v1.Spec, error) {
	file, _, err := c.File(ctx, namespace)
	if err != nil {
		return nil, remote.ExitOf(err)
	}
	of := map[string]*v1.Spec{}
	for _, d := range processfile.Documents(file) {
		for _, one := range operations.Chosen(d.Processes, name) {
			if one.Hosts.Select == "" {
				continue
			}
			spec := one.Spec
			spec.Hosts = v1.Hosts{}
			for part := range slices.Chunk(hosts, remote.MostAsked) {
				for a, err := range c.Hosts(ctx, client.HostFilter{Hosts: part, Selector: one.Hosts.Select}) {
					if err != nil {
						return nil, remote.ExitOf(err)
					}
					if of[a.ID] == nil {
						of[a.ID] = &spec
					}
				}
			}
		}
	}
	id := namespace + "/" + name
	return common(of, hosts, func(host string) error {
		return term.NoSuchf("no selection in force of %s matches %s", id, host)
	}, term.Usagef("the selections in force have different specs of %s on these hosts: name the hosts of one spec", id))
}

// common returns the spec of all hosts; differ is the error if they have several.
func common(of map[string]*v1.Spec, hosts []string, missing func(host string) error, differ error,
) (*v1.Spec, error) {
	var found *v1.Spec
	for _, host := range hosts {
		spec := of[host]
		switch {
		case spec == nil:
			return nil, missing(host)
		case found != nil && !reflect.DeepEqual(found, spec):
			return nil, differ
		}
		found = spec
	}
	return found, nil
}

// readSpec reads a spec. It rejects a misspelt name, because the field would silently have its default.
func readSpec(in io.Reader, file string) (*v1.Spec, error) {
	data, err := operations.ReadFile(in, file)
	if err != nil {
		return nil, err
	}
	spec, err := processfile.ReadSpec(file, data)
	if err != nil {
		return nil, term.Usagef("%s is not a valid spec:\n  %s", file, strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return &spec, nil
}
