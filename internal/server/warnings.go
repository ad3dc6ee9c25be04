package server

import (
	"context"
	"fmt"
	"time"
)

// clockBound is how far a clock may be off before the server reports it.
const clockBound = 30 * time.Second

// notesTime bounds how long it may take to collect warnings for operators.
const notesTime = 2 * time.Second

// notes returns warnings for operators about a server that accepts calls. They contain no addresses, because anyone may
// read them.
func (s *Server) notes() []string {
	notes := append(s.clockNotes(), s.cluster.Notes()...)
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

// clockNotes returns warnings about wrong clocks.
func (s *Server) clockNotes() []string {
	var notes []string
	if skew := s.clock.Skew(); skew.Abs() >= clockBound {
		notes = append(notes,
			fmt.Sprintf("the clock of this server is %s the clock of the database, which times operations: correct it",
				aheadText(skew)))
	}
	if n, worst := s.directory.Unsteady(s.clock.Now(), clockBound); n > 0 {
		notes = append(notes,
			fmt.Sprintf("the clocks of %d hosts are off by more than %s; the worst is %s the server's clock", n,
				clockBound, aheadText(worst)))
	}
	return notes
}

// clocksOff counts the hosts whose clocks are wrong.
func (s *Server) clocksOff() int {
	n, _ := s.directory.Unsteady(s.clock.Now(), clockBound)
	return n
}

// aheadText describes how far a clock is ahead.
func aheadText(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(time.Second).String() + " behind"
	}
	return ahead.Round(time.Second).String() + " ahead of"
}
