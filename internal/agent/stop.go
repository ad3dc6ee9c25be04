package agent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stopTime is how long a stop may take: what ends a process is finished first, and that may take five seconds. Nothing
// else takes time, unless it waits for the kernel, which may be for ever: a file system that does not answer lets
// nobody go.
const stopTime = 6 * time.Second

// errHangs is why a stop was not waited for any longer.
var errHangs = errors.New("something of the host does not answer; everything that counts is on the disk")

// stopWithin is run, but for that it does not wait for it any longer than limit once ctx has ended.
func stopWithin(ctx context.Context, limit time.Duration, run func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	left := time.NewTimer(limit)
	defer left.Stop()
	select {
	case err := <-ended:
		return err
	case <-left.C:
		return fmt.Errorf("cannot stop within %v: %w", limit, errHangs)
	}
}
