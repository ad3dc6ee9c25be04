// Package remote is how commands reach a server: the session with its flags, completion by the server, and the commands
// of a resource, made from one value.
package remote

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "drover/api/v1"
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
	context string
	// timeout bounds the whole command; 0 does not. bound has the command take its timeout from now on, or any time.
	Timeout time.Duration
	Bound   func(bounded bool)
	// Notice is what the server has said about its answers.
	Notice string
	// User is the person of the context by whose sign-in the client calls; empty for a client without a context.
	User string
	// console is the address of the server at which this person has signed in.
	console string
	// cmd is the command of the session.
	cmd *cobra.Command
}

// askTime is the default --timeout of a command that does not wait for an operation.
const askTime = 30 * time.Second

// Flags adds the flags that every command with a server has, and those of the forms of its output if it has any.
func (s *Session) Flags(cmd *cobra.Command, forms ...string) {
	s.flagsWithin(cmd, forms, askTime, "how long the command may take, such as 90s; 0 is no limit")
}

// ListFlags are the flags of a command that prints a list, whose forms include those of term.Output.ListFlags.
func (s *Session) ListFlags(cmd *cobra.Command, forms ...string) {
	s.Output.ListFlags(cmd, forms...)
	s.Flags(cmd)
}

// WaitingFlags are the flags of a command that waits for an operation.
func (s *Session) WaitingFlags(cmd *cobra.Command, forms ...string) {
	s.flagsWithin(cmd, forms, 0, "how long the command may take, including the wait, such as 90s; 0 is no limit")
}

func (s *Session) flagsWithin(cmd *cobra.Command, forms []string, timeout time.Duration, help string) {
	cmd.Flags().DurationVar(&s.Timeout, "timeout", timeout, help)
	s.LastingFlags(cmd, forms...)
}

// LastingFlags are the flags of a command that ends when the person ends it: it has no --timeout.
func (s *Session) LastingFlags(cmd *cobra.Command, forms ...string) {
	if len(forms) > 0 {
		s.Output.Flags(cmd, forms...)
	}
	s.tellAgain(cmd)
	f := cmd.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "host" {
			name = "hosts"
		}
		return pflag.NormalizedName(name)
	})
	f.StringVar(&s.server, "server", "",
		"URL of the server; its credentials come from the environment, or from 'drover login URL'")
	f.StringVar(&s.context, "context", "", "use the server and the sign-in of this context")
	CompleteFlag(cmd, "context", ContextNames)
	f.StringVar(&s.dataDir, "data-dir", "", "data directory of a server on this host; drover connects to its "+
		config.SocketName)
	f.StringVar(&s.Colour, "color", "auto", "use colours: auto, always or never")
	term.Complete(cmd, "color", "auto", "always", "never")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		faults := []error{term.OneOf("--color", s.Colour, "auto", "always", "never")}
		if s.server != "" && s.dataDir != "" {
			faults = append(faults, term.Usagef("--server and --data-dir exclude each other"))
		}
		if s.context != "" && s.server+s.dataDir != "" {
			faults = append(faults, term.Usagef("--context excludes --server and --data-dir"))
		}
		if s.Timeout < 0 {
			faults = append(faults, term.Usagef("--timeout %s: expected 0 or more", s.Timeout))
		}
		return errors.Join(faults...)
	})
}

// Client returns a client of the chosen server. From now on --timeout limits the command.
func (s *Session) Client(cmd *cobra.Command) (*client.Client, error) {
	s.begin(cmd)
	return s.connect(cmd)
}

// ClientAt returns a client of a server without credentials. From now on --timeout limits the command.
func (s *Session) ClientAt(cmd *cobra.Command, server, ca string) (*client.Client, error) {
	s.begin(cmd)
	return usable(client.New(client.Config{URL: server, CA: []byte(ca), Notice: s.noticing(cmd)}))
}

// Context and Server are the values of --context and --server; empty if the flags are not given.
func (s *Session) Context() string { return s.context }

// Server is described at Context.
func (s *Session) Server() string { return s.server }

// DataDir is described at Context.
func (s *Session) DataDir() string { return s.dataDir }

func (s *Session) begin(cmd *cobra.Command) {
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
}

// noticing returns a function that shows the first note of the server about its answers.
func (s *Session) noticing(cmd *cobra.Command) func(string) {
	return func(text string) {
		if s.Notice == "" {
			term.Say(cmd, "%s\n", term.Printable(text))
		}
		s.Notice = text
	}
}

// connect returns a client of the server of --server, --data-dir or --context, else of the local server, else of the
// server in the environment, else of the current context.
func (s *Session) connect(cmd *cobra.Command) (*client.Client, error) {
	env := config.ClientFromEnvironment()
	notice := s.noticing(cmd)
	switch {
	case s.server != "":
		return s.withCredentials(s.server, env, notice)
	case s.dataDir != "":
		return client.New(client.Config{Socket: filepath.Join(s.dataDir, config.SocketName), Notice: notice})
	case s.context != "":
		return s.inContext(s.context, notice)
	case listening(env.Socket):
		if other := elsewhere(env); other != "" {
			term.Say(cmd, "using the server on this host, not %s\n", other)
		}
		return client.New(client.Config{Socket: env.Socket, Notice: notice})
	case env.Server != "":
		return s.withCredentials(env.Server, env, notice)
	}
	all, err := ReadContexts()
	if err != nil {
		return nil, err
	}
	if all.Current != "" {
		return s.inContext(all.Current, notice)
	}
	return nil, &command.ExitError{Code: command.Unreachable, Err: fmt.Errorf(
		"cannot find a server: none listens at %s, DROVER_SERVER is not set, and there is no current context; "+
			"sign in with 'drover login URL', or start a server with 'drover dev'", env.Socket)}
}

// elsewhere says which other server the environment or the current context names, and how to use it; empty if none.
func elsewhere(env config.Client) string {
	if env.Server != "" {
		return "DROVER_SERVER; choose with --server"
	}
	if all, err := ReadContexts(); err == nil && all.Find("") != nil { // who needs the file learns what is wrong with it
		return "context " + term.Printable(all.Current) + "; choose with --context"
	}
	return ""
}

// inContext returns a client of a context.
func (s *Session) inContext(name string, notice func(string)) (*client.Client, error) {
	all, err := ReadContexts()
	if err != nil {
		return nil, err
	}
	c := all.Find(name)
	if c == nil {
		return nil, NoContext(name)
	}
	if !c.SignedIn() {
		return nil, &command.ExitError{Code: command.Denied, Err: fmt.Errorf(
			"you are not signed in to %s any more: run 'drover login --context %s'", c.Server, term.ShellWord(c.Name))}
	}
	s.User, s.console = c.User, c.Server
	return c.Client(notice)
}

// Client returns a client of the context's server with its token. notice may be nil.
func (c *Context) Client(notice func(string)) (*client.Client, error) {
	return c.clientOf(c.Server, notice)
}

// clientOf returns a client with the context's token of the servers of the same fleet, separated by commas.
func (c *Context) clientOf(servers string, notice func(string)) (*client.Client, error) {
	return usable(client.New(client.Config{URL: servers, CA: []byte(c.CA), Token: c.Token, Notice: notice}))
}

func usable(c *client.Client, err error) (*client.Client, error) {
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	return c, nil
}

// Again is a command line that reaches the same server.
func (s *Session) Again(format string, args ...any) string {
	line := "drover " + fmt.Sprintf(format, args...)
	switch {
	case s.server != "":
		line += " --server " + term.ShellWord(s.server)
	case s.dataDir != "":
		line += " --data-dir " + term.ShellWord(s.dataDir)
	case s.context != "":
		line += " --context " + term.ShellWord(s.context)
	}
	return line
}

// AgainIn has the drover commands of a list, which a server names, reach the same server.
func (s *Session) AgainIn(line string) string {
	commands := strings.Split(line, " && ")
	for i, one := range commands {
		if rest, ok := strings.CutPrefix(one, "drover "); ok {
			commands[i] = s.Again("%s", rest)
		}
	}
	return strings.Join(commands, " && ")
}

// Page is the address of a page of the console, such as tasks/ID. It is empty unless a person has signed in by 'drover
// login': only then is the address known to open in a browser.
func (s *Session) Page(path string) string {
	if s.console == "" {
		return ""
	}
	return strings.TrimRight(s.console, "/") + "/ui/" + path
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

// withCredentials returns a client of a server with the credentials of the environment. If the environment has none at
// all, it takes those of a context.
func (s *Session) withCredentials(server string, env config.Client, notice func(string)) (*client.Client, error) {
	if (env.AppCode == "" || env.AppSecret == "") && (env.AppCode != "" || env.UserToken == "") {
		all, err := ReadContexts()
		if err != nil {
			return nil, err
		}
		var c *Context
		for one := range strings.SplitSeq(server, ",") { // the servers of a fleet know the same people
			c = cmp.Or(c, all.At(strings.TrimRight(strings.TrimSpace(one), "/")))
		}
		if c != nil && env.AppCode+env.AppSecret == "" { // a program with half of its credentials is no person
			s.User, s.console = c.User, c.Server
			return c.clientOf(server, notice)
		}
		return nil, &command.ExitError{Code: command.Denied, Err: fmt.Errorf("cannot call %s without credentials: "+
			"run 'drover login %s', or set DROVER_USER_TOKEN, or DROVER_APP_CODE and DROVER_APP_SECRET", server, server)}
	}
	return usable(client.New(client.Config{
		URL: server, AppCode: env.AppCode, AppSecret: env.AppSecret, User: env.User, Token: env.UserToken,
		Notice: notice,
	}))
}

// ExitOf gives an error of the client its exit code.
func ExitOf(err error) error {
	if _, ok := errors.AsType[*client.UnreachableError](err); ok {
		return &command.ExitError{Code: command.Unreachable, Err: err}
	}
	if refusal, ok := errors.AsType[*v1.Problem](err); ok {
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
	return err
}

// Ask asks a person at the terminal in for confirmation of what concerns count processes or changes. Everything but "y"
// and "yes", or but the number if it is above term.TypeAbove, is an error, and so is a missing terminal. It blocks until
// the person answers or the context of cmd ends; --timeout does not count meanwhile.
func (s *Session) Ask(cmd *cobra.Command, in io.Reader, what string, count int) error {
	if !term.IsTerminal(in) || !term.IsTerminal(cmd.ErrOrStderr()) {
		return term.Usagef("%s: no terminal to ask for confirmation: give --yes", what)
	}
	s.Bound(false)
	defer s.Bound(true)
	right := []string{"y", "yes"}
	if count > term.TypeAbove {
		right = []string{strconv.Itoa(count)}
		term.Say(cmd, "%s? Type the number %d to confirm: ", what, count)
	} else {
		term.Say(cmd, "%s? [y/N] ", what)
	}
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // no answer means no
		answer <- line
	}()
	select {
	case line := <-answer:
		if slices.Contains(right, strings.ToLower(strings.TrimSpace(line))) {
			return nil
		}
	case <-cmd.Context().Done(): // the reader ends with the program
		term.Say(cmd, "\n")
	}
	return &command.ExitError{Code: command.Failed, Err: errors.New("nothing was done")}
}
