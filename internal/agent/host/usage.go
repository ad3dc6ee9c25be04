package host

import (
	"sync"
	"syscall"
	"time"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/procfs"
)

// Measure measures processes with their whole trees; each look is at least a second after the last. It reads all of
// /proc only if this agent did not start a process, or if no control group holds the process.
func (h *Host) Measure(roots []procfs.Root) ([]procfs.TreeUse, error) { return h.trees.Measure(roots) }

const (
	// accountsPart is the divisor of RLIMIT_NOFILE for descriptors that hold accounts open. Accounts beyond that are
	// opened for each look.
	accountsPart = 4
	// unaskedAccount is how long an unused account stays open.
	unaskedAccount = 2 * time.Minute
)

// accounts keeps the cgroup accounts of runs open between looks.
type accounts struct {
	tree *cgroup.Tree
	most int

	mu   sync.Mutex
	open map[string]*openAccount
}

type openAccount struct {
	*cgroup.Account
	lastUse time.Time
}

func newAccounts(tree *cgroup.Tree) *accounts {
	a := &accounts{tree: tree, open: map[string]*openAccount{}}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		a.most = int(min(limit.Cur, 1<<20) / accountsPart / cgroup.AccountFiles) //nolint:gosec // small
	}
	return a
}

// Account implements procfs.Runs.
func (a *accounts) Account(run string) (procfs.Account, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	held, ok := a.open[run]
	if !ok {
		group, exists := a.tree.Group(run)
		if !exists {
			return procfs.Account{}, false
		}
		account, err := group.Account()
		if err != nil {
			return procfs.Account{}, false
		}
		held = &openAccount{Account: account}
		if len(a.open) < a.most {
			a.open[run] = held
		} else {
			defer account.Close()
		}
	}
	held.lastUse = time.Now()
	r, err := held.Look()
	if err != nil {
		a.drop(run)
		return procfs.Account{}, false
	}
	return procfs.Account{PIDs: r.PIDs, CPU: r.CPU, Accounted: r.Accounted}, true
}

// drop closes the account of a run; the caller holds the lock.
func (a *accounts) drop(run string) {
	if held, ok := a.open[run]; ok {
		held.Close()
		delete(a.open, run)
	}
}

// tidy closes the accounts that nobody used lately.
func (a *accounts) tidy() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for run, held := range a.open {
		if time.Since(held.lastUse) > unaskedAccount {
			a.drop(run)
		}
	}
}

// close closes all accounts.
func (a *accounts) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for run := range a.open {
		a.drop(run)
	}
}
