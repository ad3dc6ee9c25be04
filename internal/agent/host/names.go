package host

import (
	"sync"
	"time"

	"drover/internal/agent/launch"
)

const (
	// known is how long an account counts as it was looked up: while a process comes up or goes it is looked for many
	// times a second.
	known = 5 * time.Second
	// maxNames is how many accounts are kept.
	maxNames = 1000
)

// accountCache looks up accounts. It is safe for concurrent use; its zero value is ready.
type accountCache struct {
	mu    sync.Mutex
	known map[string]cachedAccount
}

type cachedAccount struct {
	account launch.Account
	at      time.Duration
}

// account returns whom a spec means. One that names nobody, as a question may, means root: everybody.
func (c *accountCache) account(name string) (launch.Account, error) {
	if name == "" {
		return launch.Account{Name: "root"}, nil
	}
	now := SinceBoot()
	c.mu.Lock()
	k, ok := c.known[name]
	c.mu.Unlock()
	if ok && now-k.at < known {
		return k.account, nil
	}
	// Without the lock: a directory server may be slow to answer.
	account, err := launch.LookupAccount("/", name)
	if err != nil {
		return launch.Account{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxNames {
		c.known = map[string]cachedAccount{}
	}
	c.known[name] = cachedAccount{account, now}
	return account, nil
}
