package supervisor

import (
	"context"
	"slices"
	"sync"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// task is something that waits for its turn: an operation, or a hold on behalf of another process.
type task struct {
	entry specstore.Entry
	hold  *hold
	// behind says that an earlier agent had accepted it while an older operation on the process was open: that agent never began it.
	behind bool
	// adopted says that an earlier agent had accepted it, and overtaken that the server knows what has come after it.
	adopted   bool
	overtaken bool
}

// message is something that has happened to a process: what its runner is to do about it.
type message func(ctx context.Context, r *runner)

// mailbox is an unbounded queue of messages and tasks. Posting never blocks, so that the loop that watches all processes
// never waits for one of them.
type mailbox struct {
	mu       sync.Mutex
	messages []message
	tasks    []task
	// newer is what the server knows of the process, until it is taken over.
	newer *specstore.Desired
	// turn has somebody see to what is here; nil before that can be. awake says that somebody does.
	turn  func()
	awake bool
}

// attend gives the mailbox somebody who sees to it, for the first time at once.
func (b *mailbox) attend(turn func()) {
	b.mu.Lock()
	b.turn = turn
	b.mu.Unlock()
	b.wake()
}

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
	b.mu.Lock()
	turn := b.turn
	asleep := !b.awake && turn != nil
	b.awake = b.awake || asleep
	b.mu.Unlock()
	if asleep {
		turn()
	}
}

// take returns all messages that have come. If there is nothing to see to, neither these nor, for one who is idle, a newer record or a
// first task that may begin, it reports false: the caller's turn is over, and whatever comes next begins another one.
func (b *mailbox) take(idle bool, begins func(*task) bool) ([]message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.messages
	b.messages = nil
	b.awake = len(taken) > 0 || idle && b.newer != nil || len(b.tasks) > 0 && begins(&b.tasks[0])
	return taken, b.awake
}

// desire leaves what the server knows of the process.
func (b *mailbox) desire(d *specstore.Desired) {
	b.mu.Lock()
	b.newer = d
	b.mu.Unlock()
	b.wake()
}

// desired returns what was left, once.
func (b *mailbox) desired() *specstore.Desired {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.newer
	b.newer = nil
	return d
}

// overtake marks the operations that an earlier agent has left, unless they change nothing.
func (b *mailbox) overtake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.tasks {
		b.tasks[i].overtaken = b.tasks[i].adopted && b.tasks[i].entry.Op != process.Query
	}
}

// next returns the task whose turn it is, if it may begin.
func (b *mailbox) next(begins func(*task) bool) (task, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tasks) == 0 || !begins(&b.tasks[0]) {
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
	return len(b.tasks) > 0 || len(b.messages) > 0 || b.newer != nil
}

// face is what others may see of a runner.
type face struct {
	record  *specstore.Record
	runtime specstore.Runtime
	machine lifecycle.Machine
	runs    []process.Run
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
