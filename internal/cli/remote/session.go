// Package remote is how commands reach a server: the session with its flags, completion by the server, and the commands
// of a resource, made from one value.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/config"
)

// Session is how one command reaches a server, and the form of its output.
type Session struct {
	term.Output
	server  string
	dataDir string
	// timeout bounds the whole command; 0 does not. bound has the command take its timeout from now on, or any time.
	Timeout time.Duration
	Bound   func(bounded bool)
	// notice is what the server has said about its answers.
	Notice string
}

// askTime is the default --timeout of a command that does not wait for an operation.
const askTime = 30 * time.Second

// Flags adds the flags that every command with a server has, and those of the forms of its output if it has any.
func (s *Session) Flags(cmd *cobra.Command, forms ...string) {
	s.flagsWithin(cmd, forms, askTime, "how long the command may take, such as 90s; 0 is no limit")
}

// WaitingFlags are the flags of a command that waits for an operation.
func (s *Session) WaitingFlags(cmd *cobra.Command, forms ...string) {
	s.flagsWithin(cmd, forms, 0, "how long the command may take, including the wait, such as 90s; 0 is no limit")
}

func (s *Session) flagsWithin(cmd *cobra.Command, forms []string, timeout time.Duration, help string) {
	if len(forms) > 0 {
		s.Output.Flags(cmd, forms...)
	}
	f := cmd.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "host" {
			name = "hosts"
		}
		return pflag.NormalizedName(name)
	})
	f.DurationVar(&s.Timeout, "timeout", timeout, help)
	f.StringVar(&s.server, "server", "",
		"URL of the server; its credentials come from DROVER_APP_CODE and DROVER_APP_SECRET")
	f.StringVar(&s.dataDir, "data-dir", "", "data directory of a server on this host; drover connects to its "+
		config.SocketName)
	f.StringVar(&s.Colour, "color", "auto", "use colours: auto, always or never")
	term.Complete(cmd, "color", "auto", "always", "never")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if s.server != "" && s.dataDir != "" {
			return term.Usagef("--server and --data-dir exclude each other")
		}
		if s.Timeout < 0 {
			return term.Usagef("--timeout %s: expected 0 or more", s.Timeout)
		}
		return term.OneOf("--color", s.Colour, "auto", "always", "never")
	})
}

// Client returns a client of the chosen server. From now on --timeout limits the command.
func (s *Session) Client(cmd *cobra.Command) (*client.Client, error) {
	base := cmd.Context()
	s.Bound = func(bounded bool) {
		if !bounded || s.Timeout == 0 {
			cmd.SetContext(base)
			return
		}
		ctx, cancel := context.WithTimeout(base, s.Timeout)
		context.AfterFunc(ctx, cancel) // the timer ends with the program
		cmd.SetContext(ctx)
	}
	s.Bound(true)
	return s.connect(cmd)
}

// connect returns a client of the server of --server or --data-dir, else of the local server, else of the server in
// the environment.
func (s *Session) connect(cmd *cobra.Command) (*client.Client, error) {
	env := config.ClientFromEnvironment()
	notice := func(text string) {
		if s.Notice == "" {
			term.Say(cmd, "%s\n", term.Printable(text))
		}
		s.Notice = text
	}
	switch {
	case s.server != "":
		return withCredentials(s.server, env, notice)
	case s.dataDir != "":
		return client.New(client.Config{Socket: filepath.Join(s.dataDir, config.SocketName), Notice: notice})
	case listening(env.Socket):
		if env.Server != "" {
			term.Say(cmd, "using the server on this host, not DROVER_SERVER; choose with --server\n")
		}
		return client.New(client.Config{Socket: env.Socket, Notice: notice})
	case env.Server != "":
		return withCredentials(env.Server, env, notice)
	default:
		return nil, &command.ExitError{Code: command.Unreachable, Err: fmt.Errorf(
			"cannot find a server: none listens at %s, and DROVER_SERVER is not set; start one with 'drover dev'",
			env.Socket)}
	}
}

// Again is a command line that reaches the same server.
func (s *Session) Again(format string, args ...any) string {
	line := "drover " + fmt.Sprintf(format, args...)
	switch {
	case s.server != "":
		line += " --server " + term.ShellWord(s.server)
	case s.dataDir != "":
		line += " --data-dir " + term.ShellWord(s.dataDir)
	}
	return line
}

// listening reports whether a socket exists. Only a call shows whether a server answers there.
func listening(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// UnlessOld returns verdict. If verdict is nil and the server said that its answer is old, it returns an error with
// code.
func (s *Session) UnlessOld(code int, verdict error) error {
	if verdict == nil && s.Notice != "" {
		return &command.ExitError{Code: code}
	}
	return verdict
}

func withCredentials(server string, env config.Client, notice func(string)) (*client.Client, error) {
	if (env.AppCode == "" || env.AppSecret == "") && (env.AppCode != "" || env.UserToken == "") {
		return nil, &command.ExitError{Code: command.Denied, Err: fmt.Errorf(
			"cannot call %s without credentials: set DROVER_USER_TOKEN, or DROVER_APP_CODE and DROVER_APP_SECRET", server)}
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

// ExitOf gives an error of the client its exit code.
func ExitOf(err error) error {
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
