package procfs

import (
	"io/fs"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// statSize is larger than any /proc/PID/stat, in bytes: a name of 15 bytes and 51 numbers.
const statSize = 2048

// handle is an open /proc/PID/stat. It stays bound to its process, so that another look takes one system call and a
// third of the time. Once the process is reaped, every look fails, even if the pid is in use again.
type handle struct{ fd int }

// openStat opens the stat of a process. The error is fs.ErrNotExist if the process does not exist.
func (f FS) openStat(pid int) (handle, error) {
	path := filepath.Join(f.root, strconv.Itoa(pid), "stat")
	fd, err := ignoringEINTR(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return handle{}, &fs.PathError{Op: "open", Path: path, Err: toNotExist(err)}
	}
	return handle{fd}, nil
}

// read reads the stat into buf. The error is fs.ErrNotExist if the process has been reaped.
func (h handle) read(buf []byte) (Stat, error) {
	n, err := ignoringEINTR(func() (int, error) { return unix.Pread(h.fd, buf, 0) })
	if err != nil {
		return Stat{}, &fs.PathError{Op: "read", Path: "stat", Err: toNotExist(err)}
	}
	return parseStat(buf[:n])
}

func (h handle) close() {
	unix.Close(h.fd) //nolint:errcheck // opened only for reading
}
