// Package lease runs a part of a server on one server of a fleet at a time: on the server that holds the lease of
// that name. The shared database grants the leases. The package owns how to acquire, renew and release a lease; the
// caller owns the work under the lease.
package lease

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"drover/internal/idle"
)

// A lease is taken again so often, and lost holdTime after it was taken last. Whoever has one stops margin before that.
const (
	takeEvery = 5 * time.Second
	holdTime  = 15 * time.Second
	margin    = 3 * time.Second
	// takeAgain is how soon an attempt to keep one is made again that the database has not answered.
	takeAgain = time.Second
)

// Store gives out leases.
type Store interface {
	// TakeLease gives a lease to a holder for so long, and returns false where another has it.
	TakeLease(ctx context.Context, name, holder string, hold time.Duration) (taken bool, err error)
	DropLease(ctx context.Context, name, holder string) error
}

// Config is what a Lease needs.
type Config struct {
	Store Store
	// Name is that of the lease, Holder that of whoever takes it.
	Name, Holder string
	Log          *slog.Logger
}

// Alone runs a part whenever the lease is there to be taken, until ctx ends. The context of the part ends before
// another can have the lease; the part may be run again later. An error of the part ends it all.
func Alone(ctx context.Context, cfg Config, run func(context.Context) error) error {
	h := &holder{Config: cfg}
	for ctx.Err() == nil {
		h.takenAt = time.Now()
		mine, err := h.take(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			h.Log.WarnContext(ctx, "cannot request lease", "lease", h.Name, "error", err)
		case mine:
			h.Log.InfoContext(ctx, "acquired lease", "lease", h.Name)
			if err := h.hold(ctx, run); err != nil {
				return err
			}
			continue
		}
		idle.Sleep(ctx, takeEvery)
	}
	return nil
}

// holder is one who asks for a lease.
type holder struct {
	Config
	takenAt time.Time // when it was asked for that was given last
}

func (h *holder) take(ctx context.Context) (bool, error) {
	return h.Store.TakeLease(ctx, h.Name, h.Holder, holdTime)
}

// hold runs a part while its lease is kept, and gives the lease back.
func (h *holder) hold(ctx context.Context, run func(context.Context) error) error {
	life, end := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() {
		defer end()
		for h.renew(life) {
			idle.Sleep(life, takeEvery)
		}
	})
	err := run(life)
	end()
	keeper.Wait()
	drop, cancel := context.WithTimeout(context.WithoutCancel(ctx), margin)
	defer cancel()
	if dropped := h.Store.DropLease(drop, h.Name, h.Holder); dropped != nil {
		h.Log.WarnContext(ctx, "cannot release lease", "lease", h.Name, "error", dropped)
	}
	return err
}

// renew takes the lease again, and reports whether the part may go on.
func (h *holder) renew(ctx context.Context) bool {
	attempt, cancel := context.WithDeadline(ctx, h.takenAt.Add(holdTime-margin))
	defer cancel()
	for attempt.Err() == nil {
		now := time.Now()
		mine, err := h.take(attempt)
		switch {
		case err == nil && mine:
			h.takenAt = now
			return true
		case err == nil:
			h.Log.WarnContext(ctx, "lost lease", "lease", h.Name)
			return false
		}
		idle.Sleep(attempt, takeAgain)
	}
	if ctx.Err() == nil {
		h.Log.WarnContext(ctx, "cannot renew lease: the database does not answer", "lease", h.Name)
	}
	return false
}
