//nolint:thelper // what runs in a bubble is the test itself
package engine_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/process"
	"drover/internal/server/bus"
	"drover/internal/server/store"
	"drover/internal/wire"
)

func event(stream string, seq uint64) process.Event {
	return process.Event{
		Stream: stream, Seq: seq, At: time.Now().UnixMilli(), Kind: process.EventExited,
		Process: process.ID{Namespace: "ns", Name: "nginx"},
	}
}

// history is what is stored, as "agent stream seq".
func (r *rig) history() string {
	r.t.Helper()
	events, _, err := r.db.EventsAfter(r.t.Context(), 0, store.EventFilter{}, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, e := range events {
		all = append(all, fmt.Sprint(e.Agent, " ", e.Event.Stream, " ", e.Event.Seq))
	}
	return strings.Join(all, ", ")
}

// woken reports whether a listener was woken, and makes it ready to be woken again.
func woken(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestEventsAreStoredOnce, and who listens hears of those that are new.
func TestEventsAreStoredOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		heard, stop := r.bus.Listen(bus.Events)
		other, stopOther := r.bus.Listen(bus.Events)
		defer stopOther()
		first := wire.Report{Events: lines(event("s", 1), event("s", 2))}
		if ack := r.report("agent-0", first); ack.Error != "" {
			t.Fatal(ack.Error)
		}
		if !woken(heard) || !woken(other) {
			t.Error("a listener did not hear of new events")
		}
		r.report("agent-0", first)
		r.report("agent-0", wire.Report{})
		if woken(heard) {
			t.Error("a listener heard of nothing")
		}
		r.report("agent-0", wire.Report{Events: lines(event("s", 2), event("s", 3))})
		r.report("agent-1", wire.Report{Events: lines(event("s", 1))})
		if !woken(heard) || woken(heard) {
			t.Error("two reports were not heard of as one")
		}
		stop()
		r.report("agent-1", wire.Report{Events: lines(event("s", 2))})
		if woken(heard) || !woken(other) {
			t.Error("the wrong one was woken")
		}
		if got, want := r.history(), "agent-0 s 1, agent-0 s 2, agent-0 s 3, agent-1 s 1, agent-1 s 2"; got != want {
			t.Errorf("stored are %s, want %s", got, want)
		}
	})
}

// TestEventsWithoutAName are dropped: an agent that sends one is not stuck with it.
func TestEventsWithoutAName(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		events := lines(
			event("", 1), event("s", 0), event("s", math.MaxUint64), event(strings.Repeat("s", 65), 1), event("s", 1),
		)
		for _, odd := range []string{"", `"`, "{}", `{"stream":"s","seq":2,"at":"now"}`} {
			events = slices.Insert(events, 0, []byte(odd))
		}
		ack := r.report("agent-0", wire.Report{Events: events})
		if got := r.history(); ack.Error != "" || got != "agent-0 s 1" {
			t.Errorf("%q; stored are %s", ack.Error, got)
		}
	})
}

// TestOldEventsAreRemoved by the time at which they came.
func TestOldEventsAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.report("agent-0", wire.Report{Events: lines(event("s", 1))})
		r.pass(27 * 24 * time.Hour)
		r.report("agent-0", wire.Report{Events: lines(event("s", 2))})
		if got := r.history(); got != "agent-0 s 1, agent-0 s 2" {
			t.Errorf("stored are %s", got)
		}
		r.pass(26 * time.Hour)
		if got := r.history(); got != "agent-0 s 2" {
			t.Errorf("stored are %s", got)
		}
	})
}

// TestOldEventsSentAgain: once nobody knows any more that they were stored, they are not stored again.
func TestOldEventsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ahead := event("ahead", 1) // of a host whose clock is
		ahead.At += (20 * time.Hour).Milliseconds()
		recorded := wire.Report{Events: lines(event("s", 1), ahead)}
		r.report("agent-0", recorded)
		for range 40 {
			r.pass(24 * time.Hour)
			if ack := r.report("agent-0", recorded); ack.Error != "" {
				t.Fatal(ack.Error)
			}
		}
		if got := r.history(); got != "" {
			t.Errorf("stored are %s", got)
		}
		r.report("agent-0", wire.Report{Events: append(recorded.Events[:1:1], lines(event("s", 2))...)})
		if got := r.history(); got != "agent-0 s 2" {
			t.Errorf("stored are %s", got)
		}
	})
}
