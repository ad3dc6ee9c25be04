package specstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Unused returns nil if no agent uses the files in dir at this moment, or if there are no files. It changes nothing.
func Unused(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "state.db"), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor is small
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errInUse
	}
	return err
}
