package files

import (
	"bytes"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/internal/cli/term"
	"drover/internal/processfile"
)

// TestGetForms: what get prints of no, one and several namespaces is one value, and an apply reads it.
func TestGetForms(t *testing.T) {
	var files []v1.File
	for _, namespace := range []string{"a", "b"} {
		files = append(files, v1.File{Namespace: namespace, Processes: map[string]v1.Spec{
			"x": {Run: "x", Hosts: v1.Hosts{Names: []string{"h"}}},
		}})
	}
	for n, begin := range []string{"[]", "{", "["} {
		for _, form := range []string{term.AsJSON, term.AsYAML} {
			cmd, out := &cobra.Command{}, &bytes.Buffer{}
			cmd.SetOut(out)
			if err := printFiles(cmd, form, slices.Concat(files[:n])); err != nil {
				t.Fatal(err)
			}
			if form == term.AsJSON && !bytes.HasPrefix(out.Bytes(), []byte(begin)) {
				t.Errorf("%d namespaces begin otherwise than with %s:\n%s", n, begin, out)
			}
			if docs, err := processfile.Read("", out.Bytes()); len(docs) != n || err != nil && n > 0 {
				t.Errorf("%d namespaces as %s: %v\n%s", n, form, err, out)
			}
		}
	}
}
