package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"drover/internal/agent/specstore"
)

// Forget sets an agent's directory aside, so that the next join makes a host of its own of it: another key, and none of
// the processes, which go on running and are nobody's then. It returns where everything is now, empty where there was
// nothing. It fails while the agent runs.
func Forget(dir string, now time.Time) (aside string, err error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err := specstore.Unused(dir); err != nil {
		return "", fmt.Errorf("cannot give up the identity in %s: %w", dir, err)
	}
	aside = fmt.Sprintf("%s.former-%s", filepath.Clean(dir), now.UTC().Format("20060102T150405"))
	if err := os.Rename(dir, aside); err != nil {
		return "", fmt.Errorf("cannot give up the identity in %s: %w", dir, err)
	}
	return aside, nil
}
