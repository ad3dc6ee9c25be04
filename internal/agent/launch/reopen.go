package launch

import (
	"fmt"
	"os"
	"path/filepath"
)

// OpenOutput opens the output of a command that an earlier agent started. The bytes that the earlier agent cut are
// lost.
func OpenOutput(dir, name string) (*Output, error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open output: %w", err)
	}
	return &Output{file: file}, nil
}
