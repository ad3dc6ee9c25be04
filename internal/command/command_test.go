package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"drover/internal/agent/pidns"
	"drover/internal/command"
	"drover/internal/service"
)

// The tests signal themselves.
func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

// root returns a program with one command that does what it is told, and what it prints.
func root(run func(ctx context.Context) error) (*cobra.Command, *bytes.Buffer, *bytes.Buffer) {
	var out, errs bytes.Buffer
	r := &cobra.Command{Use: "prog", Args: cobra.ArbitraryArgs, RunE: command.Subcommands}
	r.SetOut(&out)
	r.SetErr(&errs)
	sub := &cobra.Command{Use: "run", Args: command.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return run(cmd.Context())
	}}
	sub.Flags().Int("n", 0, "")
	r.AddCommand(sub, command.NewVersion())
	return r, &out, &errs
}

func TestMainExitCodes(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		err   error
		code  int
		wrote string
	}{
		{"it works", []string{"run"}, nil, command.Done, ""},
		{"it fails", []string{"run"}, errors.New("no luck"), command.Failed, "prog: no luck\n"},
		{
			"a server wants to steer the terminal",
			[]string{"run"},
			errors.New("\x1b[2Jno\u009b31m\tluck\nnone"),
			command.Failed, "prog: ?[2Jno?31m\tluck\nnone\n",
		},
		{
			"it is used in a wrong way",
			[]string{"run"},
			fmt.Errorf("cannot run: %w", &command.UsageError{Err: errors.New("--x is bad")}),
			command.Usage, "prog: cannot run: --x is bad\nTry 'prog run --help'.\n",
		},
		{
			"an argument too many",
			[]string{"run", "fast"},
			nil, command.Usage,
			"prog run takes no arguments, got [\"fast\"]\nTry 'prog run --help'.\n",
		},
		{
			"an unknown flag",
			[]string{"run", "--m"},
			nil, command.Usage,
			"prog: unknown flag: --m\nTry 'prog run --help'.\n",
		},
		{
			"a flag before the command",
			[]string{"--m", "run"},
			nil, command.Usage,
			"prog: unknown flag: --m: flags come after the command, as in 'prog ",
		},
		{
			"a flag that is no number",
			[]string{"run", "--n", "x"},
			nil, command.Usage,
			"prog: --n is \"x\": expected a whole number\nTry 'prog run --help'.\n",
		},
		{"an unknown command", []string{"walk"}, nil, command.Usage, "prog: unknown command \"walk\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, out, errs := root(func(context.Context) error { return c.err })
			if code := command.Main(r, c.args, nil); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if got := errs.String(); !strings.HasPrefix(got, c.wrote) || c.wrote == "" && got != "" {
				t.Errorf("it wrote %q, want %q", got, c.wrote)
			}
			if out.Len() > 0 {
				t.Errorf("it wrote %q to its output", out)
			}
		})
	}
}

func TestMainWithoutCommand(t *testing.T) {
	r, out, _ := root(nil)
	if code := command.Main(r, nil, nil); code != command.Done || !strings.Contains(out.String(), "Usage:") {
		t.Errorf("exit code %d, wrote %q", code, out)
	}
}

// TestVersionAsFlag: --version prints what the version command prints.
func TestVersionAsFlag(t *testing.T) {
	for _, rest := range [][]string{nil, {"-o", "json"}} {
		r, want, _ := root(nil)
		if code := command.Main(r, append([]string{"version"}, rest...), nil); code != command.Done || want.Len() == 0 {
			t.Errorf("version: exit code %d, %q", code, want)
		}
		r, out, errs := root(nil)
		if code := command.Main(r, append([]string{"--version"}, rest...), nil); code != command.Done ||
			out.String() != want.String() {
			t.Errorf("--version %q: exit code %d, %q %s, want %q", rest, code, out, errs, want)
		}
	}
}

// TestMainSignals: SIGINT and SIGTERM end the context, and what comes of it is the program's own affair.
func TestMainSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		r, _, errs := root(func(ctx context.Context) error {
			if err := syscall.Kill(os.Getpid(), sig); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(20 * time.Second):
				return errors.New("nothing happened")
			}
		})
		if code := command.Main(r, []string{"run"}, nil); code != command.Done {
			t.Errorf("%v: exit code %d, %s", sig, code, errs)
		}
	}
}

func TestUsageError(t *testing.T) {
	cause := errors.New("cause")
	if err := (&command.UsageError{Err: cause}); err.Error() != "cause" || !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestLog(t *testing.T) {
	for level, want := range map[string][]string{
		"debug": {"d", "i", "w", "e"}, "info": {"i", "w", "e"}, "warn": {"w", "e"}, "error": {"e"}, "WARN": {"w", "e"},
	} {
		var out bytes.Buffer
		log, err := command.Log(&out, level)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		log.Error("e")
		if n := strings.Count(out.String(), "\n"); n != len(want) {
			t.Errorf("%s: %d lines, want %v: %s", level, n, want, out.String())
		}
		for _, text := range want {
			if !strings.Contains(out.String(), "msg="+text+"\n") {
				t.Errorf("%s: no line %q in %s", level, text, out.String())
			}
		}
	}
	_, err := command.Log(&bytes.Buffer{}, "loud")
	if _, ok := errors.AsType[*command.UsageError](err); !ok ||
		err.Error() != `--log-level "loud": expected debug, info, warn or error` {
		t.Errorf("got %v", err)
	}
}

func TestVersion(t *testing.T) {
	r, out, _ := root(nil)
	if code := command.Main(r, []string{"version"}, nil); code != command.Done || out.String() != command.Build()+"\n" ||
		command.Build() == "" {
		t.Errorf("exit code %d, wrote %q, the build is %q", code, out, command.Build())
	}
}

// TestUnknownCommandIsNamed: with a flag behind it too, and in the help.
func TestUnknownCommandIsNamed(t *testing.T) {
	for _, args := range [][]string{
		{"logs", "--data-dir", "x"},
		{"logs"},
		{"help", "logs"},
		{"rum", "--n", "1"},
		{"help", "rum"},
	} {
		r, out, errs := root(func(context.Context) error { return nil })
		want := fmt.Sprintf("unknown command %q", args[len(args)-1])
		if args[0] != "help" {
			want = fmt.Sprintf("unknown command %q", args[0])
		}
		if code := command.Main(r, args, nil); code != command.Usage || !strings.Contains(errs.String(), want) ||
			out.Len() > 0 {
			t.Errorf("%q: exit code %d, %s%s", args, code, out, errs)
		}
	}
	r, out, _ := root(func(context.Context) error { return nil })
	if code := command.Main(r, []string{"help", "run"}, nil); code != command.Done ||
		!strings.Contains(out.String(), "prog run") {
		t.Errorf("help of a command: exit code %d, %s", code, out)
	}
	r, _, errs := root(func(context.Context) error { return nil })
	if code := command.Main(r, []string{"run", "--bad"}, nil); code != command.Usage ||
		!strings.Contains(errs.String(), "unknown flag: --bad") {
		t.Errorf("an unknown flag of a command: exit code %d, %s", code, errs)
	}
}

// TestDaemonHasItsOwnCodeForWrongSettings: a unit restarts what crashes, and every Go program that crashes has exit
// code 2.
func TestDaemonHasItsOwnCodeForWrongSettings(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		err  error
		code int
	}{
		"settings": {[]string{"run"}, &command.UsageError{Err: errors.New("--x is bad")}, command.Settings},
		"a flag":   {[]string{"run", "--none"}, nil, command.Settings},
		"anything": {[]string{"run"}, errors.New("no luck"), command.Failed},
		"an end":   {[]string{"run"}, nil, command.Done},
	} {
		var out bytes.Buffer
		root := &cobra.Command{Use: "prog"}
		run := &cobra.Command{Use: "run", Args: command.NoArgs}
		command.Daemon(run, func(*cobra.Command, *service.Service) error { return c.err })
		root.AddCommand(run)
		root.SetErr(&out)
		if code := command.Main(root, c.args, nil); code != c.code {
			t.Errorf("%s: exit code %d, want %d; it wrote %q", name, code, c.code, out.String())
		}
	}
	for _, unit := range []string{"drover-agent", "drover-proxy", "drover-server"} {
		text, err := os.ReadFile("../../deploy/systemd/" + unit + ".service")
		if want := "\nRestart=always\nRestartSec=2s\n"; err != nil || !strings.Contains(string(text), want) ||
			!strings.Contains(string(text), fmt.Sprintf("\nRestartPreventExitStatus=%d\n", command.Settings)) ||
			!strings.Contains(string(text), "\nWatchdogSec=") {
			t.Errorf("%s does not restart what crashes or hangs, or restarts what has wrong settings: %v", unit, err)
		}
	}
}
