// Package idle lets goroutines sleep until a context ends, and be woken without blocking. It owns no goroutine.
package idle

import (
	"context"
	"time"
)

// Sleep waits for the given time. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Wake sends on a channel with a buffer of one. It does not block: a channel that holds a message already needs no
// second one.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Wait waits for the given time, until woken receives, or until ctx ends.
func Wait(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-woken:
	case <-ctx.Done():
	}
}
