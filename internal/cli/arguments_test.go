package cli_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"drover/internal/cli"
	"drover/internal/command"
)

// TestNumberOfArguments: a wrong number of arguments is a wrong use of each command.
func TestNumberOfArguments(t *testing.T) {
	walk(cli.NewRoot(), func(cmd *cobra.Command) {
		for n := range 9 {
			for _, err := range faults(cmd, slices.Repeat([]string{"a/b"}, n)) {
				if _, usage := errors.AsType[*command.UsageError](err); !usage {
					t.Errorf("%s with %d arguments: %v is not a usage error: use term.Args", cmd.CommandPath(), n, err)
				}
			}
		}
	})
	for line, want := range map[string]string{
		"can":                              "drover can: OPERATION is missing",
		"can restart":                      "",
		"can anna restart":                 "",
		"can anna restart shop/api":        "",
		"can anna restart shop/api more":   `drover can: unexpected argument "more"`,
		"edit":                             "drover edit: NAMESPACE/NAME is missing",
		"edit shop/api shop/db":            `drover edit: unexpected argument "shop/db"`,
		"import systemd":                   "drover import systemd: UNIT is missing",
		"import systemd nginx redis":       "",
		"import supervisord":               "drover import supervisord: FILE is missing",
		"import supervisord a.conf b.conf": `drover import supervisord: unexpected argument "b.conf"`,
	} {
		cmd, args, err := cli.NewRoot().Find(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(errors.Join(faults(cmd, args)...))
		if want == "" {
			want = "<nil>"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// faults returns what is wrong with the arguments of a command, each fault by itself.
func faults(cmd *cobra.Command, args []string) (all []error) {
	var add func(err error)
	add = func(err error) {
		several, joined := err.(interface{ Unwrap() []error })
		switch {
		case err == nil:
		case joined:
			for _, one := range several.Unwrap() {
				add(one)
			}
		default:
			all = append(all, err)
		}
	}
	add(cmd.ValidateArgs(args))
	if cmd.PreRunE != nil {
		add(cmd.PreRunE(cmd, args))
	}
	return all
}
