package supervisor

import (
	"slices"
	"sync"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// task is something that waits for its turn: an operation, or a hold on behalf of another process.
type task struct {
	entry specstore.Entry
	hold  *hold
	// behind says that an earlier agent had accepted it while an older operation on the process was open: that agent never began it.
	behind bool
}

// kind says what a message is about.
type kind int

const (
	exited     kind = iota // the watched instance has ended
	operated               // the operation under way is over
	relaunched             // the relaunch under way is over
	relisted               // it is time to compare /proc with what is believed
	released               // the hold is over
)

// message is something that has happened to a process.
type message struct {
	kind    kind
	who     procfs.Identity
	exit    liveness.Exit
	item    string
	result  operation.Result
	runtime specstore.Runtime
	unhost  bool
	err     error
}

// mailbox is an unbounded queue of messages and tasks. Posting never blocks, so that the loop that watches all processes
// never waits for one of them.
type mailbox struct {
	mu       sync.Mutex
	messages []message
	tasks    []task
	ready    chan struct{}
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

func (b *mailbox) post(m message) {
	b.mu.Lock()
	b.messages = append(b.messages, m)
	b.mu.Unlock()
	b.wake()
}

func (b *mailbox) queue(t task) {
	b.mu.Lock()
	b.tasks = append(b.tasks, t)
	b.mu.Unlock()
	b.wake()
}

func (b *mailbox) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take returns all messages that have come.
func (b *mailbox) take() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.messages
	b.messages = nil
	return taken
}

// next returns the task whose turn it is.
func (b *mailbox) next() (task, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tasks) == 0 {
		return task{}, false
	}
	t := b.tasks[0]
	b.tasks = b.tasks[1:]
	return t, true
}

// operationPending reports whether a task waits that may change something.
func (b *mailbox) operationPending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.tasks, func(t task) bool { return t.entry.Op != process.Query })
}

func (b *mailbox) pending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tasks) > 0 || len(b.messages) > 0
}

// face is what others may see of a runner.
type face struct {
	record  *specstore.Record
	runtime specstore.Runtime
	machine lifecycle.Machine
}

// sharedFace is a face behind a lock.
type sharedFace struct {
	mu sync.Mutex
	f  face
}

func (s *sharedFace) load() face {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f
}

func (s *sharedFace) store(f face) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f = f
}
