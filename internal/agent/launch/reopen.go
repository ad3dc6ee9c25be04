package launch

import (
	"fmt"
	"os"
	"path/filepath"
)

// OpenOutput opens the file of a command that an earlier agent started. What that agent had cut off stays lost.
func OpenOutput(dir, name string) (*Output, error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open output: %w", err)
	}
	return &Output{file: file}, nil
}
