package host

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"drover/internal/agent/launch"
	"drover/internal/process"
)

const (
	// patience is how long drover waits for a file system, and patienceStep how much of it one wait takes. An agent
	// without a processor wakes late from each step, so it waits longer, and does not take a busy host for a hang.
	patience     = 5 * time.Second
	patienceStep = 100 * time.Millisecond
	// maxAsked is how many answers may be outstanding at the same time. An answer that never comes costs a goroutine
	// and a thread for as long as the file system hangs. Nothing can take a thread out of the kernel.
	maxAsked = 256
	// maxOfOne is how many of them may be outstanding for one account, because that account may own the file systems
	// that hang.
	maxOfOne = maxAsked / 4
)

// fileProber asks file systems that may hang, for example a network file system whose server is gone. The caller gets
// an answer in time; the goroutine that asks may stay behind. It is safe for concurrent use.
type fileProber struct {
	// patience is the longest wait for an answer.
	patience time.Duration
	slots    chan struct{}

	mu sync.Mutex
	// of has the slots of each account; there are few accounts.
	of map[string]chan struct{}
	// hung counts, by path, the answers that timed out and have not come yet.
	hung map[string]int
}

func newFileProber(patience time.Duration) *fileProber {
	return &fileProber{
		patience: patience, slots: make(chan struct{}, maxAsked), hung: map[string]int{},
		of: map[string]chan struct{}{},
	}
}

// pendingProbe is one question: over says that it is answered, left that its caller gave up.
type pendingProbe struct{ over, left bool }

// within returns the answer of ask, which looks at path or below, as fileProber.look says; a late answer is dropped.
func within[T any](p *fileProber, account, path string, ask func() T) (T, error) {
	answer := new(T)
	if err := p.probe(account, path, func() { *answer = ask() }); err != nil {
		return *new(T), err // a late answer may be under way
	}
	return *answer, nil
}

// probe carries out ask, which looks at path or below. It fails if that takes longer than patience, and at once if an
// earlier look at the same path has not ended yet. Its error texts follow the path. account limits the number of
// outstanding looks; root and the empty account may use all slots. It is not generic, because the agent would then hold
// a copy for each kind of answer.
func (p *fileProber) probe(account, path string, ask func()) error {
	if p.hangs(path) {
		return errors.New("has not answered for a while: its file system hangs")
	}
	limit := startLimit(p.patience)
	defer limit.Stop()
	own := p.places(account)
	if !sends(own, limit) {
		if cap(own) == maxAsked {
			account = "anybody"
		}
		return fmt.Errorf("was not looked at: %d looks at files for %s hang", cap(own), account)
	}
	if !sends(p.slots, limit) {
		<-own
		return fmt.Errorf("was not looked at: %d looks at files for anybody hang", maxAsked)
	}
	answered, a := make(chan struct{}), &pendingProbe{}
	go func() {
		ask()
		close(answered)
		<-p.slots
		<-own
		p.ended(path, a)
	}()
	for {
		select {
		case <-answered:
			return nil
		case <-limit.C:
			if limit.step() {
				continue
			}
			p.leave(path, a)
			return fmt.Errorf("did not answer within %v: its file system hangs", p.patience)
		}
	}
}

// limit is a timer that runs in steps.
type limit struct {
	*time.Timer
	left time.Duration
}

func startLimit(d time.Duration) *limit { return &limit{time.NewTimer(min(d, patienceStep)), d} }

// step begins the next step, after the timer has fired. It returns false at the end of the last one.
func (l *limit) step() bool {
	l.left -= patienceStep
	l.Reset(min(l.left, patienceStep))
	return l.left > 0
}

// sends takes a slot. It returns false if there is none until the limit.
func sends(slots chan<- struct{}, l *limit) bool {
	for {
		select {
		case slots <- struct{}{}:
			return true
		case <-l.C:
			if !l.step() {
				return false
			}
		}
	}
}

// places returns the slots of an account.
func (p *fileProber) places(account string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.of[account]
	if own == nil {
		own = make(chan struct{}, maxOfOne)
		if account == "" || account == "root" {
			own = make(chan struct{}, maxAsked)
		}
		p.of[account] = own
	}
	return own
}

func (p *fileProber) hangs(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hung[path] > 0
}

// leave records that the caller gave up.
func (p *fileProber) leave(path string, a *pendingProbe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.left = !a.over; a.left {
		p.hung[path]++
	}
}

// ended records that the answer has come.
func (p *fileProber) ended(path string, a *pendingProbe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.over = true; !a.left {
		return
	}
	if p.hung[path]--; p.hung[path] == 0 {
		delete(p.hung, path)
	}
}

// reach fails if an account cannot run a command in a directory, or if the file system hangs.
func (h *Host) reach(field, dir string, account launch.Account) error {
	refused, err := within(h.files, account.Name, dir, func() error { return account.MayEnter(field, dir) })
	if err != nil {
		return process.Errorf(process.Failed, "cannot enter %s %s: it %v", field, dir,
			err).Because(process.CauseFileHangs)
	}
	return refused
}
