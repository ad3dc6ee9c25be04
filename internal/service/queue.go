package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/idle"
)

// maxQueued bounds what waits for a slow reader, in bytes.
const maxQueued = 1 << 20

// lostLine tells the reader of a log what it did not get.
const lostLine = "drover: %d lines are lost here: the reader of this log was away, or too slow\n"

// pollMilliseconds bounds a wait for room in a pipe: a pipe does not say when a whole line fits.
const pollMilliseconds = 100

// Queue is a writer that never blocks. What a slow reader has not taken waits in memory; beyond a bound it is lost, and
// the reader is told how much.
type Queue struct {
	to io.Writer
	// woken has room for one word; ended is closed when the last bytes are written.
	woken, ended chan struct{}

	mu     sync.Mutex
	queued [][]byte
	bytes  int
	// lost counts all writes that nobody has received, untold those that the reader does not know of.
	lost, untold uint64
	// since is when the first was lost, in Unix milliseconds.
	since  int64
	closed bool
}

// NewQueue returns a queue before a writer, and starts the goroutine that writes to it, which ends with the program. If
// the writer is a pipe, or anything else that can be full, the runtime's own words of a crash do not block either.
func NewQueue(to io.Writer) *Queue {
	if f, ok := to.(*os.File); ok {
		unblock(int(f.Fd()))
	}
	q := &Queue{to: to, woken: make(chan struct{}, 1), ended: make(chan struct{})}
	go q.run()
	return q
}

// unblock replaces a standard stream by one of its own that does not block, where the kernel can open it again. The
// stream that was inherited is shared with whoever has started the program, and stays as it is. A socket cannot be
// opened again, but it is shared with nobody who would mind: systemd gives each unit its own.
func unblock(fd int) {
	var stat unix.Stat_t
	if fd > 2 || unix.Fstat(fd, &stat) != nil {
		return
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFCHR:
		own, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd),
			unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		_ = unix.Dup3(own, fd, 0) // the old one blocks, which is how it was
		_ = unix.Close(own)
	case unix.S_IFSOCK:
		_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 1})
	}
}

// Fd is the descriptor of the writer; an invalid one if it is no file.
func (q *Queue) Fd() uintptr {
	if f, ok := q.to.(*os.File); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// Lost is how many writes nobody has received.
func (q *Queue) Lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// Write implements io.Writer. It takes all of p or nothing, and returns no error.
func (q *Queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	if q.closed || q.bytes+len(p) > maxQueued {
		q.lose()
	} else {
		q.queued = append(q.queued, slices.Clone(p))
		q.bytes += len(p)
	}
	q.mu.Unlock()
	idle.Wake(q.woken)
	return len(p), nil
}

// lose counts a write that nobody has received; the caller holds the lock.
func (q *Queue) lose() {
	if q.lost == 0 {
		q.since = time.Now().UnixMilli()
	}
	q.lost++
	q.untold++
}

func (q *Queue) lostSince() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.since
}

// run writes until the queue is closed and empty. A part stays queued while it is written, so that the bound holds.
func (q *Queue) run() {
	defer close(q.ended)
	for {
		q.mu.Lock()
		var next []byte
		if len(q.queued) > 0 {
			next = q.queued[0]
		}
		closed := q.closed
		q.mu.Unlock()
		if next == nil {
			if closed {
				return
			}
			<-q.woken
			continue
		}
		err := q.writeAll(next)
		q.mu.Lock()
		q.queued, q.bytes = q.queued[1:], q.bytes-len(next)
		if err != nil {
			q.lose()
		}
		untold := q.untold
		q.mu.Unlock()
		if err == nil && untold > 0 && q.writeAll(fmt.Appendf(nil, lostLine, untold)) == nil {
			q.mu.Lock()
			q.untold -= untold
			q.mu.Unlock()
		}
	}
}

// writeAll waits for a reader as long as it takes: only the goroutine of the queue does.
func (q *Queue) writeAll(p []byte) error {
	for {
		n, err := q.to.Write(p)
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
		p = p[n:]
		// An error here is one of the next write, too.
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(q.Fd()), Events: unix.POLLOUT}}, pollMilliseconds)
	}
}

// flush waits until all is written or ctx ends.
func (q *Queue) flush(ctx context.Context) {
	const pause = 5 * time.Millisecond
	for {
		q.mu.Lock()
		empty := len(q.queued) == 0
		q.mu.Unlock()
		if empty || !idle.Sleep(ctx, pause) {
			return
		}
	}
}

// Close takes no more, and waits until all is written or ctx ends.
func (q *Queue) Close(ctx context.Context) {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	idle.Wake(q.woken)
	select {
	case <-q.ended:
	case <-ctx.Done():
	}
}
