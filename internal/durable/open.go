package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Open is os.OpenFile for a file that drover makes in a directory of its own. It makes the directory again, with mode
// 0700, if somebody has removed it while drover runs. flags hold os.O_CREATE.
func Open(path string, flags int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flags, mode)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, flags, mode)
}
