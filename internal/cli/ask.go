package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
)

// run is what a command does.
type run = func(cmd *cobra.Command, args []string) error

// queryCommand returns the run of a command that asks the server for one thing and shows the answer.
func queryCommand[T any](
	s *session, ask func(ctx context.Context, c *client.Client, args []string) (T, error),
	show func(cmd *cobra.Command, args []string, answer T) error,
) run {
	return func(cmd *cobra.Command, args []string) error {
		c, err := s.client(cmd)
		if err != nil {
			return err
		}
		answer, err := ask(cmd.Context(), c, args)
		if err != nil {
			return exitOf(err)
		}
		return show(cmd, args, answer)
	}
}

// actionCommand returns the run of a command that acts on the thing named by its first argument, and prints a message:
// format takes the name.
func actionCommand(s *session, format string, do func(ctx context.Context, c *client.Client, args []string) error) run {
	return queryCommand(s, func(ctx context.Context, c *client.Client, args []string) (struct{}, error) {
		return struct{}{}, do(ctx, c, args)
	}, func(cmd *cobra.Command, args []string, _ struct{}) error {
		say(cmd, format+"\n", args[0])
		return nil
	})
}

// listCommand returns the run of a command that lists what there is; none is said where that is nothing.
func listCommand[T any](
	s *session, o *output, none string, columns []column[T], name func(T) string,
	list func(ctx context.Context, c *client.Client, args []string) ([]T, error),
) run {
	return queryCommand(s, list, func(cmd *cobra.Command, _ []string, rows []T) error {
		if len(rows) == 0 {
			say(cmd, "%s\n", none)
		}
		return printList(cmd, s, *o, rows, columns, name)
	})
}

// showOnce writes a secret that is shown only once, as text or as a value, with a note.
func showOnce(cmd *cobra.Command, o output, value any, text, note string) error {
	w := cmd.OutOrStdout()
	var err error
	if o.form == asText {
		_, err = io.WriteString(w, text)
	} else {
		err = printValue(w, o.form, value)
	}
	if err != nil {
		return err
	}
	say(cmd, "%s\n", note)
	return nil
}

// argumentCommand completes a command whose first argument names a thing, which names can complete.
func argumentCommand(cmd *cobra.Command, s *session, argument string, names completer) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = exactly(argument)
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = names
	}
	s.flags(cmd)
	return cmd
}

// timeRange is a time range as the flags give it.
type timeRange struct{ since, until string }

func (r *timeRange) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.since, "since", "", "only from this time on: RFC 3339 or an age such as 24h")
	cmd.Flags().StringVar(&r.until, "until", "", "only before this time: RFC 3339 or an age such as 1h")
}

// times returns the range; a missing time is zero.
func (r *timeRange) times() (since, until time.Time, err error) {
	if since, err = moment("--since", r.since); err == nil {
		until, err = moment("--until", r.until)
	}
	return since, until, err
}

// moment reads a time, or an age.
func moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usagef("%s %q: expected a time such as 2026-11-20T10:30:00Z, or an age such as 24h", flag,
			text)
	}
	return t, nil
}
