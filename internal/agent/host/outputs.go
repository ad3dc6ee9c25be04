package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch"
)

const (
	// breath is the pause after a look that found no large output, so that many short lines cost few looks.
	breath = 5 * time.Millisecond
	// lookEvery is the interval between looks if the kernel cannot report which files grow.
	lookEvery = 500 * time.Millisecond
	// first is the nice value of the trimming thread if it cannot have a real-time priority.
	first = -20
)

// TrimOutputs cuts the outputs that daemons wrote while no agent was running. A missing directory counts as empty.
func TrimOutputs(dir string) error {
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		err = errors.Join(err, launch.TrimFile(filepath.Join(dir, f.Name())))
	}
	return err
}

// boundOutputs cuts each output as soon as it is too large, until ctx ends: a writer may be fast, and the disk belongs
// to the agent. It costs nothing while nobody writes.
func (h *Host) boundOutputs(ctx context.Context) error {
	watch, err := watchDirectory(h.outputs)
	if err != nil {
		h.log.Warn("truncating outputs at intervals only", "interval", lookEvery, "error", err)
		return h.trimAtIntervals(ctx)
	}
	defer watch.close()
	stop := context.AfterFunc(ctx, watch.stop)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- h.trimOnChange(watch) }()
	return <-ended
}

// trimOnChange is the body of the trimming thread, until the watch stops. The thread must run before all writers: it
// has a higher priority if that is allowed, and it waits in the kernel and not for a processor of the Go runtime.
func (h *Host) trimOnChange(watch *directoryWatch) error {
	runtime.LockOSThread() // the thread ends with its goroutine, and so does its priority
	preferThread()
	h.trimAll()
	buffer := make([]byte, 64*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := watch.read(buffer)
		if err != nil {
			return fmt.Errorf("cannot watch outputs: %w", err)
		}
		if n == 0 {
			return nil
		}
		if !h.trimChanged(buffer[:n]) {
			watch.pause(breath)
		}
	}
}

// preferThread gives this thread a real-time priority, or the best nice value if it has no right to that. The nice
// value counts only within its session, because the kernel may divide the CPUs among sessions first (sched(7)).
// Processes that the thread starts have the normal priority.
func preferThread() {
	attr := unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}
	if unix.SchedSetAttr(0, &attr, 0) != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), first)
	}
}

func (h *Host) trimAtIntervals(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		h.trimAll()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// directoryWatch reports which files of a directory change.
type directoryWatch struct{ events, stopped int }

func watchDirectory(dir string) (*directoryWatch, error) {
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	if _, err := unix.InotifyAddWatch(events, dir, unix.IN_MODIFY); err != nil {
		unix.Close(events) //nolint:errcheck // nothing was written
		return nil, os.NewSyscallError("inotify_add_watch", err)
	}
	stopped, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(events) //nolint:errcheck // nothing was written
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &directoryWatch{events, stopped}, nil
}

// read waits for events and reads them. It returns 0 bytes after the watch stops.
func (w *directoryWatch) read(buffer []byte) (int, error) {
	for {
		if w.wait(-1, w.events) {
			return 0, nil
		}
		n, err := unix.Read(w.events, buffer)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return n, os.NewSyscallError("read", err)
		}
	}
}

// pause waits for d, or until the watch stops.
func (w *directoryWatch) pause(d time.Duration) { w.wait(int(d.Milliseconds())) }

// wait waits until a descriptor is ready, and reports whether the watch has stopped.
func (w *directoryWatch) wait(milliseconds int, others ...int) (stopped bool) {
	fds := []unix.PollFd{{Fd: int32(w.stopped), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
	for _, fd := range others {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}) //nolint:gosec // as above
	}
	_, _ = unix.Poll(fds, milliseconds) // after EINTR the caller looks again
	return fds[0].Revents != 0
}

func (w *directoryWatch) stop() {
	_, _ = unix.Write(w.stopped, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // the counter has room for one
}

func (w *directoryWatch) close() {
	unix.Close(w.events)  //nolint:errcheck // nothing was written
	unix.Close(w.stopped) //nolint:errcheck // as above
}

// trimChanged cuts the outputs that the events name, and reports whether one of them was too large.
func (h *Host) trimChanged(events []byte) (cut bool) {
	seen := map[string]bool{}
	for len(events) >= unix.SizeofInotifyEvent {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&events[0])) //nolint:gosec // the kernel wrote it
		end := min(unix.SizeofInotifyEvent+int(e.Len), len(events))
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
		if e.Mask&unix.IN_Q_OVERFLOW != 0 {
			h.trimAll()
			return true
		}
		if name != "" && !seen[name] {
			seen[name] = true
			cut = h.trimOutput(name) || cut
		}
		events = events[end:]
	}
	return cut
}

func (h *Host) trimAll() {
	files, err := os.ReadDir(h.outputs)
	if err != nil {
		h.log.Warn("cannot list outputs", "error", err)
	}
	for _, f := range files {
		h.trimOutput(f.Name())
	}
}

// trimOutput cuts the output of a run if it is too large, and reports whether it was.
func (h *Host) trimOutput(id string) (was bool) {
	h.mu.Lock()
	r := h.runs[id]
	h.mu.Unlock()
	path := filepath.Join(h.outputs, id)
	info, err := os.Lstat(path)
	if err != nil || launch.Held(info) <= launch.MaxOutput {
		return false
	}
	if r != nil && r.output != nil {
		err = r.output.Trim()
	} else {
		err = launch.TrimFile(path)
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		h.log.Warn("cannot truncate output", "run", id, "error", err)
		return false
	}
	return true
}
