package trail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// mostRemoved bounds how many files one removal removes: whoever makes them may be making more.
const mostRemoved = 4 << 20

// Remove removes a directory with everything in it, and follows no link. It holds two descriptors, however deep the
// directories are: it moves what a directory has to the top before it removes the directory.
func Remove(path string) error {
	top, err := openDirectory(unix.AT_FDCWD, path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", path, err)
	}
	defer top.Close() //nolint:errcheck // it was only read
	r := remover{top: int(top.Fd())}
	if err := r.empty(top, r.removeDirectory); err != nil {
		return fmt.Errorf("cannot remove what is in %s: %w", path, err)
	}
	return os.Remove(path)
}

// remover removes what is in a directory.
type remover struct{ top, removed, moved int }

func openDirectory(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// empty removes the files of a directory, and calls directory with the name of each directory in it.
func (r *remover) empty(dir *os.File, directory func(in int, name string) error) error {
	for {
		if _, err := dir.Seek(0, io.SeekStart); err != nil { // what was removed has changed the order
			return err
		}
		names, err := dir.Readdirnames(1024)
		if len(names) == 0 && (err == nil || errors.Is(err, io.EOF)) {
			return nil
		} else if len(names) == 0 {
			return err
		}
		for _, name := range names {
			if r.removed++; r.removed > mostRemoved {
				return errors.New("somebody fills it meanwhile")
			}
			err := unix.Unlinkat(int(dir.Fd()), name, 0)
			if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
				err = directory(int(dir.Fd()), name)
			}
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
}

// removeDirectory removes a directory at the top, after its directories have moved there.
func (r *remover) removeDirectory(_ int, name string) error {
	dir, err := openDirectory(r.top, name)
	if err == nil {
		err = r.empty(dir, func(in int, name string) error {
			for {
				r.moved++
				err := unix.Renameat2(in, name, r.top, ".removed-"+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
				if !errors.Is(err, unix.EEXIST) {
					return err
				}
			}
		})
		_ = dir.Close() // it was only read
	}
	if err != nil && !errors.Is(err, unix.EACCES) { // an empty one can be removed unread
		return err
	}
	return unix.Unlinkat(r.top, name, unix.AT_REMOVEDIR)
}
