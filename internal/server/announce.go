package server

import (
	"context"
	"errors"
	"io"
	"time"

	"drover/internal/idle"
)

// readyPoll is the interval at which Announce checks whether the server is ready; it stops once the server is.
const readyPoll = 20 * time.Millisecond

// Announce writes text once the server is ready, and then blocks until ctx ends, because a part of a program must not
// end before the others. It fails only if the text cannot be written.
func (s *Server) Announce(ctx context.Context, out io.Writer, text string) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for s.Ready() != nil { //nolint:contextcheck // Ready has its own time limit
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
	if _, err := io.WriteString(out, text); err != nil {
		return errors.New("cannot write to standard output")
	}
	<-ctx.Done()
	return nil
}

// beatEvery is the interval of the server's signs of life; the unit gives up after a minute without one.
const beatEvery = 10 * time.Second

// beat gives a sign of life after each answer of the database, until ctx ends. An error is an answer, too: a restart
// brings no database back.
func (s *Server) beat(ctx context.Context) error {
	for {
		s.askDatabase(ctx)
		s.cfg.Service.Beat()
		if !idle.Sleep(ctx, beatEvery) {
			return nil
		}
	}
}

func (s *Server) askDatabase(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beatEvery)
	defer cancel()
	_ = s.store.Ping(ctx) // /readyz tells of it
}
