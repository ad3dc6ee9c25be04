// Package repo finds the files of the repository for tests. It is for tests only.
package repo

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// Root is the directory of the repository. It panics if the test does not run below it, where the go command runs every
// test.
func Root() string {
	dir, err := root()
	if err != nil {
		panic(err)
	}
	return dir
}

// root looks once, because a test may go elsewhere later. It does not ask the runtime for the path of this file, which
// -trimpath removes.
//
//nolint:gochecknoglobals // the directory does not change
var root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no directory above has the file go.work: tests run below the repository")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
})
