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

// files asks file systems that are not the agent's own and may hang, as one on the network does when its server is
// gone: who asks is answered in time, and whoever is asking for him is left behind. It is safe for concurrent use.
type files struct {
	// patience is how long an answer is waited for.
	patience time.Duration
	slots    chan struct{}

	mu sync.Mutex
	// of are the places of each account that is looked for; they are few.
	of map[string]chan struct{}
	// hung counts the answers, by path, that are not waited for any longer and have not come.
	hung map[string]int
}

func newFiles(patience time.Duration) *files {
	return &files{
		patience: patience, slots: make(chan struct{}, maxAsked), hung: map[string]int{},
		of: map[string]chan struct{}{},
	}
}

// asking is one question: whether it is answered, and whether it was left.
type asking struct{ over, left bool }

// within returns what ask answers, which looks at path or below. It fails when that takes longer than patience, or at
// once where an earlier answer about the same path has not come yet; in words that follow the path. A late answer
// counts for nothing. It is asked for an account; that of root, or of nobody, has all places.
func within[T any](f *files, account, path string, ask func() T) (answer T, err error) {
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
	answers, a := make(chan T, 1), &asking{}
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
func (f *files) places(account string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := f.of[account]
	if own == nil {
		own = make(chan struct{}, maxOfOne)
		if account == "" || account == "root" {
			own = make(chan struct{}, maxAsked)
		}
		f.of[account] = own
	}
	return own
}

func (f *files) hangs(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hung[path] > 0
}

// leave notes that nobody waits for an answer any longer.
func (f *files) leave(path string, a *asking) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.left = !a.over; a.left {
		f.hung[path]++
	}
}

// ended notes that the answer has come.
func (f *files) ended(path string, a *asking) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.over = true; !a.left {
		return
	}
	if f.hung[path]--; f.hung[path] == 0 {
		delete(f.hung, path)
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
