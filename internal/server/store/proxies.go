package store

import (
	"context"
	"time"
)

// Proxy is a proxy that has joined.
type Proxy struct {
	Key  string // public nkey
	Area int
	// Name is the unique name of the proxy for people.
	Name string
	// Advertise is the address by which the agents of its area reach its fabric, host:port.
	Advertise string
	Build     string
	// Token is the id of the JoinToken that the proxy joined with.
	Token   string
	Created time.Time
}

// Proxies is the register of proxies.
type Proxies interface {
	// UseProxyToken stores a proxy in place of its previous record, counts a use of the token that it names, and
	// readmits the proxy if it was removed, all in one transaction. check works as in UseJoinToken. UseProxyToken
	// returns ErrExists if another proxy has the name, and ErrNotFound for an unknown token. It returns ErrKeyUsed for
	// a key that is or was the key of an agent, or of a proxy of another area.
	UseProxyToken(ctx context.Context, p Proxy, check func(t JoinToken, again bool) error) error
	// ListProxies returns all proxies, ordered by area and name.
	ListProxies(ctx context.Context) ([]Proxy, error)
	// RemoveProxy deletes a proxy and records the removal. It returns ErrNotFound for an unknown proxy.
	RemoveProxy(ctx context.Context, key string, at time.Time) error
}
