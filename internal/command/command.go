// Package command holds what the command lines of drover and drover-agent share: exit codes, signals, the log and the
// version. It knows no command.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drover/internal/config"
	"drover/internal/process"
	"drover/internal/service"
)

// Exit codes.
const (
	Done        = 0
	Failed      = 1
	Usage       = 2
	NotRunning  = 3
	Wrong       = NotRunning // asked of a process too: it is not as it should be
	NoSuch      = 4
	Denied      = 5
	Unreachable = 6
	Partial     = 7
	// Settings is Usage of a program that runs for long (see Daemon): the settings are wrong, so a restart does not
	// help. It is EX_CONFIG of sysexits.h, and not 2: each crash of a Go program has 2, and has to be restarted.
	Settings = 78
)

// daemon marks the commands that run for long.
const daemon = "drover-daemon"

// Daemon makes a command one that runs until a signal ends it: its output never blocks, systemd learns that it lives,
// and wrong settings have an exit code of their own.
func Daemon(cmd *cobra.Command, run func(cmd *cobra.Command, s *service.Service) error) {
	cmd.Annotations = map[string]string{daemon: ""}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s := service.New(cmd.OutOrStdout(), cmd.ErrOrStderr(), config.Environment)
		defer s.Close()
		cmd.SetOut(s.Out())
		cmd.SetErr(s.Err())
		return run(cmd, s)
	}
}

// isDaemon reports whether Daemon has made the command.
func isDaemon(cmd *cobra.Command) bool {
	_, ok := cmd.Annotations[daemon]
	return ok
}

// UsageError is a wrong use of the command line.
type UsageError struct{ Err error }

// Error returns the text.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitError is a failure with an exit code of its own. Without Err nothing is printed: all is said already.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the text.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Main runs a command line until it is done or a SIGINT or SIGTERM ends it, prints the error if there is one, and
// returns the exit code. told returns what is printed about an error in the language of the person; nil leaves it
// English.
func Main(root *cobra.Command, args []string, told func(text string) string) int {
	if told == nil {
		told = func(text string) string { return text }
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program, whatever it is doing
	if len(args) > 0 && args[0] == "--version" {
		args = append([]string{"version"}, args[1:]...)
	}
	root.SetArgs(args)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// What only holds other commands has no flags of its own: a flag after a word that is none of them is not what
		// is wrong.
		rest := args[min(len(args), strings.Count(cmd.CommandPath(), " ")):]
		if holdsOthers(cmd) && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
			return Subcommands(cmd, rest)
		}
		if holdsOthers(cmd) {
			err = fmt.Errorf("%w: flags come after the command, as in '%s %s'", err, cmd.CommandPath(),
				cmd.Commands()[0].Name())
		}
		if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = WrongValue(wrong.GetFlag(), wrong.GetValue(), wrong.Unwrap())
		}
		return &UsageError{Err: err}
	})
	strictHelp(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return Done
	}
	exit, hasCode := errors.AsType[*ExitError](err)
	if hasCode && exit.Err == nil {
		return exit.Code
	}
	from := root.Name() + ": "
	rest, named := strings.CutPrefix(err.Error(), cmd.CommandPath())
	if named && (strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, " ")) {
		from = "" // the error says it itself
	}
	text := from + told(printable(err.Error())) + "\n"
	_, usage := errors.AsType[*UsageError](err)
	if usage {
		text += told(fmt.Sprintf("Try '%s --help'.", cmd.CommandPath())) + "\n"
	}
	if isDaemon(cmd) {
		service.Say(root.ErrOrStderr(), text)
	} else {
		_, _ = io.WriteString(root.ErrOrStderr(), text)
	}
	if usage {
		if isDaemon(cmd) {
			return Settings
		}
		return Usage
	}
	if hasCode {
		return exit.Code
	}
	return Failed
}

// WrongValue says what a flag takes instead of a value that it has refused with an error.
func WrongValue(f *pflag.Flag, value string, err error) error {
	flag := "--" + f.Name
	switch kind := f.Value.Type(); kind {
	case "duration":
		return fmt.Errorf("%s is %.80q: expected a duration, such as 90s or 2h", flag, value)
	case "bool":
		return fmt.Errorf("%s is %.80q: expected true or false", flag, value)
	default:
		if strings.HasPrefix(kind, "int") || strings.HasPrefix(kind, "uint") {
			return fmt.Errorf("%s is %.80q: expected a whole number", flag, value)
		}
	}
	return fmt.Errorf("%s is %.80q: %w", flag, value, err)
}

// printable replaces characters that could control a terminal: a part of an error may come from a server, or from an
// attacker in its place.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// holdsOthers reports whether a command does nothing by itself.
func holdsOthers(cmd *cobra.Command) bool {
	return cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ")
}

// strictHelp makes the help command reject an unknown command.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		c.Run = nil
		c.RunE = func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 && holdsOthers(about) {
				if about == nil {
					about = root
				}
				return Subcommands(about, rest)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		}
	}
}

// NoArgs refuses arguments as a wrong use.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &UsageError{Err: fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args)}
}

// Subcommands is the RunE of a command that only holds others.
func Subcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + process.OrList(near) + "?"
	}
	return &UsageError{Err: errors.New(text)}
}

// Log returns the log at a level: debug, info, warn or error.
func Log(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--log-level %q: expected debug, info, warn or error", level)}
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}

// Build returns the version of this binary: its release, otherwise its revision.
func Build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "devel", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	return revision + dirty
}

// NewVersion returns the version command, without its help.
func NewVersion() *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "version", Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch form {
			case "text":
				_, err = fmt.Fprintln(cmd.OutOrStdout(), Build())
			case "json":
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "{\n  \"version\": %q,\n  \"go\": %q,\n  \"platform\": %q\n}\n",
					Build(), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
			default:
				err = &UsageError{Err: fmt.Errorf("--output %q: expected text or json", form)}
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&form, "output", "o", "text", "output format: text or json")
	return cmd
}
