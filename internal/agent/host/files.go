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
	// patience is how long a file system is given to answer.
	patience = 5 * time.Second
	// maxAsked is how many answers may be due at a time. One that never comes costs a goroutine and a thread for as
	// long as the file system hangs: nothing can take a thread out of the kernel.
	maxAsked = 256
	// maxOfOne is how many of them may be due to looks for one account: it may own the file systems that do not answer.
	maxOfOne = maxAsked / 4
)

// fileProber asks file systems that are not the agent's own and may hang, as one on the network does when its server is
// gone: who asks is answered in time, and whoever is asking for him is left behind. It is safe for concurrent use.
type fileProber struct {
	// patience is how long an answer is waited for.
	patience time.Duration
	slots    chan struct{}

	mu sync.Mutex
	// of are the places of each account that is looked for; they are few.
	of map[string]chan struct{}
	// hung counts the answers, by path, that are not waited for any longer and have not come.
	hung map[string]int
}

func newFileProber(patience time.Duration) *fileProber {
	return &fileProber{
		patience: patience, slots: make(chan struct{}, maxAsked), hung: map[string]int{},
		of: map[string]chan struct{}{},
	}
}

// pendingProbe is one question: whether it is answered, and whether it was left.
type pendingProbe struct{ over, left bool }

// within returns what ask answers, which looks at path or below. It fails when that takes longer than patience, or at
// once where an earlier answer about the same path has not come yet; in words that follow the path. A late answer
// counts for nothing. It is asked for an account; that of root, or of nobody, has all places.
func within[T any](f *fileProber, account, path string, ask func() T) (answer T, err error) {
	if f.hangs(path) {
		return answer, errors.New("has not answered for a while: its file system hangs")
	}
	limit := time.NewTimer(f.patience)
	defer limit.Stop()
	own := f.places(account)
	select {
	case own <- struct{}{}:
	case <-limit.C:
		if cap(own) == maxAsked {
			account = "anybody"
		}
		return answer, fmt.Errorf("was not looked at: %d looks at files for %s hang", cap(own), account)
	}
	select {
	case f.slots <- struct{}{}:
	case <-limit.C:
		<-own
		return answer, fmt.Errorf("was not looked at: %d looks at files for anybody hang", maxAsked)
	}
	answers, a := make(chan T, 1), &pendingProbe{}
	go func() {
		answers <- ask()
		<-f.slots
		<-own
		f.ended(path, a)
	}()
	select {
	case answer = <-answers:
		return answer, nil
	case <-limit.C:
		f.leave(path, a)
		return answer, fmt.Errorf("did not answer within %v: its file system hangs", f.patience)
	}
}

// places returns those of an account.
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

// leave notes that nobody waits for an answer any longer.
func (p *fileProber) leave(path string, a *pendingProbe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.left = !a.over; a.left {
		p.hung[path]++
	}
}

// ended notes that the answer has come.
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

// reach fails where an account cannot run a command in a directory, be it because nothing answers there.
func (h *Host) reach(dir string, account launch.Account) error {
	refused, err := within(h.files, account.Name, dir, func() error { return account.MayEnter(dir) })
	if err != nil {
		return process.Errorf(process.Failed, "cannot enter setup_path %s: it %v", dir,
			err).Because(process.CauseFileHangs)
	}
	return refused
}
