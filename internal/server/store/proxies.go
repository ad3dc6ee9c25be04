package store

import (
	"context"
	"time"
)

// Proxy is a proxy that has joined.
type Proxy struct {
	Key  string // public nkey
	Area int
	// Name is what people call it; each has another.
	Name string
	// Advertise is where the agents of its area reach its fabric, host:port.
	Advertise string
	Build     string
	// Token is the id of the JoinToken that it has joined with.
	Token   string
	Created time.Time
}

// Proxies is the register of proxies.
type Proxies interface {
	// UseProxyToken stores a proxy, in place of what was known of it, counts a use of the token that it names, and lets
	// it be there again if it was removed, all in one transaction. Check is as that of UseJoinToken. ErrExists when
	// another proxy has the name, ErrNotFound for an unknown token, ErrKeyUsed for a key that is or was an agent's, or
	// that of a proxy of another area.
	UseProxyToken(ctx context.Context, p Proxy, check func(t JoinToken, again bool) error) error
	// ListProxies returns all proxies, ordered by area and name.
	ListProxies(ctx context.Context) ([]Proxy, error)
	// RemoveProxy forgets a proxy, and remembers that it was removed; ErrNotFound for an unknown one.
	RemoveProxy(ctx context.Context, key string, at time.Time) error
}
