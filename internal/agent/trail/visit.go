package trail

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Resolve returns a path to the file without links. The kernel follows the links, with its own limit: an attacker
// could lay out links that take minutes to follow one by one.
func Resolve(path string) (string, error) {
	fd, err := openat(unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// Visit follows a path and calls do with the file at its end. The trail is closed when do returns. The provider of a
// Visit decides whose rights count, and where the path may lead.
type Visit func(path string, do func(*Trail) error) error

// Plain is the Visit with the rights of this process, to wherever it leads.
func Plain(path string, do func(*Trail) error) error {
	t, err := Follow(path)
	if err != nil {
		return err
	}
	defer t.Close()
	return do(t)
}
