package gate_test

import (
	"sync"
	"testing"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/gate"
)

// clock is a gate whose time is the test's.
func clock(start time.Time) (*gate.Gate, *time.Time) {
	now := start
	return gate.New(gate.Config{Now: func() time.Time { return now }}), &now
}

func TestRateOfAnApp(t *testing.T) {
	g, now := clock(time.Now())
	p := access.Principal{App: "a", Limits: access.Limits{Rate: 2, Burst: 3}}
	call := func(want gate.Verdict, usage gate.Usage) {
		t.Helper()
		leave, u, v := g.Enter(p)
		if v != want || u != usage || (leave == nil) != (v != gate.Within) {
			t.Errorf("verdict %d, usage %+v, want %d, %+v", v, u, want, usage)
		}
	}
	call(gate.Within, gate.Usage{Limit: 3, Remaining: 2})
	call(gate.Within, gate.Usage{Limit: 3, Remaining: 1})
	call(gate.Within, gate.Usage{Limit: 3, Remaining: 0, Reset: 500 * time.Millisecond})
	call(gate.TooOften, gate.Usage{Limit: 3, Reset: 500 * time.Millisecond})
	call(gate.TooOften, gate.Usage{Limit: 3, Reset: 500 * time.Millisecond}) // a refused call uses nothing
	*now = now.Add(500 * time.Millisecond)
	call(gate.Within, gate.Usage{Limit: 3, Reset: 500 * time.Millisecond})
	*now = now.Add(time.Hour)
	call(gate.Within, gate.Usage{Limit: 3, Remaining: 2})

	other := p
	other.App = "b"
	if _, u, v := g.Enter(other); v != gate.Within || u.Remaining != 2 {
		t.Errorf("another app has %d, %+v", v, u)
	}
	t.Run("a changed limit counts at once", func(t *testing.T) {
		p.Limits = access.Limits{Rate: 1}
		call(gate.Within, gate.Usage{Limit: 1, Remaining: 0, Reset: time.Second})
		call(gate.TooOften, gate.Usage{Limit: 1, Reset: time.Second})
		p.Limits = access.Limits{}
		call(gate.Within, gate.Usage{})
	})
}

func TestCallsOfAnAppAtOnce(t *testing.T) {
	g, _ := clock(time.Now())
	p := access.Principal{App: "a", Limits: access.Limits{Concurrent: 2}}
	first, _, v1 := g.Enter(p)
	_, _, v2 := g.Enter(p)
	if _, u, v := g.Enter(p); v1 != gate.Within || v2 != gate.Within || v != gate.TooMany || u != (gate.Usage{}) {
		t.Fatalf("verdicts are %d, %d, %d", v1, v2, v)
	}
	first()
	first() // counts once
	if _, _, v := g.Enter(p); v != gate.Within {
		t.Error("a call that has ended still counts")
	}
	if _, _, v := g.Enter(p); v != gate.TooMany {
		t.Error("a call that ended twice made room for two")
	}
}

func TestCallsThatOverlapAreCountedRight(t *testing.T) {
	g := gate.New(gate.Config{})
	p := access.Principal{App: "a", Limits: access.Limits{Concurrent: 5, Rate: 1e6, Burst: 1e6}}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 100 {
				if leave, _, v := g.Enter(p); v == gate.Within {
					leave()
				}
			}
		})
	}
	wg.Wait()
	for i := range 6 {
		if _, _, v := g.Enter(p); (v == gate.Within) != (i < 5) {
			t.Errorf("call %d after all had ended: %d", i, v)
		}
	}
}
