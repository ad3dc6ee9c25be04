package files

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/spelling"
	"drover/internal/words"
)

// NewExplain returns 'drover explain'.
func NewExplain() *cobra.Command {
	var schema bool
	cmd := &cobra.Command{
		Use:  "explain [FIELD.PATH]",
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
