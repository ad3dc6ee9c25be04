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

// The holder renews a lease at intervals, and loses it holdTime after the last renewal. The part stops margin before
// that.
const (
	takeEvery = 5 * time.Second
	holdTime  = 15 * time.Second
	margin    = 3 * time.Second
	// takeAgain is the retry delay of a renewal that the database has not answered.
	takeAgain = time.Second
)

// Store gives out leases.
type Store interface {
	// TakeLease gives a lease to a holder for the given time. It returns false if another holder has it.
	TakeLease(ctx context.Context, name, holder string, hold time.Duration) (taken bool, err error)
	DropLease(ctx context.Context, name, holder string) error
}

// Config holds the settings of a Lease.
type Config struct {
	Store Store
	// Name is the name of the lease, Holder the name of its holder.
	Name, Holder string
	Log          *slog.Logger
}

// Alone runs a part whenever the lease is free, until ctx ends. The context of the part ends before another holder can
// have the lease; the part may run again later. An error of the part ends Alone.
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

// holder asks for a lease and renews it.
type holder struct {
	Config
	takenAt time.Time // when the last successful request began
}

func (h *holder) take(ctx context.Context) (bool, error) {
	return h.Store.TakeLease(ctx, h.Name, h.Holder, holdTime)
}

// hold runs a part while it holds the lease, and then returns the lease.
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

// renew renews the lease, and reports whether the part may continue.
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
