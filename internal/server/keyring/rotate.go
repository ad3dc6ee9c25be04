package keyring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"drover/internal/fabric"
)

var (
	// ErrNoKind is returned for a kind of keys that this server does not have.
	ErrNoKind = errors.New("no keys of this kind here")
	// ErrNotHeld is returned if the next key is on another server.
	ErrNotHeld = errors.New("the next key is not on this server: import the keys of the server that made it")
	// ErrChanged is returned if another server has made a change at the same time.
	ErrChanged = errors.New("another server changed the keys meanwhile: list the keys again")
)

// Announce makes the next key of a kind and announces it to agents. No key signs with it yet.
func (r *Ring) Announce(ctx context.Context, kind Kind) (State, error) {
	return r.with(ctx, kind, func(s State) (State, error) {
		if _, ok := s.in(kind, Next); ok {
			return s, ErrUnderWay
		}
		k, err := r.newKey(kind)
		if err != nil {
			return s, err
		}
		return s.announce(kind, k, r.cfg.Now().UTC())
	})
}

// newKey makes a key. It has no use until it is part of the state.
func (r *Ring) newKey(kind Kind) (Key, error) {
	if kind == CA {
		a, err := r.cfg.Authorities.NewAuthority()
		return Key{ID: a.Fingerprint, PEM: a.PEM, Ends: a.Ends}, err
	}
	temporary := r.path(kind, "new")
	if err := os.RemoveAll(temporary); err != nil { // left by an interrupted attempt
		return Key{}, err
	}
	pair, err := fabric.LoadOrCreateKey(temporary, nkeyType(kind))
	if err != nil {
		return Key{}, err
	}
	id, err := pair.PublicKey()
	if err != nil {
		return Key{}, err
	}
	if err := os.Rename(temporary, r.path(kind, id)); err != nil {
		return Key{}, fmt.Errorf("cannot keep key: %w", err)
	}
	return Key{ID: id}, nil
}

// Advance makes the next key of a kind the present key. It keeps the previous one for the given time, for agents that
// know no later key. It fails if the next key is not on this server.
func (r *Ring) Advance(ctx context.Context, kind Kind, keep time.Duration) (State, error) {
	return r.with(ctx, kind, func(s State) (State, error) {
		k, ok := s.in(kind, Next)
		if !ok {
			return s, ErrNoNext
		}
		r.mu.RLock()
		held := kind == CA || r.held[k.ID] != nil
		r.mu.RUnlock()
		if !held {
			return s, fmt.Errorf("%w: %s", ErrNotHeld, k.ID)
		}
		now := r.cfg.Now().UTC()
		return s.advance(kind, now, now.Add(keep))
	})
}

// Withdraw gives the next key of a kind up, before it was used.
func (r *Ring) Withdraw(ctx context.Context, kind Kind) (State, error) {
	return r.with(ctx, kind, func(s State) (State, error) { return s.withdraw(kind) })
}

// Retire drops a former key now. Agents that know no later one can't be reached after that, and have to join again.
func (r *Ring) Retire(ctx context.Context, kind Kind, id string) (State, error) {
	return r.with(ctx, kind, func(s State) (State, error) { return s.retire(kind, id) })
}

// with makes one change to the latest state of the fleet.
func (r *Ring) with(ctx context.Context, kind Kind, change func(State) (State, error)) (State, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	if err := r.sync(ctx); err != nil {
		return State{}, err
	}
	before := r.State()
	if len(before.Keys[kind]) == 0 {
		return State{}, fmt.Errorf("%w: %s", ErrNoKind, kind)
	}
	next, err := change(before)
	if err != nil {
		return State{}, err
	}
	if err := r.change(ctx, next); err != nil {
		return State{}, err
	}
	return next, nil
}
