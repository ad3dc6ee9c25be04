package store

import (
	"context"
	"errors"
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
	// Sealing has the proxy's public keys of X25519, as nkeys; package pairs defines its form.
	Sealing string
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
	// ResealProxy stores the sealing keys of a proxy that has the given ones. It returns ErrNotFound if there is no
	// such proxy.
	ResealProxy(ctx context.Context, key, before, after string) error
	// RemoveProxy deletes a proxy and records the removal. It returns ErrNotFound for an unknown proxy.
	RemoveProxy(ctx context.Context, key string, at time.Time) error
}

// The largest number of packages, and of the bytes of all of them.
const (
	MostPackages     = 50
	MostPackageBytes = 1 << 30
)

// ErrPackagesFull rejects a package beyond MostPackages or MostPackageBytes.
var ErrPackagesFull = errors.New("there is no room for another package")

// Package is a version of the agent for an architecture.
type Package struct {
	Version, Arch string
	// Signed is the signed text that describes it.
	Signed string
	Size   int64 // bytes
	// Adder is the user or the app that has added it.
	Adder   string
	Created time.Time
	// Pieces are the numbers of the pieces that are there, in order. Only ListPackages sets them.
	Pieces []int
}

// Packages holds versions of the agent in pieces.
type Packages interface {
	// PutPackage stores a package without its pieces. It does nothing if the package is there with the same text, and
	// returns ErrExists if it is there with another text, and ErrPackagesFull.
	PutPackage(ctx context.Context, p Package) error
	// PutPiece stores a piece of a package; it replaces the piece of this number. It returns ErrNotFound without a
	// package with this version, architecture and signed text.
	PutPiece(ctx context.Context, of Package, piece int, data []byte) error
	// ListPackages returns all packages, by version and architecture as texts.
	ListPackages(ctx context.Context) ([]Package, error)
	// GetPackage returns a package, or ErrNotFound.
	GetPackage(ctx context.Context, version, arch string) (Package, error)
	// GetPiece returns a piece, or ErrNotFound.
	GetPiece(ctx context.Context, version, arch string, piece int) ([]byte, error)
	// RemovePackage deletes a package with its pieces. It returns ErrNotFound without the package.
	RemovePackage(ctx context.Context, version, arch string) error
}
