package remote

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/term"
)

// List is a command that lists things.
type List[T any] struct {
	// Use is its usage line, which also decides how many arguments the command takes.
	Use string
	// None is the message if there is nothing to list.
	None string
	// Columns are those of the table. If one is wide, the command has -o wide.
	Columns []term.Column[T]
	// ID returns the name of a thing, for -o name. Without it the command has no -o name.
	ID func(T) string
	// Rows asks the server for the things.
	Rows func(ctx context.Context, c *client.Client, args []string) ([]T, error)
}

// Command returns the command, which uses the session. It completes no argument.
func (l List[T]) Command(s *Session) *cobra.Command {
	forms := []string{term.AsTable}
	if slices.ContainsFunc(l.Columns, func(c term.Column[T]) bool { return c.Wide }) {
		forms = append(forms, term.AsWide)
	}
	if forms = append(forms, term.AsJSON, term.AsYAML); l.ID != nil {
		forms = append(forms, term.AsName)
	}
	cmd := &cobra.Command{
		Use: l.Use, Args: term.Args,
		RunE: Query(s, l.Rows, func(cmd *cobra.Command, _ []string, rows []T) error {
			if len(rows) == 0 {
				term.Say(cmd, "%s\n", l.None)
			}
			return term.PrintList(cmd, s.Output, rows, l.Columns, l.ID)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	s.ListFlags(cmd, forms...)
	Watch(s, cmd)
	return cmd
}

// Names completes the first argument with the names of the things.
func (l List[T]) Names(s *Session) Completer {
	return First(Completing(s, func(ctx context.Context, c *client.Client, _ string) []string {
		rows, err := l.Rows(ctx, c, nil)
		if err != nil {
			return nil
		}
		names := make([]string, len(rows))
		for i, row := range rows {
			names[i] = l.ID(row)
		}
		return names
	}))
}

// Query returns the run of a command that asks the server for one thing and shows the answer.
func Query[T any](
	s *Session, ask func(ctx context.Context, c *client.Client, args []string) (T, error),
	show func(cmd *cobra.Command, args []string, answer T) error,
) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := s.Client(cmd)
		if err != nil {
			return err
		}
		answer, err := ask(cmd.Context(), c, args)
		if err != nil {
			return ExitOf(err)
		}
		return show(cmd, args, answer)
	}
}
