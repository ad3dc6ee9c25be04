package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/spelling"
	"drover/internal/wildcard"
	"drover/internal/words"
)

// NewGet returns 'drover get'.
func NewGet() *cobra.Command {
	var s remote.Session
	var sel selection
	var revision int64
	cmd := &cobra.Command{
		Use:   "get [NAMESPACE/NAME...]",
		Short: "Show processes as a process file",
		Long: `Show processes as a process file, for 'drover apply'. Without names drover shows all processes.
If the specs of a process differ between hosts, the file has several documents. Several namespaces
are several documents, too, and with -o json an array of files. Equal copies are one
process with copies; drover shows copies that differ, and a single copy such as shop/api@2, by name.
revision in the file is the latest revision that changed one of its processes; an apply ignores it.

With --revision drover shows the processes as they are by that revision of the namespace.

Exit codes: 0 done, 2 wrong usage, 4 no such process, 5 not allowed, 6 unreachable.`,
		Example: `  drover get 'shop/*' > shop.yaml
  drover get shop/api -o json
  drover get 'shop/*' --revision 15`,
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
			found, err := sel.choose(cmd.Context(), c, args, true)
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
		ValidArgsFunction: completeProcesses(&s),
	}
	sel.flags(cmd, &s)
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
func filesOf(found []client.Process, args []string) []client.File {
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
	var files []client.File
	for _, namespace := range order {
		f := processfile.Group(namespace, placed[namespace])
		f.Revision = latest[namespace]
		files = append(files, f)
	}
	return files
}

// selected writes the processes that hosts have by a selection in force as the selection has them.
func selected(ctx context.Context, c *client.Client, files []client.File) error {
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

func printFiles(cmd *cobra.Command, form string, files []client.File) error {
	if form == term.AsJSON {
		if len(files) == 1 {
			return term.PrintValue(cmd.OutOrStdout(), form, files[0])
		}
		if files == nil {
			files = []client.File{} // it prints as [], and not as null
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

// NewExplain returns 'drover explain'.
func NewExplain() *cobra.Command {
	var schema bool
	cmd := &cobra.Command{
		Use:   "explain [FIELD.PATH]",
		Short: "Describe the fields of a process file",
		Long: `Describe the fields of a process file: their values, their defaults, and when a change takes effect.
live is at once, and never touches what runs; restart is the next start.`,
		Example: `  drover explain
  drover explain restart.delay
  drover explain --schema > drover.schema.json`,
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if schema {
				return term.PrintValue(cmd.OutOrStdout(), term.AsJSON, processfile.Schema())
			}
			if len(args) == 0 {
				return listFields(cmd, processfile.Fields())
			}
			return explainField(cmd, args[0])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return fieldPaths(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of process files, for editors")
	return cmd
}

func fieldPaths() (all []string) {
	for _, f := range allFields() {
		all = append(all, f.Path)
	}
	return all
}

// allFields are the fields of a file and of a process.
func allFields() []processfile.Field {
	return append(processfile.FileFields(), processfile.Fields()...)
}

func listFields(cmd *cobra.Command, fields []processfile.Field) error {
	t := term.Table{}
	lang := term.Lang(cmd, cmd.OutOrStdout())
	t.Add(words.Column("FIELD", lang), words.Column("VALUE", lang), words.Column("DEFAULT", lang),
		words.Column("CLASS", lang))
	for _, f := range fields {
		t.Add(f.Path, fieldText(f.Value, lang), fieldText(f.Default, lang), string(f.Class))
	}
	return t.Write(cmd.OutOrStdout())
}

// fieldText is a text about a field in a language. Values that a file may have are not in the catalogue.
func fieldText(english string, lang words.Lang) string {
	text, _ := words.Field(english, lang)
	return text
}

// explainField describes a field, and lists the fields below it.
func explainField(cmd *cobra.Command, path string) error {
	fields := allFields()
	at := slices.IndexFunc(fields, func(f processfile.Field) bool { return f.Path == path })
	if at < 0 {
		hint := ""
		if near := spelling.Nearest(path, fieldPaths()); len(near) > 0 {
			hint = "; did you mean " + process.OrList(near) + "?"
		}
		return term.NoSuchf("there is no field %s%s", path, hint)
	}
	f, lang := fields[at], term.Lang(cmd, cmd.OutOrStdout())
	format, class := "%s\n  %s\n\nvalue    %s\ndefault  %s\n", "class    %s\n"
	if lang != words.English {
		format = "%s\n  %s\n\n" + words.Column("VALUE", lang) + "：%s\n" + words.Column("DEFAULT", lang) + "：%s\n"
		class = words.Column("CLASS", lang) + "：%s\n"
	}
	text := fmt.Sprintf(format, f.Path, fieldText(f.Text, lang), fieldText(f.Value, lang), fieldText(f.Default, lang))
	if f.Class != "" {
		text += fmt.Sprintf(class, f.Class)
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
		return err
	}
	below := slices.DeleteFunc(fields, func(f processfile.Field) bool { return !strings.HasPrefix(f.Path, path+".") })
	if len(below) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout()); err != nil {
		return err
	}
	return listFields(cmd, below)
}
