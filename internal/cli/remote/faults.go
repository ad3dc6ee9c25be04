package remote

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/server/api"
)

// check is a check of the command line of a command.
type check func(cmd *cobra.Command, args []string) error

// tellRequest returns a check that tells the faults of the request beside those that another check finds.
func tellRequest(first check, request func(args []string) (body any, told []string), flags map[string]string) check {
	return func(cmd *cobra.Command, args []string) error {
		err := first(cmd, args)
		if errors.Join(err, term.KeptFaults(cmd), term.Filled(cmd), term.Args(cmd, args)) == nil {
			return nil // the server tells them
		}
		body, told := request(args)
		faults := []error{err}
		for _, f := range api.Faults(body, time.Now()) {
			if !slices.ContainsFunc(told, func(begin string) bool { return strings.HasPrefix(f.Field, begin) }) {
				f = inFlag(flags, f)
				faults = append(faults, term.Usagef("%s: %s", f.Field, f.Detail))
			}
		}
		return errors.Join(faults...)
	}
}

// inFlag returns a fault with the flag or argument of its field, if it has one. Flags of names in quotes also replace
// these names in the text.
func inFlag(flags map[string]string, f v1.FieldError) v1.FieldError {
	whole, _, _ := strings.Cut(f.Field, "[")
	told := v1.FieldError{Field: cmp.Or(flags[whole], f.Field), Detail: f.Detail}
	for name, flag := range flags {
		if strings.HasPrefix(name, `"`) {
			told.Detail = strings.ReplaceAll(told.Detail, name, flag)
		}
	}
	return told
}

// inFlags returns a call whose refusals name flags and arguments instead of the fields of the request.
func inFlags[T any](flags map[string]string, call func(context.Context, *client.Client, []string) (T, error),
) func(context.Context, *client.Client, []string) (T, error) {
	return func(ctx context.Context, c *client.Client, args []string) (T, error) {
		answer, err := call(ctx, c, args)
		refusal, ok := errors.AsType[*v1.Problem](err)
		if !ok {
			return answer, err
		}
		told := *refusal
		told.Fields = nil
		for _, field := range refusal.Fields {
			named := inFlag(flags, field)
			told.Fields = append(told.Fields, named)
			told.Detail = strings.Replace(told.Detail, field.Field+": "+field.Detail, named.Field+": "+named.Detail, 1)
		}
		return answer, &told
	}
}
