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

// Forget moves an agent's directory aside, so that the next join creates a new host with another key. The processes go
// on running, and no drover knows them. It returns the new path of the directory, empty if there was none. It fails
// while the agent runs.
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
