package agent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stopTime is the longest time for a stop: the agent first finishes ending processes, which may take five seconds.
// Nothing else takes time, unless it waits for the kernel. That may take for ever, for example if a file system hangs.
const stopTime = 6 * time.Second

// errHangs says why the agent stopped waiting.
var errHangs = errors.New("something of the host does not answer; everything that counts is on the disk")

// stopWithin calls run, and waits at most limit for its return after ctx has ended.
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
