package cli_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"drover/internal/cli"
)

var update = flag.Bool("update", false, "write the help texts to testdata/help")

// TestHelp compares what each command says of itself with testdata/help, so that a change of it is seen.
func TestHelp(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	var names []string
	walk(cli.NewRoot(), func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".txt"
		names = append(names, name)
		var out bytes.Buffer
		root := cli.NewRoot()
		root.SetOut(&out)
		root.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "--help"))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", "help", name)
		if *update {
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), out.String()); d != "" {
			t.Errorf("%s (-want +got; -update writes it anew):\n%s", name, d)
		}
	})
	files, err := os.ReadDir(filepath.Join("testdata", "help"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(names, f.Name()) {
			t.Errorf("%s is of no command", f.Name())
		}
	}
}

func walk(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, do)
	}
}

// TestHelpTellsExitCodes: scripts rest on them.
func TestHelpTellsExitCodes(t *testing.T) {
	long := cli.NewRoot().Long
	for _, code := range []string{
		"0 done", "1 failed", "2 wrong usage", "3 not running", "4 no such thing",
		"5 not allowed", "6 unreachable", "7 done on some",
	} {
		if !strings.Contains(strings.ReplaceAll(long, "\n", " "), code) {
			t.Errorf("the help does not say %q", code)
		}
	}
}
