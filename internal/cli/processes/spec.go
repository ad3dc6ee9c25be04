package processes

import (
	_ "embed"
	"io"
	"strings"

	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/processfile"
)

// specExample is a spec with every field that one spec can have.
//
//go:embed spec.yaml
var specExample string

// readSpec reads a spec. It rejects a misspelt name, because the field would silently have its default.
func readSpec(in io.Reader, file string) (*client.Spec, error) {
	data, err := readFile(in, file)
	if err != nil {
		return nil, err
	}
	spec, err := processfile.ReadSpec(file, data)
	if err != nil {
		return nil, term.Usagef("%s is not a valid spec:\n  %s", file, strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return &spec, nil
}
