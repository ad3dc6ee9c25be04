package server

import (
	"context"
	"fmt"
	"time"

	"drover/internal/idle"
	"drover/internal/server/receiver"
)

// openAlarms creates the sender of alarms. Only the servers of the fleet can read the secrets that sign alarms.
func (s *Server) openAlarms() {
	s.receivers = receiver.NewSealed(s.store, func() ([][]byte, error) {
		return s.keys.Secrets("secrets of receivers")
	})
	s.sender = receiver.New(receiver.Config{Store: s.receivers, Hosts: s.directory, Now: s.clock.Wall, Log: s.cfg.Log})
}

// runAlarms wakes the sender whenever events have arrived, and seals the secrets of receivers with changed keys, until
// ctx ends.
func (s *Server) runAlarms(ctx context.Context) error {
	woken, stop := s.engine.ListenEvents()
	defer stop()
	// The events that were stored before this subscription are new too.
	s.sender.News()
	s.resealReceivers(ctx) // the keys may have changed before the start
	for {
		select {
		case <-woken:
			s.sender.News()
			idle.Wake(s.work.breakers)
		case <-s.work.keys:
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

// notesTime bounds how long it may take to collect warnings for operators.
const notesTime = 2 * time.Second

// notes returns warnings for operators about a server that accepts calls. They contain no addresses, because anyone may
// read them.
func (s *Server) notes() []string {
	notes := append(s.clockNotes(), s.cluster.notes()...)
	for _, kind := range s.keys.Missing() {
		notes = append(notes, fmt.Sprintf("the present key %s is not on this server, so others reject it once the former key is dropped: "+
			"bring it here ('drover server keys export' on another server, 'drover server keys import' here)", kind))
	}
	if s.cfg.Extras.Notes != nil {
		notes = append(notes, s.cfg.Extras.Notes()...)
	}
	if since := s.cfg.Service.LostSince(); since != 0 {
		notes = append(notes, "lines of the server's own log have been lost since "+
			time.UnixMilli(since).UTC().Format(time.RFC3339)+": its reader is away, or too slow")
	}
	ctx, cancel := context.WithTimeout(context.Background(), notesTime)
	defer cancel()
	list, err := s.receivers.ListReceivers(ctx)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "cannot list receivers", "error", err)
		return notes
	}
	for _, sub := range list {
		if d := s.sender.Latest(sub); d.Failures > 0 {
			notes = append(notes, fmt.Sprintf("receiver %s has taken no alarms since %s: %d attempts failed",
				sub.Receiver.Name, d.Failing.UTC().Format(time.RFC3339), d.Failures))
		}
	}
	return notes
}

// alarmSender is the sender of alarms for the API. It notifies the other servers of changes.
type alarmSender struct {
	*receiver.Sender
	cluster *cluster
}

// Changed notifies the server that delivers alarms of changed receivers.
func (a alarmSender) Changed() {
	a.Sender.Changed()
	a.cluster.receiversChanged()
}
