// Package durable writes small files that must be complete after a crash at any time. It owns the method: it writes a
// file under another name beside its target, and syncs the file and its name before a function returns. The callers
// own the meaning of the files.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace gives a file these contents and this mode, whole or not at all; it need not be there yet. Where it fails
// before the file has its name, what was there stays. It blocks for the disk. Errors name the file.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return put(path, data, mode, os.Rename)
}

// Create is Replace for a name that is free: it fails with fs.ErrExist where it is taken, so that of two who create it
// one wins.
func Create(path string, data []byte, mode fs.FileMode) error {
	return put(path, data, mode, os.Link)
}

// put writes a file, and has give move it to its name.
func put(path string, data []byte, mode fs.FileMode, give func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it was renamed, or is not needed any more
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := give(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir brings to the disk which names a directory holds.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
