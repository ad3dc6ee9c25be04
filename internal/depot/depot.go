// Package depot gives packages of the agent to agents that ask for them, in pieces and not faster than it should. A
// server gives those of its database, and a proxy those of the servers, which it keeps for a while. It proves nothing:
// agents believe only what the owner of their host has signed.
package depot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"drover/internal/idle"
	"drover/internal/release"
	"drover/internal/wire"
)

const (
	// Workers is how many questions may wait for their answers at the same time: more than the questions of longest.
	Workers = 1024
	// readers is how many answers are read from the source at the same time.
	readers = 8
	// longest is how long an answer may wait. It is far below the patience of the agents: a question that would wait
	// longer is answered at once, and the agent asks again.
	longest = 5 * time.Second
	// Rate is how many bytes of packages a server gives in a second.
	Rate = 32 << 20
)

// Source has packages. The error for a missing one is wire.ErrNoPackage, and that of a source that has no time now is
// wire.ErrDepotBusy.
type Source interface {
	// Signed returns the signed text of a package.
	Signed(ctx context.Context, version, arch string) ([]byte, error)
	// Piece returns a piece of its program, by its number from 0. The caller must not change it.
	Piece(ctx context.Context, version, arch string, piece int) ([]byte, error)
}

// Depot answers questions about packages. It is safe for concurrent use.
type Depot struct {
	from Source
	log  *slog.Logger

	reading chan struct{}

	mu sync.Mutex
	// free is when the next answer may go.
	free time.Time
}

// New returns a depot of the packages of a source.
func New(from Source, log *slog.Logger) *Depot {
	return &Depot{from: from, log: log, reading: make(chan struct{}, readers)}
}

// Answer answers one question of an agent. It blocks until the answer may go, for a few seconds at most. It returns nil
// if ctx ends first, or if the source fails: the agent asks again.
func (d *Depot) Answer(ctx context.Context, _ string, question []byte) []byte {
	q, err := wire.ReadPackageQuestion(question)
	if err != nil {
		return wire.PackageError(err.Error())
	}
	size := release.PieceSize
	if q.Piece == nil {
		size /= 8 // about as much as a signed text
	}
	wait, ok := d.reserve(size, time.Now())
	if !ok {
		return wire.PackageBusy()
	}
	if !idle.Sleep(ctx, wait) {
		return nil
	}
	data, err := d.read(ctx, q)
	switch {
	case errors.Is(err, wire.ErrNoPackage) && q.Piece != nil:
		return wire.PackageError(fmt.Sprintf("piece %d of the program is missing: add the package again", *q.Piece))
	case errors.Is(err, wire.ErrNoPackage):
		return wire.PackageError("there is no such package")
	case errors.Is(err, wire.ErrDepotBusy):
		return wire.PackageBusy()
	case err != nil:
		if ctx.Err() == nil {
			d.log.ErrorContext(ctx, "cannot answer question about a package", "error", err)
		}
		return nil
	}
	return wire.PackageData(data)
}

func (d *Depot) read(ctx context.Context, q wire.PackageQuestion) ([]byte, error) {
	select {
	case d.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-d.reading }()
	if q.Piece != nil {
		return d.from.Piece(ctx, q.Version, q.Arch, *q.Piece)
	}
	return d.from.Signed(ctx, q.Version, q.Arch)
}

// reserve returns how long an answer of this size has to wait, and counts it; ok is false if it would wait too long.
func (d *Depot) reserve(size int, now time.Time) (wait time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.free.Before(now) {
		d.free = now
	}
	if wait = d.free.Sub(now); wait > longest {
		return 0, false
	}
	d.free = d.free.Add(time.Duration(size) * time.Second / Rate)
	return wait, true
}
