package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// lastFD is a descriptor number that nobody uses.
const lastFD = 1<<31 - 1

// ownTable gives the calling thread a descriptor table of its own; the thread must be locked to its goroutine. It
// closes everything except 0, 1, 2, those to keep and the descriptors that the Go runtime uses on any thread. It
// returns a descriptor of /dev/null. After an error the thread must end.
func ownTable(kept ...int) (null int, err error) {
	fail := func(err error) (int, error) {
		return -1, fmt.Errorf("cannot give a thread descriptors of its own: %w", err)
	}
	// The runtime makes its poller at first use. It must exist before ownTable can keep it.
	r, w, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	_, _ = r.Close(), w.Close() // nothing was written

	// Until all other descriptors are closed, this table still has files open that somebody wrote and closed: nobody
	// can execute such a file.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	// This closes nothing. It does what unshare(2) does, but is allowed in sandboxes that forbid unshare(2).
	if err := unix.CloseRange(lastFD, lastFD, unix.CLOSE_RANGE_UNSHARE); err != nil {
		return fail(os.NewSyscallError("close_range", err))
	}
	keep, err := pollers()
	if err != nil {
		return fail(err)
	}
	keep = append(append(keep, 0, 1, 2), kept...)
	slices.Sort(keep)
	keep = slices.Compact(append(keep, lastFD))
	for i, fd := range keep[1:] {
		first, last := keep[i]+1, fd-1
		if first > last {
			continue
		}
		if err := unix.CloseRange(uint(first), uint(last), 0); err != nil { //nolint:gosec // descriptors are small
			return fail(os.NewSyscallError("close_range", err))
		}
	}
	if null, err = openNull(); err != nil {
		return fail(err)
	}
	return null, nil
}

// pollers returns the epoll sets and event counters of the calling thread. The descriptors of the runtime are among
// them. After a garbage collection the runtime polls the network on the thread that began the collection, and ends the
// program if that fails.
func pollers() ([]int, error) {
	dir := filepath.Join("/proc/self/task", strconv.Itoa(unix.Gettid()), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var sets, counters []int
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, err
		}
		// A descriptor that is gone was the one that read the directory.
		switch target, _ := os.Readlink(filepath.Join(dir, e.Name())); target {
		case "anon_inode:[eventpoll]":
			sets = append(sets, fd)
		case "anon_inode:[eventfd]":
			counters = append(counters, fd)
		}
	}
	if len(sets) == 0 || len(counters) == 0 {
		return nil, errors.New("the poller of the runtime was not found")
	}
	return append(sets, counters...), nil
}

// send passes files to the thread at the other end of a socket. The caller keeps its own descriptors open.
func send(socket int, f files) error {
	fds := []int{f.gate, f.output, f.errors, f.proof}
	for _, fd := range []int{f.group, f.signal} {
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	rights := unix.UnixRights(fds...)
	for {
		err := unix.Sendmsg(socket, []byte{0}, rights, nil, 0)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

// receive receives the descriptors of sent, and returns them with their numbers in this thread's table.
func receive(socket int, sent files) (files, error) {
	const most = 6
	want := most - 2
	for _, fd := range []int{sent.group, sent.signal} {
		if fd >= 0 {
			want++
		}
	}
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(most*4))
	var n int
	for {
		var err error
		// The version in package unix would add 50 kB to the program, because it parses the addresses of every family.
		_, n, _, _, err = syscall.Recvmsg(socket, data, rights, unix.MSG_CMSG_CLOEXEC)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return files{}, os.NewSyscallError("recvmsg", err)
		}
	}
	fds, err := parseRights(rights[:n])
	if err == nil && len(fds) != want {
		err = unix.EMFILE // the kernel drops descriptors that exceed the table
	}
	if err != nil {
		closeAll(fds)
		return files{}, fmt.Errorf("cannot receive descriptors: %w", err)
	}
	own, rest := files{
		gate: fds[0], output: fds[1], errors: fds[2], proof: fds[3], group: -1, signal: -1,
	}, fds[4:]
	if sent.group >= 0 {
		own.group, rest = rest[0], rest[1:]
	}
	if sent.signal >= 0 {
		own.signal = rest[0]
	}
	return own, nil
}

func parseRights(rights []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	return unix.ParseUnixRights(&messages[0])
}

func (f files) close() { closeAll([]int{f.gate, f.output, f.errors, f.proof, f.group, f.signal}) }

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd) //nolint:errcheck // the other table has it too
		}
	}
}
