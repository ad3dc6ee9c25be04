package launch

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch/gate"
	"drover/internal/agent/procfs"
)

// queueLength is how many commands may be queued for the forker's thread before Start blocks.
const queueLength = 16

// few is how many descriptors of this process make the thread of a Forker worth its price: two changes of thread.
const few = 256

// Forker starts commands from a thread of its own that has few open descriptors. A child starts with a copy of the
// forking thread's descriptor table and closes nearly all of it. Watching a thousand processes takes so many
// descriptors that this is most of the cost of a start. A Forker is safe for concurrent use.
type Forker struct {
	proc procfs.FS
	log  *slog.Logger
	// open opens the gate.
	open func() (*os.File, error)

	// opening keeps program: the gate that children execute, opened at first use.
	opening sync.Mutex
	program *os.File

	// mu keeps jobs and their descriptors in the same order.
	mu      sync.Mutex
	jobs    chan forkJob // nil while the thread takes no jobs
	socket  int          // where to send the descriptors
	highest int          // the highest descriptor that a command has had
}

// forkJob is a child to fork. Its files arrive through the socket.
type forkJob struct {
	request forkRequest
	done    chan forkResult
}

// NewForker makes a Forker. Until Run, its commands are forked on the threads that call Start. If the kernel executes
// no files in memory, the gate of the commands is made in dir: see gate.Open.
func NewForker(proc procfs.FS, log *slog.Logger, dir string) *Forker {
	return &Forker{proc: proc, log: log, open: func() (*os.File, error) { return gate.Open(dir) }}
}

// Gate returns the program that children execute first; it stays open. A failure may pass, such as that of a host
// without free processes, so the next call tries again.
func (f *Forker) Gate() (*os.File, error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	if f.program != nil {
		return f.program, nil
	}
	program, err := f.open()
	if err == nil {
		f.program = program
	}
	return program, err
}

// Run keeps the thread until ctx ends. A thread may be unable to have descriptors of its own (Linux before 5.9, some
// sandboxes). Run then logs that once, and the threads that call Start fork the commands.
func (f *Forker) Run(ctx context.Context) error {
	stop, err := f.begin()
	if err != nil {
		f.log.Warn("per-thread descriptor table unavailable, forking from the main table", "error", err)
		<-ctx.Done()
		return nil
	}
	<-ctx.Done()
	stop()
	return nil
}

// begin starts the thread and returns once the thread takes jobs. stop lets the thread finish the queued jobs and waits
// for it to end.
func (f *Forker) begin() (stop func(), err error) {
	program, err := f.Gate()
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	jobs, ready := make(chan forkJob, queueLength), make(chan error)
	var thread sync.WaitGroup
	thread.Go(func() { onThread(func() { f.fork(pair[1], int(program.Fd()), jobs, ready) }) })
	stop = func() {
		f.serve(nil, -1)
		close(jobs)
		thread.Wait()
		unix.Close(pair[0]) //nolint:errcheck // all that was sent was received
	}
	err = <-ready
	unix.Close(pair[1]) //nolint:errcheck // the thread has its own
	if err != nil {
		stop()
		return nil, err
	}
	f.serve(jobs, pair[0])
	return stop, nil
}

// serve sets the queue and the socket that Start uses from now on.
func (f *Forker) serve(jobs chan forkJob, socket int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs, f.socket = jobs, socket
}

// Start forks a child in a new session and returns when the child waits at its gate. Start does not reap the child:
// the caller must watch the child or leave it to the reaper of orphans, both in package liveness. Errors are
// *process.Error in a caller's words; then nothing was run.
func (f *Forker) Start(c Command) (*Child, error) {
	return f.start(c, func(b forkRequest) forkResult {
		if b.confinement != nil || !f.many(b.files.gate) {
			return b.forkHere(f.proc) // with a confinement on a thread of its own, which ends
		}
		e := forkJob{request: b, done: make(chan forkResult, 1)}
		if !f.enqueue(e) {
			return b.forkHere(f.proc)
		}
		return <-e.done
	})
}

// many reports whether this process has, or once had, many descriptors; fd is a new one. A new descriptor has the
// lowest free number. So the number is low even among thousands, if some were closed just now.
func (f *Forker) many(fd int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.highest = max(f.highest, fd)
	return f.highest >= few
}

// enqueue hands a job to the thread. It reports whether a thread takes jobs.
func (f *Forker) enqueue(e forkJob) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobs == nil || send(f.socket, e.request.files) != nil {
		return false
	}
	f.jobs <- e
	return true
}

// fork is the body of the thread. It must not log: the thread may lack the descriptor of the log.
func (f *Forker) fork(socket, program int, jobs <-chan forkJob, ready chan<- error) {
	null, err := ownTable(socket, program)
	if err == nil {
		err = unblock(nil)
	}
	ready <- err
	if err != nil {
		return
	}
	for e := range jobs {
		e.done <- f.forkChild(socket, null, e.request)
	}
}

func (f *Forker) forkChild(socket, null int, b forkRequest) forkResult {
	own, err := receive(socket, b.files)
	if err != nil {
		return forkResult{err: err}
	}
	defer own.close()
	return b.fork(f.proc, own, null)
}

// onThread calls fn on a thread that ends when fn returns. It is never the first thread of the process: that thread
// cannot end, and /proc shows its descriptors as those of the process.
func onThread(fn func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		fn()
		return // the goroutine ends locked, so the thread ends
	}
	var other sync.WaitGroup
	other.Go(func() {
		runtime.LockOSThread()
		fn()
	})
	other.Wait()
	runtime.UnlockOSThread()
}
