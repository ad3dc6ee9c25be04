package eventlog

import (
	"context"
	"errors"
	"time"

	"drover/internal/idle"

	"drover/internal/durable"
)

const (
	// syncDelay is how long an event waits for company on its way to the disk.
	syncDelay = 200 * time.Millisecond
	// retryAfter is how often a disk that took nothing is tried again.
	retryAfter = time.Second
)

// Run syncs what was appended, soon after it was, and writes what could not be written, until ctx ends. While nothing
// happens it sleeps.
func (l *Log) Run(ctx context.Context) error {
	failing := false
	for {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return nil // Close syncs the rest
		}
		delay := syncDelay
		if l.stuck() {
			delay = retryAfter
		}
		if !idle.Sleep(ctx, delay) {
			return nil
		}
		err := l.sync()
		if err != nil && !failing {
			l.cfg.Log.Error("cannot sync events to disk", "error", err)
		}
		failing = err != nil
		l.mu.Lock()
		l.drain()
		l.mu.Unlock()
		if l.stuck() {
			l.nudge()
		}
	}
}

// stuck reports whether there are events that could not be written.
func (l *Log) stuck() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0
}

// sync brings what was written to the disk, and closes the files that are full. It holds up no Append meanwhile.
func (l *Log) sync() error {
	l.mu.Lock()
	full, open, created := l.files.unsynced()
	l.mu.Unlock()
	var errs []error
	for _, f := range full {
		errs = append(errs, f.Sync(), f.Close())
	}
	if open != nil {
		errs = append(errs, open.Sync())
	}
	if created {
		errs = append(errs, durable.SyncDir(l.cfg.Dir))
	}
	return errors.Join(errs...)
}
