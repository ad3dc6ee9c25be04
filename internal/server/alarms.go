package server

import (
	"context"

	"drover/internal/server/bus"
)

// runAlarms wakes the sender whenever events have arrived or receivers have changed, and seals the secrets of receivers
// with changed keys, until ctx ends.
func (s *Server) runAlarms(ctx context.Context) error {
	events, stopEvents := s.bus.Listen(bus.Events)
	defer stopEvents()
	receivers, stopReceivers := s.bus.Listen(bus.Receivers)
	defer stopReceivers()
	keys, stopKeys := s.bus.Listen(bus.Keys)
	defer stopKeys()
	// The events that were stored before this subscription are new too.
	s.sender.News()
	s.resealReceivers(ctx) // the keys may have changed before the start
	for {
		select {
		case <-events:
			s.sender.News()
		case <-receivers:
			s.sender.Changed()
		case <-keys:
			s.resealReceivers(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// resealReceivers seals the secrets of receivers with the present key, because a former key may be dropped.
func (s *Server) resealReceivers(ctx context.Context) {
	if err := s.receivers.Renew(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Log.ErrorContext(ctx, "cannot seal the secrets of receivers with the present key", "error", err)
	}
}
