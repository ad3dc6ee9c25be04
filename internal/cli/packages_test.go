package cli_test

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/cli"
)

// TestPackageFaults: everything that is wrong with a program and its signature is told at once.
func TestPackageFaults(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{
			[]string{"sign", none, "--key", none + ".key", "--version", "x y"},
			[]string{`version is "x y"`, "cannot read release key", "cannot read program"},
		},
		{[]string{"add", none}, []string{"cannot read program", "cannot read signature"}},
	} {
		root := cli.NewRoot()
		root.SetArgs(append([]string{"packages"}, tt.args...))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		err := root.ExecuteContext(t.Context())
		if err == nil {
			t.Fatalf("%q succeeds", tt.args)
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q says %v, without %q", tt.args, err, want)
			}
		}
	}
}
