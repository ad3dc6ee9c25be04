package trail

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Resolve returns a path without links to what is there. The kernel follows them, and no more than it ever does: to
// follow them one by one may take minutes where somebody has laid them out for that.
func Resolve(path string) (string, error) {
	fd, err := openat(unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// Visit follows a path and hands do what is at its end, which is let go of when do returns. Whoever gives one decides
// by whose rights, and where it may lead.
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
