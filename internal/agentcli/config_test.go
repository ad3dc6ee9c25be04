package agentcli_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/agentcli"
	"drover/internal/command"
)

// call calls drover-agent and returns what it writes.
func call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := agentcli.NewRoot()
	root.SilenceErrors, root.SilenceUsage = true, true
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func settings(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigCheck(t *testing.T) {
	path := settings(t, "data-dir: /d\nevent-age: 48h\nlog-level: warn\n")
	if out, err := call(t, "config", "check", path); err != nil || out != path+" is valid\n" {
		t.Errorf("%q, %v", out, err)
	}
	for text, want := range map[string]string{
		"datadir: /d\n":          `unknown setting "datadir"`,
		"event-age: 1s\n":        "event-age",
		"log-level: loud\n":      "log-level",
		"relaunch-rate: a few\n": "relaunch-rate",
	} {
		_, err := call(t, "config", "check", settings(t, text))
		exit := (*command.ExitError)(nil)
		if !errors.As(err, &exit) || exit.Code != command.Failed || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want exit code 1 and a word about %s", text, err, want)
		}
	}
	_, err := call(t, "config", "check", settings(t, "bogus: 1\nevent-age: 1s\nrelaunch-rate: x\nflap-relaunches: 0\nlog-level: loud\n"))
	for _, want := range []string{`:1: unknown setting "bogus"`, "--event-age 1s", `:3: relaunch-rate "x"`, "--flap-relaunches 0", `--log-level "loud"`} {
		if err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("of all faults it says %v, want %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "relaunch-rate 0") {
		t.Errorf("a fault of a value that nobody has given: %v", err)
	}
	var out bytes.Buffer
	root := agentcli.NewRoot()
	root.SetErr(&out)
	for _, path := range []string{settings(t, "bogus: 1\n"), "/none"} {
		if code := command.Main(root, []string{"config", "check", path}, nil); code != command.Failed {
			t.Errorf("%s: exit code %d, want 1: %s", path, code, out.String())
		}
	}
	if _, err := call(t, "config", "check"); !errors.As(err, new(*command.UsageError)) {
		t.Errorf("without a file: %v, want a wrong use", err)
	}
}

// TestTheInstalledFileIsRight: what the packages install is taken by the program that they install.
func TestTheInstalledFileIsRight(t *testing.T) {
	if out, err := call(t, "config", "check", "../../deploy/etc/agent.conf"); err != nil {
		t.Errorf("%s: %v", out, err)
	}
}

// TestRunWithWrongSettings is a wrong use, which the unit does not try again.
func TestRunWithWrongSettings(t *testing.T) {
	for _, args := range [][]string{
		{"run", "--config", settings(t, "nonsense: 1\n")},
		{"run", "--config", settings(t, "event-age: 1s\n")},
		{"run", "--config", "/none"},
	} {
		if _, err := call(t, args...); !errors.As(err, new(*command.UsageError)) {
			t.Errorf("%q: %v, want a wrong use", args, err)
		}
	}
}
