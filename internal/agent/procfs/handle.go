package procfs

import (
	"io/fs"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// statSize is more than any /proc/PID/stat has, in bytes: a name of 15 and 51 numbers.
const statSize = 2048

// handle is an open /proc/PID/stat. It goes on meaning its process, so that looking again takes one system call and a
// third of the time; once that has been reaped every look fails, whoever has the pid then.
type handle struct{ fd int }

// openStat opens the stat of a process. The error is fs.ErrNotExist when there is none.
func (f FS) openStat(pid int) (handle, error) {
	path := filepath.Join(f.root, strconv.Itoa(pid), "stat")
	fd, err := ignoringEINTR(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return handle{}, &fs.PathError{Op: "open", Path: path, Err: gone(err)}
	}
	return handle{fd}, nil
}

// read looks at the process, by way of buf. The error is fs.ErrNotExist when it has been reaped.
func (h handle) read(buf []byte) (Stat, error) {
	n, err := ignoringEINTR(func() (int, error) { return unix.Pread(h.fd, buf, 0) })
	if err != nil {
		return Stat{}, &fs.PathError{Op: "read", Path: "stat", Err: gone(err)}
	}
	return parseStat(buf[:n])
}

func (h handle) close() {
	unix.Close(h.fd) //nolint:errcheck // opened for reading only
}
