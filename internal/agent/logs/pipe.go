package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/idle"
)

const (
	// pipePrefix begins the name of a pipe. The names of its stream and of its run follow.
	pipePrefix = "pipe."
	// pipeSize is how many bytes a pipe holds, if the kernel allows that. It is the default of the largest size.
	pipeSize = 1 << 20
	// pipePatience bounds a wait for the kernel. A writer whose text the kernel cannot read yet has the lock of the
	// pipe.
	pipePatience = time.Second
	// pipeRate is how many bytes of a flood the agent takes from a pipe in a second: the writer waits.
	pipeRate = 50 << 20
)

// pipe is a FIFO that a run writes to in place of the file of a stream. The agent moves its text to the file. The run
// has it open for reading, too: a write while no agent runs neither fails nor ends the writer.
type pipe struct {
	stream *stream
	path   string
	// file and raw are the end of the agent, which never blocks.
	file *os.File
	raw  syscall.RawConn
	// pumped says that a goroutine moves the text; the lock of the Store protects it.
	pumped bool
	// draining says that a drain is under way, or hangs.
	draining, warned atomic.Bool
}

// bounded does something that may hang, and reports whether it has ended in time.
func bounded(do func()) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
	}()
	over := time.NewTimer(pipePatience)
	defer over.Stop()
	select {
	case <-ended:
		return true
	case <-over.C:
		return false
	}
}

// pipeTo makes a pipe to a stream, and returns the end for the run.
func (store *Store) pipeTo(s *stream, run string) (end *os.File, err error) {
	file, err := store.open(s)
	if err != nil {
		return nil, err
	}
	_ = file.Close() // nothing was written
	path := filepath.Join(s.log.dir, pipePrefix+s.name+"."+run)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, &os.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	p, err := s.openPipe(path)
	if err == nil {
		end, err = blocking(path)
	}
	if err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	//nolint:errcheck,gosec // a smaller pipe works, too; descriptors are small
	unix.FcntlInt(end.Fd(), unix.F_SETPIPE_SZ, pipeSize)
	s.log.addPipe(p)
	store.startPump(p)
	return end, nil
}

// blocking opens a pipe for reading and writing. os.OpenFile would make it non-blocking.
func blocking(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil //nolint:gosec // descriptors are small
}

// openPipe opens the agent's end of a pipe.
func (s *stream) openPipe(path string) (*pipe, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	p := &pipe{stream: s, path: path, file: os.NewFile(uintptr(fd), path)} //nolint:gosec // descriptors are small
	if p.raw, err = p.file.SyscallConn(); err != nil {
		_ = p.file.Close() // nothing was written
		return nil, err
	}
	return p, nil
}

// resumePipes opens the pipes again to which an earlier agent has listened. It leaves out those that fail.
func (l *processLog) resumePipes() (failed error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		of, found := strings.CutPrefix(e.Name(), pipePrefix)
		if !found || e.Type() != os.ModeNamedPipe {
			continue
		}
		for _, s := range l.streams {
			if !strings.HasPrefix(of, s.name+".") {
				continue
			}
			var p *pipe
			var err error
			if !bounded(func() { p, err = s.openPipe(filepath.Join(l.dir, e.Name())) }) {
				failed = errors.Join(failed, fmt.Errorf("cannot open pipe %s: its process holds it up", e.Name()))
				continue
			}
			if failed = errors.Join(failed, err); err == nil {
				l.addPipe(p)
			}
		}
	}
	return failed
}

func (l *processLog) addPipe(p *pipe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pipes = append(l.pipes, p)
}

// openPipes returns the pipes that somebody may still write to.
func (l *processLog) openPipes() []*pipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pipes)
}

// startPump moves the text of a pipe from now on. Before Run it does nothing: Run begins with all pipes.
func (store *Store) startPump(p *pipe) {
	store.mu.Lock()
	defer store.mu.Unlock()
	if store.running && !p.pumped {
		p.pumped = true
		ctx := store.during
		store.pumping.Go(func() { store.pump(ctx, p) })
	}
}

// everyPipe does something with the pipes of all logs.
func (store *Store) everyPipe(do func(*pipe)) {
	store.mu.Lock()
	var all []*processLog
	for _, l := range store.logs {
		all = append(all, l)
	}
	store.mu.Unlock()
	for _, l := range all {
		for _, p := range l.openPipes() {
			do(p)
		}
	}
}

// haltPumps ends the goroutines that move text. What is in the pipes waits for the next agent.
func (store *Store) haltPumps() {
	store.everyPipe(func(p *pipe) { _ = p.file.SetReadDeadline(time.Unix(1, 0)) }) // a closed one has ended
	if !bounded(store.pumping.Wait) {
		store.log.Warn("a process holds up the pipe of its log")
	}
}

// pump moves the text of a pipe until nobody can write to it any more, and then removes it.
func (store *Store) pump(ctx context.Context, p *pipe) {
	for {
		var n int
		var err error
		halted := p.raw.Read(func(fd uintptr) bool {
			n, err = store.move(p, int(fd)) //nolint:gosec // descriptors are small
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case halted != nil:
			return
		case err != nil || n == 0:
			store.endPipe(p)
			return
		}
		idle.Sleep(ctx, max(soonest, time.Duration(n)*time.Second/pipeRate))
	}
}

// endPipe removes a pipe without writers.
func (store *Store) endPipe(p *pipe) {
	l := p.stream.log
	l.mu.Lock()
	l.pipes = slices.DeleteFunc(l.pipes, func(other *pipe) bool { return other == p })
	l.mu.Unlock()
	if err := os.Remove(p.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		store.log.Warn("cannot remove the pipe of a log", "pipe", p.path, "error", err)
	}
	_ = p.file.Close() // nothing was written
}

// drain moves what is in the pipes of a log at this moment. A writer that goes on cannot hold it up.
func (store *Store) drain(l *processLog) {
	for _, p := range l.openPipes() {
		if !p.draining.CompareAndSwap(false, true) {
			continue // it hangs
		}
		_ = bounded(func() {
			_ = p.raw.Control(func(fd uintptr) { store.empty(p, int(fd)) }) //nolint:gosec // descriptors are small
			p.draining.Store(false)
		})
	}
}

// empty moves at most as much as a pipe holds.
func (store *Store) empty(p *pipe, fd int) {
	for left := pipeSize; left > 0; {
		n, err := store.move(p, fd)
		if err != nil || n == 0 {
			return
		}
		left -= n
	}
}

// move moves text from a pipe to the file of its stream. It returns EAGAIN if the pipe is empty, and 0 if nobody can
// write to it any more. The kernel moves the text in one step: if the agent dies, each byte is in one of the two. What
// the file does not take is lost, as if the run wrote to the file.
func (store *Store) move(p *pipe, from int) (n int, err error) {
	s := p.stream
	s.writing.Lock()
	defer s.writing.Unlock()
	to, end := store.end(s)
	defer unix.Close(to) //nolint:errcheck // the writes were checked
	if n, err = store.splice(from, to, end); err == nil || errors.Is(err, unix.EAGAIN) {
		return n, err
	}
	failed := err // the file system has no splice(2), or takes no text
	text := make([]byte, maxLine)
	if n, err = unix.Read(from, text); err != nil || n == 0 {
		return 0, err
	}
	if errors.Is(failed, unix.EINVAL) {
		_, failed = unix.Pwrite(to, text[:n], end)
	}
	if failed != nil && !errors.Is(failed, unix.ENOSPC) && !p.warned.Swap(true) {
		store.log.Warn("cannot write to a log: the output of its process is lost", "log", s.path, "error", failed)
	}
	return n, nil
}

// splice moves text from a pipe to a place of a file, without a wait.
func splice(from, to int, at int64) (int, error) {
	for {
		n, err := unix.Splice(from, nil, to, &at, pipeSize, unix.SPLICE_F_NONBLOCK)
		if !errors.Is(err, unix.EINTR) {
			return int(n), err
		}
	}
}

// end opens the file of a stream at its end; it returns -1 if there is none.
func (store *Store) end(s *stream) (file int, at int64) {
	const flags = unix.O_WRONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	file, err := unix.Open(s.path, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		if made, err := store.open(s); err == nil {
			_ = made.Close() // nothing was written
		}
		file, err = unix.Open(s.path, flags, 0)
	}
	if err != nil {
		return -1, 0
	}
	if at, err = unix.Seek(file, 0, unix.SEEK_END); err != nil {
		unix.Close(file) //nolint:errcheck // nothing was written
		return -1, 0
	}
	return file, at
}

// emptied notes that somebody has truncated the file of a stream, and makes the log say so.
func (store *Store) emptied(s *stream) {
	from, end := s.freed.Load(), s.size.Load()
	store.markLoss(s, from, end)
	store.rebase(s, end)
	if len(s.log.openPipes()) > 0 {
		return
	}
	store.log.Warn("a log was emptied: if its program opens /dev/stdout or /dev/stderr by name, set log: {pipe: true}",
		"log", s.path, "bytes", end-from)
	file, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer file.Close() //nolint:errcheck // a full disk takes no line
	_, _ = file.WriteString(emptiedLine)
}

// emptiedLine is what a log says after somebody has emptied it.
const emptiedLine = "drover: this log was emptied. A program of root that opens /dev/stdout or /dev/stderr by name " +
	"does that: set log: {pipe: true} in its process file.\n"
