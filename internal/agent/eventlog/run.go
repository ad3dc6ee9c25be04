package eventlog

import (
	"context"
	"errors"
	"time"

	"drover/internal/idle"

	"drover/internal/durable"
)

const (
	// syncDelay is how long an event waits for other events before the sync.
	syncDelay = 200 * time.Millisecond
	// retryAfter is the pause after a failed write.
	retryAfter = time.Second
)

// Run syncs new events soon after Append, and retries failed writes, until ctx ends. It sleeps while nothing happens.
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

// stuck reports whether events are waiting for the disk.
func (l *Log) stuck() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}

// sync syncs what was written, and closes the full segments. It does not block Append meanwhile.
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
