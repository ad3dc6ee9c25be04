package server

import (
	"context"
	"time"

	"drover/internal/server/bus"
)

// resealAgain is the pause before another attempt to seal the secrets of receivers, after a failure.
const resealAgain = 10 * time.Second

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
	again := s.resealReceivers(ctx) // the keys may have changed before the start
	for {
		select {
		case <-events:
			s.sender.News()
		case <-receivers:
			s.sender.Changed()
		case <-keys:
			again = s.resealReceivers(ctx)
		case <-again:
			again = s.resealReceivers(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// resealReceivers seals the secrets of receivers with the present key, because a former key may be dropped. If that
// fails, the result receives when it is time for another attempt; else it is nil.
func (s *Server) resealReceivers(ctx context.Context) (again <-chan time.Time) {
	err := s.receivers.Renew(ctx)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	s.cfg.Log.ErrorContext(ctx, "cannot seal the secrets of receivers with the present key", "error", err)
	return time.After(resealAgain)
}
