package proxy

import (
	"context"
	"sync"

	"drover/internal/fabric"
	"drover/internal/wire"
)

// switcher holds the present uplink. It exists before the first uplink.
type switcher struct {
	mu      sync.Mutex
	current *uplink
}

func (s *switcher) set(u *uplink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = u
}

func (s *switcher) get() *uplink {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *switcher) ready() error {
	if u := s.get(); u != nil {
		return u.ready()
	}
	return fabric.ErrNotConnected
}

func (s *switcher) join(ctx context.Context, r wire.RelayedJoin) (wire.RelayedAnswer, error) {
	if u := s.get(); u != nil {
		return u.join(ctx, r)
	}
	return wire.RelayedAnswer{}, fabric.ErrNotConnected
}
