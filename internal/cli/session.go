package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"drover/client"
	"drover/internal/command"
	"drover/internal/config"
)

// session is how one command reaches a server and what it may do to the terminal.
type session struct {
	server  string
	dataDir string
	colour  string
	// timeout bounds the whole command; 0 does not. bound has the command take its timeout from now on, or any time.
	timeout time.Duration
	bound   func(bounded bool)
	// notice is what the server has said about its answers.
	notice string
}

// askTime is how long a command may take that does not wait for an operation.
const askTime = 30 * time.Second

// flags adds the flags that every command with a server has.
func (s *session) flags(cmd *cobra.Command) {
	s.flagsWithin(cmd, askTime, "how long the command may take, such as 90s; 0 is no limit")
}

// waitingFlags are the flags of a command that waits for an operation.
func (s *session) waitingFlags(cmd *cobra.Command) {
	s.flagsWithin(cmd, 0, "how long the command may take, including the wait, such as 90s; 0 is no limit")
}

func (s *session) flagsWithin(cmd *cobra.Command, timeout time.Duration, help string) {
	f := cmd.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "host" {
			name = "hosts"
		}
		return pflag.NormalizedName(name)
	})
	f.DurationVar(&s.timeout, "timeout", timeout, help)
	f.StringVar(&s.server, "server", "",
		"URL of the server; its credentials come from DROVER_APP_CODE and DROVER_APP_SECRET")
	f.StringVar(&s.dataDir, "data-dir", "", "data directory of a server on this host; drover connects to its "+
		config.SocketName)
	f.StringVar(&s.colour, "color", "auto", "use colours: auto, always or never")
	complete(cmd, "color", "auto", "always", "never")
	cmd.PreRunE = chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if s.server != "" && s.dataDir != "" {
			return usagef("--server and --data-dir exclude each other")
		}
		if s.timeout < 0 {
			return usagef("--timeout %s: expected 0 or more", s.timeout)
		}
		return oneOf("--color", s.colour, "auto", "always", "never")
	})
}

func chain(first, second func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	if first == nil {
		return second
	}
	return func(cmd *cobra.Command, args []string) error {
		if err := first(cmd, args); err != nil {
			return err
		}
		return second(cmd, args)
	}
}

// client returns a client of the server that is meant. From now on the command has its --timeout.
func (s *session) client(cmd *cobra.Command) (*client.Client, error) {
	base := cmd.Context()
	s.bound = func(bounded bool) {
		if !bounded || s.timeout == 0 {
			cmd.SetContext(base)
			return
		}
		ctx, cancel := context.WithTimeout(base, s.timeout)
		context.AfterFunc(ctx, cancel) // the command ends the program, and its timer with it
		cmd.SetContext(ctx)
	}
	s.bound(true)
	return s.connect(cmd)
}

// connect returns a client of the server of --server or --data-dir, else of the local server, else of the server in
// the environment.
func (s *session) connect(cmd *cobra.Command) (*client.Client, error) {
	env := config.ClientFromEnvironment()
	notice := func(text string) {
		if s.notice == "" {
			say(cmd, "%s\n", printable(text))
		}
		s.notice = text
	}
	switch {
	case s.server != "":
		return remote(s.server, env, notice)
	case s.dataDir != "":
		return client.New(client.Config{Socket: filepath.Join(s.dataDir, config.SocketName), Notice: notice})
	case listening(env.Socket):
		if env.Server != "" {
			say(cmd, "using the server on this host, not DROVER_SERVER; choose with --server\n")
		}
		return client.New(client.Config{Socket: env.Socket, Notice: notice})
	case env.Server != "":
		return remote(env.Server, env, notice)
	default:
		return nil, &command.ExitError{Code: command.Unreachable, Err: fmt.Errorf(
			"cannot find a server: none listens at %s, and DROVER_SERVER is not set; start one with 'drover dev'",
			env.Socket)}
	}
}

// again is a command line that reaches the same server.
func (s *session) again(format string, args ...any) string {
	line := "drover " + fmt.Sprintf(format, args...)
	switch {
	case s.server != "":
		line += " --server " + shellWord(s.server)
	case s.dataDir != "":
		line += " --data-dir " + shellWord(s.dataDir)
	}
	return line
}

// shellWord is a text as a shell takes it for one word.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:._-@%+="
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// listening reports whether a socket is there and belongs to this user. Whether a server answers is seen when it is
// used.
func listening(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// unlessOld is a verdict on what was shown: a code of its own where the server has said that it is old.
func (s *session) unlessOld(code int, verdict error) error {
	if verdict == nil && s.notice != "" {
		return &command.ExitError{Code: code}
	}
	return verdict
}

func remote(server string, env config.Client, notice func(string)) (*client.Client, error) {
	if env.AppCode == "" || env.AppSecret == "" {
		return nil, &command.ExitError{Code: command.Denied, Err: fmt.Errorf(
			"cannot call %s without credentials: set DROVER_APP_CODE and DROVER_APP_SECRET", server)}
	}
	c, err := client.New(client.Config{
		URL: server, AppCode: env.AppCode, AppSecret: env.AppSecret, User: env.User, Token: env.UserToken,
		Notice: notice,
	})
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	return c, nil
}

// exitOf gives an error of the client its exit code.
func exitOf(err error) error {
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		code := command.Failed
		switch refusal.Status {
		case http.StatusUnauthorized, http.StatusForbidden:
			code = command.Denied
		case http.StatusNotFound:
			code = command.NoSuch
		case http.StatusBadRequest, http.StatusUnprocessableEntity:
			code = command.Usage
		}
		return &command.ExitError{Code: code, Err: err}
	}
	if _, ok := errors.AsType[*client.UnreachableError](err); ok {
		return &command.ExitError{Code: command.Unreachable, Err: err}
	}
	return err
}

// usagef is an error of wrong usage.
func usagef(format string, args ...any) error {
	return &command.UsageError{Err: fmt.Errorf(format, args...)}
}

// noSuchf is an error about a missing thing.
func noSuchf(format string, args ...any) error {
	return &command.ExitError{Code: command.NoSuch, Err: fmt.Errorf(format, args...)}
}

// say prints a message for the operator to stderr.
func say(cmd *cobra.Command, format string, args ...any) {
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), format, args...) // without a terminal nobody is there to be told
}

// isTerminal reports whether a stream of a command is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// coloured reports whether a stream takes colours.
func (s *session) coloured(w io.Writer) bool {
	switch s.colour {
	case "always":
		return true
	case "never":
		return false
	}
	noColour, dumb := config.PlainTerminal()
	return !noColour && !dumb && isTerminal(w)
}

// rewritable reports whether a line on the stream can be written over.
func rewritable(w io.Writer) bool {
	_, dumb := config.PlainTerminal()
	return !dumb && isTerminal(w)
}

// oneOf rejects a flag's value that is not in a list.
func oneOf(flag, value string, of ...string) error {
	if slices.Contains(of, value) {
		return nil
	}
	return usagef("%s %q: expected %s", flag, value, orList(of))
}

// orList is "a, b or c".
func orList(words []string) string {
	var text strings.Builder
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			text.WriteString(" or ")
		default:
			text.WriteString(", ")
		}
		text.WriteString(w)
	}
	return text.String()
}
