package supervisor

import (
	"context"
	"slices"
	"sync"
	"time"

	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// task is queued work: an operation, or a hold on behalf of another process.
type task struct {
	entry record.Entry
	hold  *hold
	// behind says that an earlier agent accepted the operation while an older operation on the process was open. That
	// agent never began it.
	behind bool
	// adopted says that an earlier agent accepted the operation. overtaken says that the server knows a newer record
	// of the process.
	adopted   bool
	overtaken bool
	// begun says that an earlier agent began the operation: no other task goes first.
	begun bool
	// queued is the time of arrival. timed says that a timer will wake the runner after queryPatience.
	queued time.Time
	timed  bool
	// overtook says that this kill or stop has ended an operation under way.
	overtook bool
	// passes says that this signal is sent beside other work.
	passes bool
}

// message is an event of a process, as a function that its runner calls.
type message func(ctx context.Context, r *runner)

// mailbox is an unbounded queue of messages and tasks. Posting never blocks, so that the loop that watches all
// processes never waits for one of them.
type mailbox struct {
	mu       sync.Mutex
	messages []message
	tasks    []task
	// nextOp is the operation that has left the queue and whose begin is not published yet.
	nextOp process.Op
	// fresh says that there is a task that eachWaiting has not seen.
	fresh bool
	// newer is the server's record of the process, until the runner takes it.
	newer *specstore.Desired
	// schedule starts a turn of the runner; nil before attach. awake says that a turn is under way.
	schedule func()
	awake    bool
}

// attach sets the function that starts a turn, and wakes the mailbox.
func (b *mailbox) attach(turn func()) {
	b.mu.Lock()
	b.schedule = turn
	b.mu.Unlock()
	b.wake()
}

func (b *mailbox) post(m message) {
	b.mu.Lock()
	b.messages = append(b.messages, m)
	b.mu.Unlock()
	b.wake()
}

// queue adds a task. A kill goes before all other tasks that have not begun; any other task goes to the end.
func (b *mailbox) queue(t task) {
	t.queued = time.Now()
	b.mu.Lock()
	at := slices.IndexFunc(b.tasks, func(w task) bool { return !w.begun && w.entry.Op != process.Kill })
	if at < 0 || t.entry.Op != process.Kill {
		at = len(b.tasks)
	}
	later := slices.Clone(b.tasks[at:])
	b.tasks, b.fresh = append(append(b.tasks[:at], t), later...), true
	b.mu.Unlock()
	b.wake()
}

func (b *mailbox) wake() {
	b.mu.Lock()
	turn := b.schedule
	asleep := !b.awake && turn != nil
	b.awake = b.awake || asleep
	b.mu.Unlock()
	if asleep {
		turn()
	}
}

// drain returns all messages. It reports false if there is nothing to do: no message, no fresh task, no task that may
// begin, and no newer record for an idle runner. The caller's turn is then over, and the next arrival starts another
// turn.
func (b *mailbox) drain(idle bool, begins beginRule) ([]message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.messages
	b.messages = nil
	b.awake = len(taken) > 0 || b.fresh || idle && b.newer != nil || b.ready(begins) >= 0
	return taken, b.awake
}

// desire sets the server's newer record of the process.
func (b *mailbox) desire(d *specstore.Desired) {
	b.mu.Lock()
	b.newer = d
	b.mu.Unlock()
	b.wake()
}

// desired takes that record out of the mailbox.
func (b *mailbox) desired() *specstore.Desired {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.newer
	b.newer = nil
	return d
}

// overtake marks the operations of an earlier agent as overtaken, except queries.
func (b *mailbox) overtake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.tasks {
		b.tasks[i].overtaken = b.tasks[i].adopted && b.tasks[i].entry.Op != process.Query
	}
}

// beginRule reports whether a task may begin; first says that no operation is queued before it.
type beginRule func(t *task, first bool) bool

// ready returns the index of the first task that may begin, or -1. An operation waits for the operations before it.
// The caller holds the lock.
func (b *mailbox) ready(begins beginRule) int {
	first := true
	for i := range b.tasks {
		query := b.tasks[i].entry.Op == process.Query && b.tasks[i].hold == nil
		if (first || query) && begins(&b.tasks[i], first) {
			return i
		}
		first = first && query
	}
	return -1
}

// next removes and returns the first task that may begin.
func (b *mailbox) next(begins beginRule) (task, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.ready(begins)
	if i < 0 {
		return task{}, false
	}
	t := b.tasks[i]
	b.tasks = slices.Delete(b.tasks, i, i+1)
	if t.hold == nil && t.entry.Op != process.Query {
		b.nextOp = t.entry.Op
	}
	return t, true
}

// published tells that the state of the process shows the operation that was taken last.
func (b *mailbox) published() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nextOp = ""
}

// stopped tells the first stop in the queue that it has ended an operation.
func (b *mailbox) stopped() {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.tasks, func(t task) bool { return t.hold == nil && t.entry.Op == process.Stop })
	if i >= 0 {
		b.tasks[i].overtook = b.tasks[i].entry.Ordered
	}
}

// eachWaiting calls fn with every queued task, while it holds the lock.
func (b *mailbox) eachWaiting(fn func(*task)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fresh = false
	for i := range b.tasks {
		fn(&b.tasks[i])
	}
}

// operationPending reports whether a task that is queued or about to begin may change something.
func (b *mailbox) operationPending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nextOp != "" || slices.ContainsFunc(b.tasks, func(t task) bool { return t.entry.Op != process.Query })
}

// queues reports whether such an operation is queued or about to begin.
func (b *mailbox) queues(op process.Op) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nextOp == op ||
		slices.ContainsFunc(b.tasks, func(t task) bool { return t.hold == nil && t.entry.Op == op })
}

func (b *mailbox) pending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tasks) > 0 || len(b.messages) > 0 || b.newer != nil
}

// countQueued counts the queued operations.
func (b *mailbox) countQueued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for i := range b.tasks {
		if b.tasks[i].hold == nil {
			n++
		}
	}
	return n
}

// sharedSnapshot is the state of a runner that other goroutines may read.
type sharedSnapshot struct {
	mu sync.Mutex
	s  story.Process
}

func (s *sharedSnapshot) load() story.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s
}

func (s *sharedSnapshot) store(p story.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.s = p
}
