package agent

import (
	"context"
	"testing"
	"time"

	"drover/internal/fabric"
)

func TestUnheard(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var u unheard
	lost := context.DeadlineExceeded
	after := func(d time.Duration, err error) bool {
		sent := now
		now = now.Add(d)
		return u.note(err, sent, now)
	}
	for i, c := range []struct {
		after time.Duration
		err   error
		want  bool
	}{
		{unheardFor - 1, lost, false},
		{1, lost, true},
		// The next time it waits for twice as long.
		{unheardFor, lost, false},
		{unheardFor, fabric.ErrNobody, true},
		// A link that is down is the library's to mend, and an answer ends it all.
		{time.Second, lost, false},
		{time.Hour, fabric.ErrNotConnected, false},
		{4*unheardFor - 1, lost, false},
		{time.Second, nil, false},
		{unheardFor, lost, true},
	} {
		if got := after(c.after, c.err); got != c.want {
			t.Errorf("step %d: got %v, want %v", i, got, c.want)
		}
	}
	for range 10 {
		after(unheardMost, lost)
	}
	if !after(unheardMost, lost) {
		t.Error("it waits for ever longer")
	}
}
