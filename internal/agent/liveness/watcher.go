// Package liveness notices the end of a process at once, child or not, and finds out how the process ended. It owns
// the one loop over all pidfds, the reaping of orphans, and the sending of signals to processes with a proven
// identity. It does not decide what a death means.
package liveness

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/instance"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/procfs"
)

// ErrGone is returned when the process that an identity names is not alive.
var ErrGone = errors.New("the process has ended")

const (
	// pollEvery is how often the watcher polls a process without a pidfd.
	pollEvery = time.Second
	// settleTime is how long the report of a death may wait for the parent to reap: only then is the exit status
	// readable.
	settleTime = 100 * time.Millisecond
	// reapEvery is the least time between two looks for orphans, if many end at once. reapAfter is how long a look
	// waits after the end of a child: a look reads lists of all children, and a relaunch needs the processors first.
	reapEvery = 20 * time.Millisecond
	reapAfter = 100 * time.Millisecond
)

// wakeToken is the epoll token of the descriptor that wakes the loop; targets count from 1.
const wakeToken = 0

// Watcher watches processes. No timer wakes it at rest, unless it must poll a process.
type Watcher struct {
	fs    procfs.FS
	log   *slog.Logger
	epoll int
	wake  int // an eventfd
	// open is pidfd.Open. tellsExit says that the kernel keeps the exit status of processes that are not children.
	open      func(pid int) (int, error)
	tellsExit bool

	childDied atomic.Bool

	// The watcher also holds mu while it reaps, so that it reads each exit status once, and while it uses a target's
	// fd.
	mu      sync.Mutex
	closed  bool
	next    uint64
	targets map[instance.Identity]*target
	tokens  map[uint64]*target
	timed   map[*target]struct{} // the targets that a timer must check
	recent  *exitCache
}

// target is one process with all its watches.
type target struct {
	id      instance.Identity
	token   uint64
	fd      int // -1 if polled
	watches map[*watch]struct{}
	ended   time.Time // when the watcher noticed the end; zero while the process lives
}

type watch struct {
	mu   sync.Mutex
	done bool
	fn   func(Exit)
}

// New makes a watcher. It does nothing until Run, which also closes its descriptors.
func New(fs procfs.FS, log *slog.Logger) (*Watcher, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot watch processes: %w", os.NewSyscallError("epoll_create1", err))
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, event(unix.EPOLLIN, wakeToken))
	}
	if err != nil {
		unix.Close(epoll) //nolint:errcheck // nothing was written
		return nil, fmt.Errorf("cannot watch processes: %w", err)
	}
	return &Watcher{
		fs:        fs,
		log:       log,
		epoll:     epoll,
		wake:      wake,
		open:      pidfd.Open,
		tellsExit: pidfd.TellsExit(),
		targets:   make(map[instance.Identity]*target),
		tokens:    make(map[uint64]*target),
		timed:     make(map[*target]struct{}),
		recent:    newExitCache(),
	}, nil
}

// Run watches until ctx ends, and then drops all watches without calling them. Call it only once.
//
// It reaps the watched children of this process, and the orphans that it got as the subreaper. Other code in this
// process, such as os/exec, waits for its own children. Run tells orphans from those by the session: every command
// starts in a session of its own (package launch) and cannot enter ours. A process that was started in our own session
// is left to the code that started it.
func (w *Watcher) Run(ctx context.Context) error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	stopWake := context.AfterFunc(ctx, w.interrupt)
	defer w.close()
	defer stopWake()

	pumping, stopPump := context.WithCancel(ctx)
	var pump sync.WaitGroup
	pump.Go(func() {
		pause := time.NewTimer(0)
		defer pause.Stop()
		for {
			select {
			case <-pumping.Done():
				return
			case <-children:
			}
			pause.Reset(reapAfter)
			select {
			case <-pumping.Done():
				return
			case <-pause.C:
			}
			select {
			case <-children: // the same look finds all
			default:
			}
			w.childDied.Store(true)
			w.interrupt()
		}
	})
	defer pump.Wait()
	defer stopPump()

	return w.loop(ctx)
}

func (w *Watcher) loop(ctx context.Context) error {
	events := make([]unix.EpollEvent, 128)
	var lastReap, lastPoll time.Time
	reapDue := true // for orphans from before Run
	// Check right before each sleep: the loop may have drained the wake-up at the end of ctx together with another
	// one.
	for ctx.Err() == nil {
		n, err := unix.EpollWait(w.epoll, events, w.timeout(reapDue, lastReap, lastPoll))
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("cannot watch processes: %w", os.NewSyscallError("epoll_wait", err))
		}
		now := time.Now()
		ends := false
		for _, e := range events[:max(n, 0)] {
			if token := tokenOf(e); token == wakeToken {
				w.drain()
			} else {
				w.ended(token, now)
				ends = true
			}
		}
		if ends {
			runtime.Gosched() // so that what follows the end goes first, on this thread
		}
		poll := now.Sub(lastPoll) >= pollEvery
		if poll {
			lastPoll = now
		}
		w.endTimed(now, poll)
		reapDue = w.childDied.Swap(false) || reapDue
		if reapDue && now.Sub(lastReap) >= reapEvery {
			// Repeat if there was an orphan: a list of children may lack some while others end.
			reapDue = w.reapOrphans()
			lastReap = now
		}
	}
	return nil
}

// Watch calls fn exactly once when the process has ended, from the goroutine of Run; fn must not block and must not
// call stop. After stop has returned, fn is not running and never runs again. Several callers may watch the same
// process. If the process is a child of this one, the watcher reaps it. The error is ErrGone if the process is not
// alive now; Exited may then know more.
func (w *Watcher) Watch(id instance.Identity, fn func(Exit)) (stop func(), err error) {
	if id.PID <= 1 {
		return nil, fmt.Errorf("cannot watch pid %d: %w", id.PID, ErrGone)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, fmt.Errorf("cannot watch pid %d: %w", id.PID, os.ErrClosed)
	}
	t := w.targets[id]
	if t == nil {
		if t, err = w.add(id); err != nil {
			return nil, err
		}
	} else if !t.ended.IsZero() {
		return nil, fmt.Errorf("cannot watch pid %d: %w", id.PID, ErrGone)
	}
	one := &watch{fn: fn}
	t.watches[one] = struct{}{}
	return func() {
		one.mu.Lock()
		one.done = true
		one.mu.Unlock()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(t.watches, one)
		if len(t.watches) == 0 && w.targets[id] == t {
			w.remove(t)
			// If the process has just ended, it is now an orphan like any other.
			w.childDied.Store(true)
			w.interruptLocked()
		}
	}, nil
}

// add opens a pidfd for a process that is not watched yet. The caller holds w.mu.
func (w *Watcher) add(id instance.Identity) (*target, error) {
	fd, err := w.open(id.PID)
	if err != nil {
		fd = -1
	}
	// Verify only now: if the process is alive while the pidfd is open, the pidfd belongs to that process.
	if !w.fs.Same(id) {
		if fd >= 0 {
			unix.Close(fd) //nolint:errcheck // nothing was written
		}
		return nil, fmt.Errorf("cannot watch pid %d: %w", id.PID, ErrGone)
	}
	w.next++
	t := &target{id: id, token: w.next, fd: fd, watches: make(map[*watch]struct{})}
	if fd >= 0 {
		if err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, event(unix.EPOLLIN, t.token)); err != nil {
			unix.Close(fd) //nolint:errcheck // nothing was written
			t.fd = -1
		}
	}
	if t.fd < 0 {
		// pidfds are not available, or no descriptor is left: late news is better than none.
		w.log.Warn("cannot watch pidfd, polling process", "pid", id.PID, "error", err)
		w.timed[t] = struct{}{}
		w.interruptLocked()
	}
	w.targets[id], w.tokens[t.token] = t, t
	return t, nil
}

// remove drops a target. The caller holds w.mu.
func (w *Watcher) remove(t *target) {
	delete(w.targets, t.id)
	delete(w.tokens, t.token)
	delete(w.timed, t)
	if t.fd >= 0 {
		unix.Close(t.fd) //nolint:errcheck // this also removes it from the epoll set
		t.fd = -1
	}
}

// interrupt wakes the loop.
func (w *Watcher) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interruptLocked()
}

func (w *Watcher) interruptLocked() {
	if !w.closed {
		_, _ = unix.Write(w.wake, binary.NativeEndian.AppendUint64(nil, 1)) // fails only if a wake-up is pending
	}
}

func (w *Watcher) drain() {
	var count [8]byte
	_, _ = unix.Read(w.wake, count[:])
}

func (w *Watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tokens {
		w.remove(t)
	}
	w.closed = true
	unix.Close(w.wake)  //nolint:errcheck // nothing was written
	unix.Close(w.epoll) //nolint:errcheck // nothing was written
}

// timeout is the timeout for epoll_wait in milliseconds; -1 is no timeout.
func (w *Watcher) timeout(reapDue bool, lastReap, lastPoll time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var until time.Time
	sooner := func(t time.Time) {
		if until.IsZero() || t.Before(until) {
			until = t
		}
	}
	if reapDue {
		sooner(lastReap.Add(reapEvery))
	}
	for t := range w.timed {
		if t.ended.IsZero() {
			sooner(lastPoll.Add(pollEvery))
		} else {
			sooner(t.ended.Add(settleTime))
		}
	}
	if until.IsZero() {
		return -1
	}
	// Round up, so that the loop does not wake too early again and again.
	return int((max(time.Until(until), 0) + time.Millisecond - 1) / time.Millisecond)
}

// x/sys splits the kernel's 64 bits of user data into two fields of 32.
func event(mask uint32, token uint64) *unix.EpollEvent {
	//nolint:gosec // bit patterns
	return &unix.EpollEvent{Events: mask, Fd: int32(uint32(token)), Pad: int32(uint32(token >> 32))}
}

func tokenOf(e unix.EpollEvent) uint64 {
	return uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32 //nolint:gosec // bit patterns
}
