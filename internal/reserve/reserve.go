// Package reserve keeps disk space for writes that must succeed when the disk is full. It owns the file that reserves
// the space; its callers decide which writes use it.
package reserve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrFull says that a disk has no room, or none but what is reserved.
var ErrFull = errors.New("no space left on device")

// step is how much room is given up at a time, so that others who fill the disk do not get all of it.
const step = 128 << 10

// Reserve is the room beside some files. Its methods may be called from any goroutine; they do file I/O.
type Reserve struct {
	path string
	most int64

	mu sync.Mutex
	// size is what the room should be, held what it is.
	size, held int64
}

// Keep reserves up to most bytes, and at most an eighth of the disk, in a file. A disk that has no room now gives it
// later.
func Keep(path string, most int64) *Reserve {
	r := &Reserve{path: path, most: most}
	if info, err := os.Stat(path); err == nil {
		r.held = info.Size()
	}
	r.Renew()
	return r
}

// IsFull reports whether an error says that there is no room.
func IsFull(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Urgent has do write, and gives up room for as long as there is none without that. Do may run several times.
func (r *Reserve) Urgent(do func() error) error {
	for {
		err := do()
		if !IsFull(err) || !r.give() {
			return err
		}
	}
}

// Ordinary has do write if the reserve is whole: room that was given up is for what is urgent. The error is ErrFull
// where there is none.
func (r *Reserve) Ordinary(do func() error) error {
	if !r.Renew() {
		return ErrFull
	}
	err := do()
	if IsFull(err) && !errors.Is(err, ErrFull) {
		return fmt.Errorf("%w (%w)", ErrFull, err)
	}
	return err
}

// Room reports whether the disk has room for one more small write.
func (r *Reserve) Room() bool {
	_, free, err := Disk(filepath.Dir(r.path))
	return err != nil || free >= step
}

// Renew makes the reserve whole again where the disk has that room and a little more, and reports whether it is whole.
func (r *Reserve) Renew() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size > 0 && r.held >= r.size {
		return true
	}
	total, free, err := Disk(filepath.Dir(r.path))
	if err != nil {
		return true // it cannot be known; the write itself tells
	}
	r.size = min(r.most, total/8)
	if r.held < r.size {
		if free < r.size-r.held+step {
			return false
		}
		if err := r.resize(r.size); err != nil {
			return !IsFull(err) // there is room, so the write itself tells
		}
	}
	return true
}

// give gives up one step, and reports whether there was one.
func (r *Reserve) give() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held > 0 && r.resize(max(r.held-step, 0)) == nil
}

// resize makes the file this long, with the blocks for it.
func (r *Reserve) resize(size int64) error {
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if size > r.held {
		err = allocate(f, r.held, size)
	} else {
		err = f.Truncate(size)
	}
	if err == nil {
		r.held = size
	} else {
		_ = f.Truncate(r.held) // what it has got would be held by nobody
	}
	return errors.Join(err, f.Close())
}

// allocate gives a file blocks up to a size. Not every file system can without writing.
func allocate(f *os.File, from, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, from, size-from)
	// A kernel, a file system or a sandbox can lack the call.
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return err
	}
	for block := make([]byte, step); from < size; {
		n, err := f.WriteAt(block[:min(int64(len(block)), size-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// Disk returns the size of the file system of a path, and the room that this process may still fill, in bytes. A
// process of root may fill what the file system keeps for root (statfs(2)).
func Disk(path string) (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, fmt.Errorf("cannot see how much room %s has: %w", path, err)
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	//nolint:gosec,unconvert // block sizes are of different types on other machines
	return int64(st.Blocks) * st.Bsize, int64(blocks) * st.Bsize, nil
}
