package accounts

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
)

// NewCan returns 'drover can'.
func NewCan() *cobra.Command {
	var s remote.Session
	var q client.RightQuestion
	var quiet bool
	cmd := &cobra.Command{
		Use:  "can [USER] OPERATION [NAMESPACE/NAME]",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if last := len(args) - 1; last > 0 && strings.Contains(args[last], "/") {
				q.Process, args = args[last], args[:last]
			}
			if q.Operation = args[len(args)-1]; len(args) == 2 {
				q.User = args[0]
			}
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			v, err := c.CheckRight(cmd.Context(), q)
			if err != nil {
				return remote.ExitOf(err)
			}
			switch {
			case quiet:
			case s.Form != term.AsText:
				err = term.PrintValue(cmd.OutOrStdout(), s.Form, v)
			default:
				err = printCheck(cmd.OutOrStdout(), v)
			}
			if err == nil && !v.Allowed {
				err = &command.ExitError{Code: command.Failed}
			}
			return err
		},
		ValidArgsFunction: userList().Names(&s),
	}
	cmd.Flags().StringVar(&q.Host, "host", "", "on this host (default every host)")
	cmd.Flags().IntVar(&q.Targets, "targets", 1, "in a call with this number of targets, processes times hosts")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing: the exit code tells")
	s.Flags(cmd, term.AsText, term.AsJSON, term.AsYAML)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) error {
		var faults []error
		if len(args) == 3 && !strings.Contains(args[2], "/") {
			faults = append(faults, term.Usagef("%q is not a process: expected NAMESPACE/NAME", args[2]))
		}
		if q.Targets <= 0 {
			faults = append(faults, term.Usagef("--targets %d: expected 1 or more", q.Targets))
		}
		return errors.Join(faults...)
	})
	return cmd
}

// printCheck writes "yes" or "no", and the rights below it.
func printCheck(w io.Writer, v v1.RightCheck) error {
	var b strings.Builder
	list := func(grants []v1.Grant, note string) {
		for _, g := range grants {
			b.WriteString("  " + grantText(g) + note + "\n")
		}
	}
	answer := "no"
	if v.Allowed {
		answer = "yes"
	}
	fmt.Fprintf(&b, "%s: %s\n", cmp.Or(v.User, v.App), answer)
	switch {
	case v.Disabled:
		b.WriteString("  disabled\n")
	case v.Admin:
		b.WriteString("  " + rightsText(true, nil) + "\n")
	case v.Allowed:
		list(v.Grants, "")
	default:
		list(v.Short, " (on other hosts only, or for fewer targets)")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
