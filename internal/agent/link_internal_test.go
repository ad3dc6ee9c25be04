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
		now = now.Add(d)
		return u.note(err, now)
	}
	for i, c := range []struct {
		after time.Duration
		err   error
		want  bool
	}{
		{0, lost, false}, {unheardFor - 1, lost, false}, {1, lost, true},
		// The next time it waits for twice as long.
		{time.Second, lost, false}, {unheardFor, lost, false}, {unheardFor, fabric.ErrNobody, true},
		// A link that is down is the library's to mend, and an answer ends it all.
		{time.Second, lost, false}, {time.Hour, fabric.ErrNotConnected, false}, {time.Second, lost, false}, {4*unheardFor - 1, nil, false},
		{time.Second, lost, false}, {unheardFor, lost, true},
	} {
		if got := after(c.after, c.err); got != c.want {
			t.Errorf("step %d: got %v, want %v", i, got, c.want)
		}
	}
	for range 10 {
		after(0, lost)
		after(unheardMost, lost)
	}
	after(0, lost)
	if !after(unheardMost, lost) {
		t.Error("it waits for ever longer")
	}
}
