package files

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/wildcard"
)

// NewGet returns 'drover get'.
func NewGet() *cobra.Command {
	var s remote.Session
	var sel selection.Selection
	var revision int64
	cmd := &cobra.Command{
		Use: "get [NAMESPACE/NAME...]",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			if revision != 0 {
				files, err := filesAt(cmd.Context(), c, args, revision)
				if err != nil {
					return err
				}
				return printFiles(cmd, s.Form, files)
			}
			if len(args) == 0 {
				args = []string{"*/*"}
			}
			found, err := sel.Choose(cmd.Context(), c, args, true)
			if err != nil {
				return err
			}
			files := filesOf(found, args)
			if sel.Any() {
				if err := selected(cmd.Context(), c, files); err != nil {
					return err
				}
			}
			return printFiles(cmd, s.Form, files)
		},
		ValidArgsFunction: selection.CompleteProcesses(&s),
	}
	sel.ProcessFlags(cmd, &s)
	sel.FailedFlag(cmd)
	revisionFlag(cmd, &revision, "the processes as they are by this revision of the namespace")
	s.Flags(cmd, term.AsYAML, term.AsJSON)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) error {
		var faults []error
		if revision != 0 && !sel.Any() {
			faults = append(faults, term.Usagef("--revision excludes flags that choose hosts or processes"))
		}
		if revision != 0 && len(args) == 0 {
			faults = append(faults, term.Usagef("%s: --revision needs a NAMESPACE/NAME", cmd.CommandPath()))
		}
		return errors.Join(faults...)
	})
	return cmd
}

// revisionFlag adds --revision for one revision; 0 is none.
func revisionFlag(cmd *cobra.Command, revision *int64, help string) {
	cmd.Flags().Int64Var(revision, "revision", 0, help)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, _ []string) error {
		if term.Given(cmd, "revision") && *revision < 1 {
			return term.Usagef("--revision %d: expected the number of a revision, from 1", *revision)
		}
		return nil
	})
}

// filesOf returns processes as one file for each namespace. Copies are one process of the file if the arguments name
// all copies.
func filesOf(found []v1.Process, args []string) []v1.File {
	placed, latest := map[string][]processfile.Placed{}, map[string]int64{}
	var order []string
	for _, p := range found {
		if p.Spec == nil {
			continue
		}
		if placed[p.Namespace] == nil {
			order = append(order, p.Namespace)
		}
		base, _ := process.CutCopy(p.Name)
		one := processfile.Placed{Name: p.Name, Host: p.Host.ID, Spec: *p.Spec, Single: !slices.ContainsFunc(args,
			func(arg string) bool { return wildcard.Match(arg, p.Namespace+"/"+base) })}
		placed[p.Namespace] = append(placed[p.Namespace], one)
		latest[p.Namespace] = max(latest[p.Namespace], p.Revision)
	}
	var files []v1.File
	for _, namespace := range order {
		f := processfile.Group(namespace, placed[namespace])
		f.Revision = latest[namespace]
		files = append(files, f)
	}
	return files
}

// selected writes the processes that hosts have by a selection in force as the selection has them.
func selected(ctx context.Context, c *client.Client, files []v1.File) error {
	for i, f := range files {
		whole, _, err := c.File(ctx, f.Namespace)
		if err != nil {
			return remote.ExitOf(err)
		}
		chosen := map[string]bool{}
		for name := range f.Processes {
			chosen[name] = whole.Processes[name].Hosts.Select != "" // the form of a selection comes first
		}
		docs := processfile.Documents(f)
		for i := range docs {
			d := &docs[i]
			d.Processes = slices.DeleteFunc(d.Processes, func(p processfile.Named) bool { return chosen[p.Name] })
		}
		for _, d := range processfile.Documents(whole) {
			d.Processes = slices.DeleteFunc(d.Processes, func(p processfile.Named) bool { return !chosen[p.Name] })
			docs = append(docs, d)
		}
		files[i] = processfile.Files(docs)[0]
		files[i].Revision = f.Revision
	}
	return nil
}

func printFiles(cmd *cobra.Command, form string, files []v1.File) error {
	if form == term.AsJSON {
		if len(files) == 1 {
			return term.PrintValue(cmd.OutOrStdout(), form, files[0])
		}
		if files == nil {
			files = []v1.File{} // it prints as [], and not as null
		}
		return term.PrintValue(cmd.OutOrStdout(), form, files)
	}
	var docs []processfile.Document
	for _, f := range files {
		docs = append(docs, processfile.Documents(f)...)
	}
	text, err := processfile.Write(docs)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}
