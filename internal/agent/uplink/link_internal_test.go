package uplink

import (
	"context"
	"testing"
	"time"

	"drover/internal/fabric"
)

func TestAnswerWatchdog(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var u answerWatchdog
	lost := context.DeadlineExceeded
	after := func(d time.Duration, err error) bool {
		sent := now
		now = now.Add(d)
		return u.recordResult(err, sent, now)
	}
	for i, c := range []struct {
		after time.Duration
		err   error
		want  bool
	}{
		{watchdogTimeout - 1, lost, false},
		{1, lost, true},
		// The next time it waits for twice as long.
		{watchdogTimeout, lost, false},
		{watchdogTimeout, fabric.ErrNobody, true},
		// A link that is down is the library's to mend, and an answer ends it all.
		{time.Second, lost, false},
		{time.Hour, fabric.ErrNotConnected, false},
		{4*watchdogTimeout - 1, lost, false},
		{time.Second, nil, false},
		{watchdogTimeout, lost, true},
	} {
		if got := after(c.after, c.err); got != c.want {
			t.Errorf("step %d: got %v, want %v", i, got, c.want)
		}
	}
	for range 10 {
		after(maxWatchdogTimeout, lost)
	}
	if !after(maxWatchdogTimeout, lost) {
		t.Error("it waits for ever longer")
	}
}
