package task

import (
	"fmt"
	"time"
)

// BusyError rejects a task because too many operations are open. The task was not stored; the caller may retry.
type BusyError struct {
	// Open is how many items are not done, Most how many there may be.
	Open, Most int
	// Retry is when it is worth while to ask again.
	Retry time.Duration
}

// Error returns the text for the caller.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%d operations are under way, of at most %d: try again in %d s", e.Open, e.Most, e.Seconds())
}

// Seconds is Retry in whole seconds, at least one.
func (e *BusyError) Seconds() int { return max(1, int((e.Retry+time.Second-1)/time.Second)) }
