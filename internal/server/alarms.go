package server

import (
	"context"
	"fmt"
	"time"

	"drover/internal/fabric/broker"
	"drover/internal/idle"
	"drover/internal/server/receiver"
)

// openAlarms creates the sender of alarms. Only the servers of the fleet have the key of the secrets that sign alarms.
func (s *Server) openAlarms() error {
	key, err := broker.FleetSecret(brokerDir(s.cfg.Dir), "secrets of receivers")
	if err != nil {
		return err
	}
	if s.receivers, err = receiver.NewSealed(s.store, key); err != nil {
		return err
	}
	s.sender = receiver.New(receiver.Config{Store: s.receivers, Hosts: s.directory, Now: s.clock.Wall, Log: s.cfg.Log})
	return nil
}

// runAlarms wakes the sender whenever events have arrived, until ctx ends.
func (s *Server) runAlarms(ctx context.Context) error {
	woken, stop := s.engine.ListenEvents()
	defer stop()
	// The events that were stored before this subscription are new too.
	s.sender.News()
	for {
		select {
		case <-woken:
			s.sender.News()
			idle.Wake(s.work.breakers)
		case <-ctx.Done():
			return nil
		}
	}
}

// notesTime bounds how long it may take to collect warnings for operators.
const notesTime = 2 * time.Second

// notes returns warnings for operators about a server that accepts calls. They contain no addresses, because anyone may
// read them.
func (s *Server) notes() []string {
	notes := append(s.clockNotes(), s.cluster.notes()...)
	if s.cfg.Extras.Notes != nil {
		notes = append(notes, s.cfg.Extras.Notes()...)
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
