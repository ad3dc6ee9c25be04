package remote

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
)

// quotedCommand is a command in a text of a server.
var quotedCommand = regexp.MustCompile(`'drover [^']*'`)

// AgainQuoted has the commands in quotes, which a text of a server names, reach the same server. Commands that reach no
// server stay as they are.
func (s *Session) AgainQuoted(text string) string {
	return quotedCommand.ReplaceAllStringFunc(text, func(quoted string) string {
		line := strings.Trim(quoted, "'")
		named, _, err := s.cmd.Root().Find(strings.Fields(line)[1:])
		if err != nil || named.Flags().Lookup("context") == nil || named.Flags().Lookup("data-dir") == nil {
			return quoted
		}
		return "'" + s.AgainIn(line) + "'"
	})
}

// tellAgain has the refusals with which a command ends name commands that reach the same server.
func (s *Session) tellAgain(cmd *cobra.Command) {
	s.cmd = cmd
	run := cmd.RunE
	if run == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if err == nil {
			return nil
		}
		text := err.Error()
		for _, detail := range refusalsIn(err) {
			text = strings.ReplaceAll(text, detail, s.AgainQuoted(detail))
		}
		if text == err.Error() {
			return err
		}
		return &retold{err, text}
	}
}

// refusalsIn returns the texts of the refusals in an error, each once.
func refusalsIn(err error) (details []string) {
	seen := map[string]bool{}
	next := []error{err}
	for len(next) > 0 {
		err, next = next[0], next[1:]
		switch e := err.(type) { //nolint:errorlint // it walks the tree itself
		case *v1.Problem:
			if e.Detail != "" && !seen[e.Detail] {
				seen[e.Detail] = true
				details = append(details, e.Detail)
			}
		case interface{ Unwrap() error }:
			if inner := e.Unwrap(); inner != nil {
				next = append(next, inner)
			}
		case interface{ Unwrap() []error }:
			next = append(next, e.Unwrap()...)
		}
	}
	return details
}

// retold is an error with another text.
type retold struct {
	error
	text string
}

// Error returns the text.
func (e *retold) Error() string { return e.text }

// Unwrap returns the error.
func (e *retold) Unwrap() error { return e.error }
