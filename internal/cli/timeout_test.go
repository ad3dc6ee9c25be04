package cli_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"drover/internal/cli"
	"drover/internal/command"
	"drover/internal/release"
	"drover/internal/test/harness"
)

// callTime is less than a call may take that nothing limits.
const callTime = 15 * time.Second

// TestEachCommandEnds: a server that takes calls and answers none holds no command for longer than its --timeout.
func TestEachCommandEnds(t *testing.T) {
	over := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(over) })
	t.Setenv("DROVER_APP_CODE", "a")
	t.Setenv("DROVER_APP_SECRET", "s")
	spec := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(spec, []byte("start: x\nprocess_name: p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file.yaml")
	text := "namespace: x\nprocesses: {y: {run: z, hosts: [h]}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	signedProgram(t)
	more := map[string][]string{
		"drover apply":           {"--file", file},
		"drover diff":            {"--file", file},
		"drover register":        {"--hosts", "h", "--file", spec},
		"drover token create":    {"--area", "0", "--uses", "1", "--ttl", "1h"},
		"drover receiver create": {"--url", "http://127.0.0.1"},
		"drover receiver change": {"--note", "n"},
		"drover silence":         {"*/*", "--for", "1h"},
		"drover changes":         {"--from", "1h"},
		"drover app change":      {"--note", "n"},
		"drover schedule create": {"--cron", "0 3 * * *"},
		"drover events":          {"--follow"},
		"drover hosts label":     {"h", "role=web"},
		"drover hosts remove":    {"h"},
		"drover hosts upgrade":   {"h", "--to", "1.0.0"},
		"drover keys rotate":     {"--all", "--wait"},
		"drover rollout pace":    {"--batch", "2"},

		"drover import systemd":     {"--adopt"},
		"drover import supervisord": {"--adopt"},
	}
	placeholder := regexp.MustCompile(`^[A-Z/|]+$`)
	asked := 0
	walk(cli.NewRoot(), func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("timeout") == nil || cmd.CommandPath() == "drover ui" { // that needs a terminal
			return
		}
		asked++
		args := strings.Fields(cmd.CommandPath())[1:]
		usage, _, _ := strings.Cut(cmd.Use, " --")
		var last []string
		for _, word := range strings.Fields(usage)[1:] {
			switch word = strings.TrimSuffix(word, "..."); {
			case word == "RIGHT":
				args = append(args, "stop on web")
			case word == "SIGNAL":
				args = append(args, "HUP")
			case word == "OPERATION":
				last = []string{"--", "restart", "x/y"}
			case placeholder.MatchString(word):
				args = append(args, "x/y")
			}
		}
		args = append(args, more[cmd.CommandPath()]...)
		args = append(append(args, "--server", silent.URL, "--timeout", "50ms"), last...)
		root := cli.NewRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SilenceErrors, root.SilenceUsage = true, true
		root.SetArgs(args)
		ctx, cancel := context.WithTimeout(t.Context(), callTime)
		defer cancel()
		err := root.ExecuteContext(ctx)
		if exit, ok := errors.AsType[*command.ExitError](err); !ok || exit.Code != command.Unreachable ||
			ctx.Err() != nil {
			t.Errorf("drover %s: %v\n%s", strings.Join(args, " "), err, out.String())
		}
	})
	if asked < 40 {
		t.Errorf("only %d commands have a --timeout", asked)
	}
}

// TestWaitingHasNoTimeLimit: a command that waits for an operation does so until it has ended, unless somebody sets a
// limit.
func TestWaitingHasNoTimeLimit(t *testing.T) {
	waiting := 0
	walk(cli.NewRoot(), func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("no-wait") == nil {
			return
		}
		waiting++
		if f := cmd.Flags().Lookup("timeout"); f == nil || f.DefValue != "0" {
			t.Errorf("%s has the default --timeout %+v, want none", cmd.CommandPath(), f)
		}
	})
	if waiting < 10 {
		t.Errorf("only %d commands have --no-wait", waiting)
	}
}

// signedProgram makes the file x/y with its signature, in the working directory from now on.
func signedProgram(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	program := []byte("program")
	signed, err := release.Seal(release.Describe("1.0.0", "amd64", release.Format, program), key, time.Now())
	err = errors.Join(err, os.Mkdir("x", 0o700), os.WriteFile("x/y", program, 0o600),
		os.WriteFile("x/y.sig", signed, 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// TestTimeoutAgainstAStoppedServer: the kernel takes the calls of a server that hangs. Each command ends in time, with
// 6, and says why.
func TestTimeoutAgainstAStoppedServer(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	registered(t, s, "hang/p")
	id := strings.TrimSpace(run(t, s, "start", "hang/p", "--no-wait"))
	harness.Signal(t, s.PID(), syscall.SIGSTOP)
	t.Cleanup(func() { harness.Signal(t, s.PID(), syscall.SIGCONT) })
	for _, args := range [][]string{
		{"ps"},
		{"status", "hang/p"},
		{"why"},
		{"events"},
		{"events", "-f"},
		{"stop", "hang/p"},
		{"task", "watch", id},
		{"agents"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
		out, err := exec.CommandContext(ctx, binaries.drover, append(args, "--timeout", "200ms", "--data-dir",
			s.DataDir)...).CombinedOutput()
		if exitCode(err) != 6 || ctx.Err() != nil {
			t.Errorf("drover %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		if !strings.Contains(string(out), "it did not answer in time") {
			t.Errorf("drover %s says %q", strings.Join(args, " "), out)
		}
		cancel()
	}
}

// TestTimeoutIsKeptByAStop: it bounds the whole command, with what comes before the waiting.
func TestTimeoutIsKeptByAStop(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	registered(t, s, "slow/p")
	out, err := exec.Command(binaries.drover, "start", "slow/p", "--timeout", "1s", "--data-dir",
		s.DataDir).CombinedOutput()
	if exitCode(err) != 6 || !strings.Contains(string(out), "not done within 1s") {
		t.Errorf("%v\n%s", err, out)
	}
	hint := regexp.MustCompile(`follow it with: (.*)\n`).FindStringSubmatch(string(out))
	if hint == nil {
		t.Fatalf("no hint in %q", out)
	}
	follow := exec.Command("sh", "-c", hint[1])
	follow.Env = append(os.Environ(), "PATH="+filepath.Dir(binaries.drover)+":"+os.Getenv("PATH"))
	if out, err := follow.CombinedOutput(); err != nil || !strings.Contains(string(out), "1 ok") {
		t.Errorf("%s: %v\n%s", hint[1], err, out)
	}
}
