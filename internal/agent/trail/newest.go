package trail

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

// maxEntries is how many files of a directory Newest and Renamed look at.
const maxEntries = 10_000

// Newest returns the path of a log file: path itself, or the newest regular file in it if it is a directory.
func Newest(visit Visit, path string) (newest string, err error) {
	newest = path
	err = visit(path, func(t *Trail) error {
		if !t.IsDir() {
			return nil
		}
		newest = ""
		var latest time.Time
		err := t.files(func(name string, info fs.FileInfo) {
			if newest == "" || info.ModTime().After(latest) {
				newest, latest = filepath.Join(path, name), info.ModTime()
			}
		})
		if err != nil {
			return err
		}
		if newest == "" {
			return fmt.Errorf("there is no file in %s", path)
		}
		return nil
	})
	return newest, err
}

// Renamed returns the path of the file with an inode in a directory; it is empty if there is none.
func Renamed(visit Visit, dir string, inode uint64) (path string) {
	_ = visit(dir, func(t *Trail) error {
		return t.files(func(name string, info fs.FileInfo) {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Ino == inode {
				path = filepath.Join(t.Path, name)
			}
		})
	})
	return path
}

// files calls do for each regular file of the directory at the end.
func (t *Trail) files(do func(name string, info fs.FileInfo)) error {
	dir, err := t.Open()
	if err != nil {
		return err
	}
	defer dir.Close()                     //nolint:errcheck // nothing was written
	entries, _ := dir.ReadDir(maxEntries) // an error is an empty directory
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			do(e.Name(), info)
		}
	}
	return nil
}
