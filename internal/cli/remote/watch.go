package remote

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"drover/internal/cli/term"
	"drover/internal/command"
)

// watchEvery is the shortest time between two looks of --watch.
const watchEvery = 2 * time.Second

// Watch adds --watch to a command that prints one answer: at a terminal the command then shows the answer again and
// again. The session is that of the command.
func Watch(s *Session, cmd *cobra.Command) {
	var watch bool
	cmd.Flags().BoolVar(&watch, "watch", false, "look again every 2s until Ctrl-C; needs a terminal")
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		switch {
		case !watch:
			return once(cmd, args)
		case !term.Rewritable(out):
			return term.Usagef("--watch needs a terminal: 'drover events -f' follows changes without one")
		}
		return s.Redraw(cmd, watchEvery, func() error { return once(cmd, args) })
	}
}

// Redraw shows the output and the messages of look at the command's terminal again and again, until the command's
// context ends or look fails for good. look uses the session and the command.
func (s *Session) Redraw(cmd *cobra.Command, every time.Duration, look func() error) error {
	ctx, out, messages := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	s.Colour = map[bool]string{true: "always", false: "never"}[s.Coloured(out)]
	defer func() {
		cmd.SetOut(out)
		cmd.SetErr(messages)
	}()
	return term.Redraw(ctx, out, every, func(w io.Writer) error {
		cmd.SetContext(ctx)
		cmd.SetOut(w)
		cmd.SetErr(w)
		s.Notice = ""
		return lasting(w, look())
	})
}

// lasting returns the error of a look if the error ends a watch. A server that does not answer does not end the watch,
// and lasting writes that error. The verdict of a command does not end it either.
func lasting(w io.Writer, err error) error {
	exit, ok := errors.AsType[*command.ExitError](err)
	switch {
	case !ok:
		return err
	case exit.Err == nil || exit.Code == command.NoSuch:
		return nil
	case exit.Code == command.Unreachable:
		_, err = fmt.Fprintln(w, term.Printable(exit.Error()))
	}
	return err
}
