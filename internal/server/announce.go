package server

import (
	"context"
	"errors"
	"io"
	"time"
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
