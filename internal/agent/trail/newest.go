package trail

import (
	"fmt"
	"path/filepath"
	"time"
)

// maxEntries is how many files of a directory Newest looks at.
const maxEntries = 10_000

// Newest returns the path of a log file: path itself, or the newest regular file in it if it is a directory.
func Newest(visit Visit, path string) (newest string, err error) {
	newest = path
	err = visit(path, func(t *Trail) error {
		if !t.IsDir() {
			return nil
		}
		dir, err := t.Open()
		if err != nil {
			return err
		}
		defer dir.Close() //nolint:errcheck // nothing was written
		newest = ""
		var latest time.Time
		entries, _ := dir.ReadDir(maxEntries) // an error is an empty directory
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && info.Mode().IsRegular() && (newest == "" || info.ModTime().After(latest)) {
				newest, latest = filepath.Join(path, e.Name()), info.ModTime()
			}
		}
		if newest == "" {
			return fmt.Errorf("there is no file in %s", path)
		}
		return nil
	})
	return newest, err
}
