package remote

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drover/internal/cli/term"
	"drover/internal/server/apiv1"
)

// TellRequest has a command whose line has faults tell those of its request, too, which the server does not get to see.
// request returns the request of the arguments, which may be too few, and how the names of those fields begin whose
// faults are told already. Call it after the command has all other checks.
func TellRequest(cmd *cobra.Command, request func(args []string) (body any, told []string)) {
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if errors.Join(err, term.Filled(cmd), term.Args(cmd, args)) == nil {
			return nil // the server tells them
		}
		body, told := request(args)
		faults := []error{err}
		for _, f := range apiv1.Faults(body, time.Now()) {
			if !slices.ContainsFunc(told, func(begin string) bool { return strings.HasPrefix(f.Field, begin) }) {
				faults = append(faults, term.Usagef("%s: %s", f.Field, f.Detail))
			}
		}
		return errors.Join(faults...)
	}
}
