package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel keeps cpuFile for every version 2 group, even without a cpu controller.
const cpuFile = "cpu.stat"

// AccountFiles is how many descriptors an Account holds at most.
const AccountFiles = 3

// Account is a group that drover looks at repeatedly. In the version 2 hierarchy its files stay open, so that a look
// takes three short system calls. Only one goroutine at a time may use it.
type Account struct {
	group *Group
	// dir and procs are -1 in version 1: an open file there returns an old list.
	dir, procs int
	cpu        int // -1 if the kernel has no such file
}

// lastPart is less than the kernel returns of a file that goes on: it fills at least half a page.
const lastPart = 2048

// Reading is one look at an Account.
type Reading struct {
	// PIDs are the processes of the group and of groups below it, in ascending order, without zombies.
	PIDs []int
	// CPU is the CPU time of all processes that were ever in the group; it is valid only if Accounted is set.
	CPU       time.Duration
	Accounted bool
}

// Account opens the account of the group, for the caller to close. The error is errors.ErrUnsupported in ModeNone.
func (g *Group) Account() (*Account, error) {
	if g.mode == ModeNone {
		return nil, fmt.Errorf("cannot open the account of cgroup %s: %w", g.id, errors.ErrUnsupported)
	}
	a := &Account{group: g, dir: -1, procs: -1, cpu: -1}
	if g.mode != ModeV2 {
		return a, nil
	}
	var err error
	if a.dir, err = openFile(g.dir); err == nil {
		a.procs, err = openFile(filepath.Join(g.dir, procsFile))
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("cannot open the account of cgroup %s: %w", g.id, err)
	}
	// The file is missing before Linux 4.15.
	a.cpu, _ = openFile(filepath.Join(g.dir, cpuFile))
	return a, nil
}

// openFile does not use os.File, which would register every file of a group with the poller.
func openFile(path string) (int, error) {
	return retried(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
}

// Look reads the account. It fails once the group has been removed.
func (a *Account) Look() (Reading, error) {
	buf, ok := a.group.buffers.Get().(*[]byte)
	if !ok {
		buf = new(make([]byte, 1024))
	}
	defer a.group.buffers.Put(buf)
	pids, err := a.pids(buf)
	if err != nil {
		return Reading{}, fmt.Errorf("cannot look at cgroup %s: %w", a.group.id, err)
	}
	r := Reading{PIDs: pids}
	if a.cpu < 0 {
		return r, nil
	}
	data, err := read(a.cpu, buf)
	if err != nil {
		return Reading{}, fmt.Errorf("cannot look at cgroup %s: %w", a.group.id, err)
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if value, ok := bytes.CutPrefix(line, []byte("usage_usec ")); ok {
		used, err := strconv.ParseInt(string(value), 10, 64)
		r.CPU, r.Accounted = time.Duration(used)*time.Microsecond, err == nil
	}
	return r, nil
}

func (a *Account) pids(buf *[]byte) ([]int, error) {
	if a.dir < 0 {
		pids, err := a.group.PIDs()
		if err == nil && len(pids) == 0 {
			err = unix.Access(a.group.dir, unix.F_OK)
		}
		return pids, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(a.dir, &st); err != nil {
		return nil, err
	}
	// A directory has two links, plus one for each subdirectory.
	if st.Nlink > 2 {
		return a.group.PIDs()
	}
	data, err := read(a.procs, buf)
	if err != nil {
		return nil, err
	}
	pids := numbers(data)
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// read returns the whole content of a file of the kernel, in a buffer that may grow.
func read(fd int, buf *[]byte) ([]byte, error) {
	n := 0
	for {
		if n == len(*buf) {
			*buf = append(*buf, make([]byte, len(*buf))...)
		}
		free := (*buf)[n:]
		got, err := retried(func() (int, error) { return unix.Pread(fd, free, int64(n)) })
		if err != nil {
			return nil, err
		}
		if n += got; got < min(len(free), lastPart) {
			return (*buf)[:n], nil
		}
	}
}

func retried(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// Close closes the descriptors.
func (a *Account) Close() {
	for _, fd := range []int{a.dir, a.procs, a.cpu} {
		if fd >= 0 {
			unix.Close(fd) //nolint:errcheck // opened only for reading
		}
	}
}
