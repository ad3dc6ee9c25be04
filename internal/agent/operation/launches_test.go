package operation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestLaunchPriority: what follows a command waits for those that are on their way, but not for ever.
func TestLaunchPriority(t *testing.T) {
	for _, c := range []struct {
		name  string
		ahead time.Duration
		took  time.Duration
	}{
		{"nobody is ahead", 0, 0},
		{"the last one is let run", 100 * time.Millisecond, 100 * time.Millisecond},
		{"they do not end", time.Hour, maxLaunchWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r launchPriority
				if c.ahead > 0 {
					r.enter()
					r.enter()
					r.leave()
					time.AfterFunc(c.ahead, r.leave)
				}
				began := time.Now()
				r.wait(t.Context())
				if took := time.Since(began); took != c.took {
					t.Errorf("waited %v, want %v", took, c.took)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var r launchPriority
		r.enter()
		r.leaveSoon()
		began := time.Now()
		r.wait(t.Context())
		if took := time.Since(began); took != settling {
			t.Errorf("a command had %v to execute its program, want %v", took, settling)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var r launchPriority
		r.enter()
		defer r.leave()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		r.wait(ctx)
		if took := time.Since(began); took != 0 {
			t.Errorf("an agent that stops waited %v", took)
		}
	})
}
