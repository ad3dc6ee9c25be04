package processes

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"strings"

	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/processfile"
)

// specExample is a spec with every field that one spec can have.
//
//go:embed spec.yaml
var specExample string

// maxSpec is the largest file with a spec, in bytes.
const maxSpec = 1 << 20

// readSpec reads a spec. It rejects a misspelt name, because the field would silently have its default.
func readSpec(in io.Reader, file string) (*client.Spec, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, term.Usagef("--file: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSpec+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	case len(data) > maxSpec:
		return nil, term.Usagef("%s is larger than %d bytes", file, maxSpec)
	}
	spec, err := processfile.ReadSpec(file, data)
	if err != nil {
		return nil, term.Usagef("%s is not a valid spec:\n  %s", file, strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return &spec, nil
}
