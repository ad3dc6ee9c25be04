// Package inotify waits in the kernel for changes of files, on a thread that runs before the writers of those files.
package inotify

import (
	"errors"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// first is the nice value of a preferred thread that cannot have a real-time priority.
const first = -20

// Events is a queue of changes (inotify(7)). One goroutine reads it; Add, Wake and Stop may be called from any.
type Events struct{ queue, stopped, woken int }

// Event is one change. Watch is a result of Add; Name is the changed file of a watched directory, empty for a watched
// file. Overflow says that the kernel dropped events, and nothing else.
type Event struct {
	Watch    int
	Name     string
	Overflow bool
}

// BufferSize is the size in bytes of a buffer that holds at least 64 events.
const BufferSize = 64 * (unix.SizeofInotifyEvent + unix.NAME_MAX + 1)

// Open returns an empty queue.
func Open() (*Events, error) {
	queue, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	e := &Events{queue: queue}
	for _, fd := range []*int{&e.stopped, &e.woken} {
		if *fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			e.Close()
			return nil, os.NewSyscallError("eventfd", err)
		}
	}
	return e, nil
}

// AddWrites adds an event for each write to a file, or to a file of a directory.
func (e *Events) AddWrites(path string) (watch int, err error) { return e.add(path, unix.IN_MODIFY) }

// AddNextWrite adds one event for the next write to a file, or for the next change of its names. The watch then ends.
func (e *Events) AddNextWrite(path string) (watch int, err error) {
	return e.add(path, unix.IN_MODIFY|unix.IN_ATTRIB|unix.IN_MOVE_SELF|unix.IN_ONESHOT|unix.IN_DONT_FOLLOW)
}

func (e *Events) add(path string, mask uint32) (int, error) {
	watch, err := unix.InotifyAddWatch(e.queue, path, mask)
	return watch, os.NewSyscallError("inotify_add_watch", err)
}

// Read waits for events, at most for limit if limit is not negative, and reads them into buffer. It returns 0 bytes
// when the time is over, and after Wake. open is false after Stop.
func (e *Events) Read(buffer []byte, limit time.Duration) (n int, open bool, err error) {
	for {
		if e.wait(limit, e.queue, e.woken) {
			return 0, false, nil
		}
		n, err := unix.Read(e.queue, buffer)
		var count [8]byte
		_, awake := unix.Read(e.woken, count[:])
		switch {
		case err == nil:
			return n, true, nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return 0, true, os.NewSyscallError("read", err)
		case limit >= 0 || awake == nil:
			return 0, true, nil
		}
	}
}

// Pause waits for d, or until Stop.
func (e *Events) Pause(d time.Duration) { e.wait(d) }

// wait waits until a descriptor is ready, or limit is over if it is not negative. It reports whether Stop was called.
func (e *Events) wait(limit time.Duration, others ...int) (stopped bool) {
	fds := []unix.PollFd{{Fd: int32(e.stopped), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
	for _, fd := range others {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}) //nolint:gosec // as above
	}
	milliseconds := -1
	if limit >= 0 {
		milliseconds = int((limit + time.Millisecond - 1) / time.Millisecond)
	}
	_, _ = unix.Poll(fds, milliseconds) // after EINTR the caller looks again
	return fds[0].Revents != 0
}

// Parse returns the events that Read has read.
func Parse(data []byte) (all []Event) {
	for len(data) >= unix.SizeofInotifyEvent {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&data[0])) //nolint:gosec // the kernel wrote it
		end := min(unix.SizeofInotifyEvent+int(e.Len), len(data))
		if e.Mask&unix.IN_IGNORED == 0 {
			all = append(all, Event{
				Watch: int(e.Wd), Overflow: e.Mask&unix.IN_Q_OVERFLOW != 0,
				Name: strings.TrimRight(string(data[unix.SizeofInotifyEvent:end]), "\x00"),
			})
		}
		data = data[end:]
	}
	return all
}

// Stop ends every wait, now and later.
func (e *Events) Stop() { signal(e.stopped) }

// Wake ends one Read, now or later.
func (e *Events) Wake() { signal(e.woken) }

func signal(counter int) {
	_, _ = unix.Write(counter, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // it has room for one
}

// Close releases the queue.
func (e *Events) Close() {
	for _, fd := range []int{e.queue, e.stopped, e.woken} {
		if fd > 0 {
			unix.Close(fd) //nolint:errcheck // nothing was written
		}
	}
}

// PreferThread gives the calling thread a real-time priority, or the best nice value if it has no right to that. The
// nice value counts only within its session, because the kernel may divide the CPUs among sessions first (sched(7)).
// Processes that the thread starts have the normal priority.
func PreferThread() {
	attr := unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}
	if unix.SchedSetAttr(0, &attr, 0) != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), first)
	}
}
