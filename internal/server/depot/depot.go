// Package depot gives packages of the agent to agents that ask for them, in pieces and not faster than it should. It
// proves nothing: agents believe only what the owner of their host has signed.
package depot

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"drover/internal/idle"
	"drover/internal/server/store"
	"drover/internal/wire"
)

const (
	// Workers is how many questions a server answers at the same time.
	Workers = 8
	// Rate is how many bytes of packages a server gives in a second.
	Rate = 32 << 20
)

// Packages has the packages.
type Packages interface {
	GetPackage(ctx context.Context, version, arch string) (store.Package, error)
	GetPiece(ctx context.Context, version, arch string, piece int) ([]byte, error)
}

// Depot answers questions about packages. It is safe for concurrent use.
type Depot struct {
	packages Packages
	log      *slog.Logger

	mu sync.Mutex
	// free is when the next answer may go.
	free time.Time
}

// New returns a depot of packages.
func New(packages Packages, log *slog.Logger) *Depot { return &Depot{packages: packages, log: log} }

// Answer answers one question of an agent. It blocks until the answer may go. It returns nil if ctx ends first, or if
// the database fails: the agent asks again.
func (d *Depot) Answer(ctx context.Context, _ string, question []byte) []byte {
	q, err := wire.ReadPackageQuestion(question)
	if err != nil {
		return wire.PackageError(err.Error())
	}
	data, err := d.read(ctx, q)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return wire.PackageError("there is no such package")
	case err != nil:
		if ctx.Err() == nil {
			d.log.ErrorContext(ctx, "cannot answer question about a package", "error", err)
		}
		return nil
	case !idle.Sleep(ctx, d.wait(len(data), time.Now())):
		return nil
	}
	return wire.PackageData(data)
}

func (d *Depot) read(ctx context.Context, q wire.PackageQuestion) ([]byte, error) {
	if q.Piece != nil {
		return d.packages.GetPiece(ctx, q.Version, q.Arch, *q.Piece)
	}
	p, err := d.packages.GetPackage(ctx, q.Version, q.Arch)
	return []byte(p.Signed), err
}

// wait returns how long an answer of this size has to wait, and counts it.
func (d *Depot) wait(size int, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.free.Before(now) {
		d.free = now
	}
	wait := d.free.Sub(now)
	d.free = d.free.Add(time.Duration(size) * time.Second / Rate)
	return wait
}
