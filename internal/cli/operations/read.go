package operations

import (
	"fmt"
	"io"
	"os"
	"time"

	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/processfile"
)

// maxFile is the largest process file, in bytes.
const maxFile = 16 << 20

// ReadFile returns a file, or stdin for -.
func ReadFile(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, term.Usagef("--file: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	case len(data) > maxFile:
		return nil, term.Usagef("%s is larger than %d bytes", name, maxFile)
	}
	return data, nil
}

// Chosen returns the entries of a process: its own, those of its copies, or that of one copy out of that of all.
func Chosen(all []processfile.Named, name string) (own []processfile.Named) {
	for _, p := range all {
		base, _ := process.CutCopy(p.Name)
		switch {
		case p.Name == name || base == name && p.Run != "":
			own = append(own, p)
		default:
			for _, one := range processfile.Expand(p) {
				if one.Name == name {
					own = append(own, one)
				}
			}
		}
	}
	return own
}

// AskForFaults is how long the server has to find more faults of files that have some.
const AskForFaults = 5 * time.Second
