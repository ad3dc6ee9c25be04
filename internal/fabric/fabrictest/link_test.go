package fabrictest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/fabric"
	"drover/internal/fabric/fabrictest"
)

func TestLinkContract(t *testing.T) {
	fabrictest.Run(t, func(t *testing.T) fabrictest.Ends {
		l := fabrictest.NewLink(fabrictest.Faults{})
		t.Cleanup(l.Close)
		return fabrictest.Ends{Server: l, Agent: l, ServerSubject: "server.A.reports", AgentSubject: "agent.A.orders"}
	})
}

// tally sends requests one after another, a second for each, and returns how many were answered and how many handled.
func tally(t *testing.T, f fabrictest.Faults, requests int) (answered, handled int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := fabrictest.NewLink(f)
		var count atomic.Int64
		if _, err := l.Serve("a", "", 1, func(_ context.Context, _ string, data []byte) []byte {
			count.Add(1)
			return data
		}); err != nil {
			t.Fatal(err)
		}
		for i := range requests {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			reply, err := l.Request(ctx, "a", fmt.Append(nil, i))
			cancel()
			switch {
			case err == nil && string(reply) == fmt.Sprint(i):
				answered++
			case !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("request %d: got %q and %v", i, reply, err)
			}
		}
		l.Close()
		handled = int(count.Load())
	})
	return answered, handled
}

func TestLinkFaults(t *testing.T) {
	const n = 1000
	for _, c := range []struct {
		name                                       string
		faults                                     fabrictest.Faults
		minAnswered, maxAnswered, minHandled, maxH int
	}{
		{"none", fabrictest.Faults{}, n, n, n, n},
		{"drop all", fabrictest.Faults{Drop: 1}, 0, 0, 0, 0},
		{"drop half", fabrictest.Faults{Drop: .5, Seed: 1}, 200, 300, 450, 550},
		{"repeat all", fabrictest.Faults{Duplicate: 1}, n, n, 2 * n, 2 * n},
		{"delay", fabrictest.Faults{Delay: 400 * time.Millisecond}, n, n, n, n},
		{"delay too long", fabrictest.Faults{Delay: 2 * time.Second, Seed: 1}, 80, 180, n / 2, n},
	} {
		t.Run(c.name, func(t *testing.T) {
			answered, handled := tally(t, c.faults, n)
			if answered < c.minAnswered || answered > c.maxAnswered {
				t.Errorf("%d answered, want %d to %d", answered, c.minAnswered, c.maxAnswered)
			}
			if handled < c.minHandled || handled > c.maxH {
				t.Errorf("%d handled, want %d to %d", handled, c.minHandled, c.maxH)
			}
			if a, h := tally(t, c.faults, n); a != answered || h != handled {
				t.Errorf("the same seed gave %d and %d, then %d and %d", answered, handled, a, h)
			}
		})
	}
}

func TestLinkCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fabrictest.NewLink(fabrictest.Faults{Delay: time.Second})
		defer l.Close()
		if _, err := l.Serve("a", "", 1, func(_ context.Context, _ string, data []byte) []byte {
			return data
		}); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() {
			_, err := l.Request(t.Context(), "a", nil)
			failed <- err
		}()
		synctest.Wait()
		l.Cut()
		if err := <-failed; !errors.Is(err, fabric.ErrNotConnected) {
			t.Errorf("request under way: got %v, want %v", err, fabric.ErrNotConnected)
		}
		if _, err := l.Request(t.Context(), "a", nil); !errors.Is(err, fabric.ErrNotConnected) || l.Connected() {
			t.Errorf("new request: got %v, want %v", err, fabric.ErrNotConnected)
		}
		l.Restore()
		if _, err := l.Request(t.Context(), "a", nil); err != nil {
			t.Errorf("after the cut: %v", err)
		}
	})
}

func TestLinkSubjects(t *testing.T) {
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.c", false},
		{"a", "a.b", false},
		{"a.b", "a", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"*.b", "a.b", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{">", "a.b", true},
	} {
		l := fabrictest.NewLink(fabrictest.Faults{})
		if _, err := l.Serve(c.pattern, "", 1, func(context.Context, string, []byte) []byte {
			return []byte{}
		}); err != nil {
			t.Fatal(err)
		}
		_, err := l.Request(t.Context(), c.subject, nil)
		if got := err == nil; got != c.want {
			t.Errorf("%q heard by %q: %v, want %v", c.subject, c.pattern, got, c.want)
		}
		l.Close()
	}
}
