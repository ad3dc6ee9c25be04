//nolint:thelper // what runs in a bubble is the test itself
package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/store"
	"drover/internal/wire"
)

func TestAgentThatNeverJoined(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.leave()
		r.submit("t", process.Start, "stranger")
		r.shows("t", unavailable)
	})
}

func TestKnownAgentAfterTheStart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.leave()
		r.submit("t", process.Start, "agent-0", "agent-1")
		r.pass(10 * time.Second)
		r.shows("t", "", "")
		r.taken()
		// One comes back in time.
		r.answer(accept)
		r.leave("agent-1")
		r.pass(time.Second)
		item := ""
		for _, m := range r.taken() {
			if m.Agent == "agent-0" {
				item = m.Orders[0].Item
			}
		}
		r.finish("agent-0", item)
		r.pass(5 * time.Second)
		r.shows("t", process.Success, unavailable)
	})
}

func TestAgentAway(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.report("agent-0", wire.Report{})
		r.leave()
		r.directory.RecordLinkLost("agent-0", time.Now())
		r.pass(31 * time.Second)
		r.submit("t", process.Start, "agent-0")
		r.shows("t", unavailable)
	})
}

func TestAgentJustLost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Hour)
		r.report("agent-0", wire.Report{})
		r.leave()
		r.directory.RecordLinkLost("agent-0", time.Now())
		r.submit("t", process.Start, "agent-0")
		r.pass(3 * time.Second)
		r.shows("t", "")
		r.pass(1500 * time.Millisecond)
		r.shows("t", unavailable)
	})
}

// TestNobodyListens: an agent that nobody finds is away at once, is given up 4 s after that, and is there again with
// its next word.
func TestNobodyListens(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Hour)
		r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}})
		r.pass(10 * time.Second)
		if r.directory.Presence("agent-0", time.Now()).Away {
			t.Error("an agent that is silent for 10 s is away")
		}
		r.leave()
		r.submit("t", process.Start, "agent-0")
		r.pass(3 * time.Second)
		r.shows("t", "")
		if !r.directory.Presence("agent-0", time.Now()).Away {
			t.Error("an agent that nobody listens for is there")
		}
		r.pass(1500 * time.Millisecond)
		r.shows("t", unavailable)
		if ack := r.report("agent-0", wire.Report{}); !ack.Hello {
			t.Error("an agent that came back was not asked to introduce itself")
		}
		if r.directory.Presence("agent-0", time.Now()).Away {
			t.Error("an agent that came back is away")
		}
	})
}

func TestDeadlines(t *testing.T) {
	const heartbeat = 10 * time.Second
	tests := []struct {
		name    string
		begun   int  // limit in seconds; 0 is never begun
		receipt bool // it is the receipt that says so
		there   bool
		after   time.Duration
		want    string
	}{
		{"begun, there", 60, false, true, 75 * time.Second, "no result by 2000-01-01T01:01:15Z"},
		{"begun, away", 60, false, false, 75 * time.Second, hadBegun},
		{"begun at once, there", 60, true, true, 75 * time.Second, "no result by 2000-01-01T01:01:15Z"},
		{"begun at once, away", 60, true, false, 75 * time.Second, hadBegun},
		{"not begun, there", 0, false, true, 10 * time.Minute, "no result by 2000-01-01T01:10:00Z"},
		{
			"not begun, away", 0, false, false, 10 * time.Minute,
			unavailable + ": it has taken the operation, and may have begun",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.pass(time.Hour)
				r.report("agent-0", wire.Report{})
				if tt.receipt {
					r.answer(func(ctx context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
						receipt, err := accept(ctx, agent, m)
						receipt.Begun = map[string]int{"another": 1, m.Orders[0].Item: tt.begun}
						return receipt, err
					})
				}
				r.submit("t", process.Start, "agent-0")
				item := r.takenOne().Item
				if tt.begun > 0 && !tt.receipt {
					r.progress("agent-0", wire.Progress{Item: item, Limit: tt.begun})
				}
				for left := tt.after - time.Second; left > 0; left -= heartbeat {
					r.pass(min(left, heartbeat))
					if tt.there {
						r.report("agent-0", wire.Report{})
					}
				}
				r.shows("t", "")
				r.pass(time.Second)
				r.shows("t", tt.want)

				// A late result is no news to whoever asked.
				r.finish("agent-0", item)
				r.shows("t", tt.want)
			})
		})
	}
}

// TestDeadlineOfTheFirstFreesTheNext: an agent that never ends one operation does not hold up those behind it for
// longer than its deadline.
func TestDeadlineOfTheFirstFreesTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.submit("1", process.Start, "agent-0")
		r.progress("agent-0", wire.Progress{Item: r.takenOne().Item, Limit: 30})
		r.submit("2", process.Reload, "agent-0")
		r.pass(44 * time.Second)
		if n := len(r.taken()); n != 0 {
			t.Errorf("%d manifests were sent while the first runs", n)
		}
		r.pass(time.Second)
		if o := r.takenOne(); o.Op != process.Reload {
			t.Errorf("%s was sent", o.Op)
		}
	})
}

func TestServerThatWasAway(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.submit("t", process.Start, "agent-0", "agent-1")
		items := map[string]string{}
		for _, m := range r.taken() {
			items[m.Agent] = m.Orders[0].Item
			r.progress(m.Agent, wire.Progress{Item: m.Orders[0].Item, Limit: 30})
		}
		r.stop()
		r.pass(time.Hour)
		r.start()
		r.pass(10 * time.Second)
		r.shows("t", "", "")
		r.finish("agent-0", items["agent-0"]) // its outbox kept the outcome
		r.pass(5 * time.Second)
		r.shows("t", process.Success, hadBegun)
	})
}

// outage is a store whose database is away, takes no writes, or hangs, while it is told to.
type outage struct {
	engine.Store
	away     atomic.Bool
	readOnly atomic.Bool
	hangs    atomic.Int64 // how long the next look at what is overdue takes
}

func (s *outage) write() error {
	if s.away.Load() || s.readOnly.Load() {
		return errors.New("nothing can be written")
	}
	return nil
}

func (s *outage) Ping(ctx context.Context) error {
	if err := s.write(); err != nil {
		return err
	}
	return s.Store.Ping(ctx)
}

func (s *outage) Finish(ctx context.Context, given []store.ReportedOutcome) ([]string, error) {
	if err := s.write(); err != nil {
		return nil, err
	}
	return s.Store.Finish(ctx, given)
}

func (s *outage) Conclude(ctx context.Context, ended []store.DecidedOutcome) ([]string, error) {
	if err := s.write(); err != nil {
		return nil, err
	}
	return s.Store.Conclude(ctx, ended)
}

func (s *outage) Overdue(ctx context.Context, now time.Time, limit int) ([]store.Item, error) {
	if s.away.Load() {
		return nil, errors.New("nobody answers")
	}
	time.Sleep(time.Duration(s.hangs.Swap(0))) // the bubble's time
	return s.Store.Overdue(ctx, now, limit)
}

func (s *outage) NextDeadline(ctx context.Context) (time.Time, bool, error) {
	if s.away.Load() {
		return time.Time{}, false, errors.New("nobody answers")
	}
	return s.Store.NextDeadline(ctx)
}

// TestDatabaseThatWasAway: outcomes that could not be stored while the database was away are at the agents, which get
// the time to come back with them, whether or not a deadline lay in the outage.
func TestDatabaseThatWasAway(t *testing.T) {
	const deadline = 45 * time.Second // of an operation that has begun with a limit of 30 s
	tests := []struct {
		name    string
		from    time.Duration
		lasts   time.Duration
		hanging bool
		reads   bool // go on
	}{
		{"over the deadline", 20 * time.Second, 40 * time.Second, false, false},
		{"until just before it", deadline - 11*time.Second, 10 * time.Second, false, false},
		{"hanging", deadline - 5*time.Second, 40 * time.Second, true, false},
		{"writes only, over the deadline", 20 * time.Second, 40 * time.Second, false, true},
		{"writes only, for much longer than outcomes are waited for", 20 * time.Second, 82 * time.Second, false, true},
		{"writes only, until the deadline", deadline - 11*time.Second, 11 * time.Second, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.stop()
				db := &outage{}
				r.wrap = func(s engine.Store) engine.Store { db.Store = s; return db }
				r.start()
				r.pass(time.Minute)
				r.submit("t", process.Start, "agent-0", "agent-1")
				items := map[string]string{}
				for _, m := range r.taken() {
					items[m.Agent] = m.Orders[0].Item
					r.progress(m.Agent, wire.Progress{Item: m.Orders[0].Item, Limit: 30})
				}
				r.pass(tt.from - time.Millisecond)
				switch {
				case tt.hanging:
					db.hangs.Store(int64(tt.lasts))
				case tt.reads:
					db.readOnly.Store(true)
				default:
					db.away.Store(true)
				}
				r.pass(tt.lasts)
				db.away.Store(false)
				db.readOnly.Store(false)
				r.pass(11 * time.Second) // an agent whose report was on the way gives it up and tries again
				r.shows("t", "", "")
				r.finish("agent-0", items["agent-0"])
				r.pass(15 * time.Second)
				r.shows("t", process.Success, hadBegun)
			})
		})
	}
}

// TestReceiptAsTheServerStops: a receipt that comes in the last moment is written down.
func TestReceiptAsTheServerStops(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(func(ctx context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
			<-ctx.Done()
			return accept(ctx, agent, m)
		})
		r.submit("t", process.Start, "agent-0")
		r.taken()
		r.stop()
		r.answer(accept)
		r.start()
		r.pass(time.Minute)
		if n := len(r.taken()); n != 0 {
			t.Errorf("%d manifests were sent after the receipt", n)
		}
	})
}

// TestServerDiedAfterTheLease: what was leased and never sent is sent by the next server, which waits for no lease of
// an earlier one.
func TestServerDiedAfterTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(silence)
		r.submit("t", process.Start, "agent-0")
		first := r.takenOne()
		r.stop()
		r.answer(accept)
		r.start()
		if o := r.takenOne(); o.Item != first.Item {
			t.Errorf("sent as %s, before as %s", o.Item, first.Item)
		}
	})
}

// TestWhoeverSaysThatNobodyIsThere: it may be somebody on the way who has the order, and hands it over before it has to
// be asked about. So it is given up after that only.
func TestWhoeverSaysThatNobodyIsThere(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Hour)
		r.report("agent-0", wire.Report{})
		r.directory.RecordLinkLost("agent-0", time.Now())
		r.pass(31 * time.Second)
		r.answer(denied) // and a ping is answered
		r.submit("t", process.Start, "agent-0")
		sent := r.taken()
		if len(sent) != 1 {
			t.Fatalf("%d manifests were sent", len(sent))
		}
		r.leave()
		r.pass(time.Until(sent[0].Unasked))
		r.shows("t", "")
		r.pass(1500 * time.Millisecond)
		r.shows("t", unavailable)
		if again := r.taken(); len(again) > 0 {
			t.Errorf("it was sent again: %+v", again)
		}
	})
}
