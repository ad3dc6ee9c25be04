package host

import (
	"cmp"
	"os"
	"sync"
	"time"

	"drover/internal/agent/launch"
)

const (
	// known is how long a cached account counts: drover looks for a process many times a second while the process
	// starts or ends.
	known = 5 * time.Second
	// maxNames is the capacity of the cache.
	maxNames = 1000
)

// accountCache looks up accounts. It is safe for concurrent use; its zero value is ready to use.
type accountCache struct {
	mu      sync.Mutex
	entries map[string]cachedAccount
}

type cachedAccount struct {
	account launch.Account
	at      time.Duration
}

// account returns the account of a spec. An empty name means the account of the agent; root may look at everything.
func (c *accountCache) account(name string) (launch.Account, error) {
	if name == "" && os.Geteuid() == 0 {
		return launch.Account{Name: "root"}, nil
	}
	name = cmp.Or(name, launch.OwnName())
	now := SinceBoot()
	c.mu.Lock()
	k, ok := c.entries[name]
	c.mu.Unlock()
	if ok && now-k.at < known {
		return k.account, nil
	}
	// Release the lock: a directory server may answer slowly.
	account, err := launch.LookupAccount("/", name)
	if err != nil {
		return launch.Account{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= maxNames {
		c.entries = map[string]cachedAccount{}
	}
	c.entries[name] = cachedAccount{account, now}
	return account, nil
}
