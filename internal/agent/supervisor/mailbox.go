package supervisor

import (
	"context"
	"slices"
	"sync"
	"time"

	"drover/internal/agent/specstore"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// task is something that waits for its turn: an operation, or a hold on behalf of another process.
type task struct {
	entry specstore.Entry
	hold  *hold
	// behind says that an earlier agent had accepted it while an older operation on the process was open: that agent
	// never began it.
	behind bool
	// adopted says that an earlier agent had accepted it, and overtaken that the server knows what has come after it.
	adopted   bool
	overtaken bool
	// begun says that an earlier agent had begun it: nothing goes before it.
	begun bool
	// queued is when it came; timed says that the runner is woken when a query has waited long enough.
	queued time.Time
	timed  bool
	// overtook says that it has ended an operation under way.
	overtook bool
}

// message is something that has happened to a process: what its runner is to do about it.
type message func(ctx context.Context, r *runner)

// mailbox is an unbounded queue of messages and tasks. Posting never blocks, so that the loop that watches all
// processes never waits for one of them.
type mailbox struct {
	mu       sync.Mutex
	messages []message
	tasks    []task
	// fresh says that a task has come that nobody has looked at.
	fresh bool
	// newer is what the server knows of the process, until it is taken over.
	newer *specstore.Desired
	// schedule has somebody see to what is here; nil before that can be. awake says that somebody does.
	schedule func()
	awake    bool
}

// attach gives the mailbox somebody who sees to it, for the first time at once.
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

// queue adds a task: a kill before all that has not begun, any other behind what is there.
func (b *mailbox) queue(t task) {
	t.queued = time.Now()
	b.mu.Lock()
	at := slices.IndexFunc(b.tasks, func(w task) bool { return !w.begun && w.entry.Op != process.Kill })
	if at < 0 || t.entry.Op != process.Kill {
		at = len(b.tasks)
	}
	b.tasks, b.fresh = slices.Insert(b.tasks, at, t), true
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

// drain returns all messages that have come. If there is nothing to see to, neither these nor, for one who is idle, a
// newer record or a task that may begin, it reports false: the caller's turn is over, and whatever comes next begins
// another one.
func (b *mailbox) drain(idle bool, begins beginRule) ([]message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.messages
	b.messages = nil
	b.awake = len(taken) > 0 || b.fresh || idle && b.newer != nil || b.ready(begins) >= 0
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

// beginRule reports whether a task may begin; first says that no operation waits before it.
type beginRule func(t *task, first bool) bool

// ready returns the place of the first task that may begin, -1 where none may; the caller holds the lock. An operation
// waits for those before it.
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

// next returns the task whose turn it is, if one may begin.
func (b *mailbox) next(begins beginRule) (task, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.ready(begins)
	if i < 0 {
		return task{}, false
	}
	t := b.tasks[i]
	b.tasks = slices.Delete(b.tasks, i, i+1)
	return t, true
}

// eachWaiting calls fn with every task that waits.
func (b *mailbox) eachWaiting(fn func(*task)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fresh = false
	for i := range b.tasks {
		fn(&b.tasks[i])
	}
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

// waiting counts the operations that have not begun.
func (b *mailbox) waiting() int {
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

// sharedSnapshot is what others may see of a runner.
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
