package fleet_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// told is a store of events in memory.
type told struct{ events []store.StoredEvent }

func (s *told) PutEvents(_ context.Context, agent string, _ time.Time, events []store.NewEvent) (int, error) {
	for i := range events {
		s.events = append(s.events, store.StoredEvent{
			Cursor: int64(len(s.events) + 1), Agent: agent, Event: events[i].Event,
		})
	}
	return len(events), nil
}

func (s *told) EventsBefore(_ context.Context, _ store.EventMark, _ store.EventFilter, _ int,
) ([]store.StoredEvent, store.EventMark, error) {
	list := slices.Clone(s.events)
	slices.Reverse(list)
	return list, store.EventMark{}, nil
}

// TestAbsencesAreTold: a host that is away for a minute is told once, whatever server looks; its return is told after a
// minute. A link that comes and goes tells nothing.
func TestAbsencesAreTold(t *testing.T) {
	reg, events := &register{agents: []store.Agent{{Key: "k", IP: "10.0.0.1"}}}, &told{}
	d := fleet.New(reg, start)
	if err := d.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, woken := at(0), 0
	tellers := func() *fleet.Teller {
		return fleet.NewTeller(fleet.TellerConfig{
			Store: events, Directory: d, Happened: func() { woken++ }, Now: func() time.Time { return now },
			Wall: func() time.Time { return now.Add(time.Hour) }, Log: slog.New(slog.DiscardHandler),
		})
	}
	teller := tellers()
	look := func(after time.Duration, want ...string) {
		t.Helper()
		now = at(after)
		if err := teller.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range events.events {
			e := &events.events[i].Event
			if e.Process != (process.ID{}) || events.events[i].Agent != "k" {
				t.Errorf("the event is %+v", e)
			}
			got = append(got, string(e.Kind)+" "+e.Cause.Text[strings.LastIndex(e.Cause.Text, " ")+1:])
		}
		if !slices.Equal(got, want) || woken != len(want) {
			t.Errorf("after %s: told %q (woken %d), want %q", after, got, woken, want)
		}
	}
	look(10 * time.Second)
	const away, back = "host-away 2026-11-20T13:01:00Z", "host-back 2026-11-20T13:05:00Z"
	d.RecordMessage("k", at(time.Minute))
	d.RecordLinkLost("k", at(time.Minute))
	look(2*time.Minute - time.Second)
	look(2*time.Minute, away)
	look(4*time.Minute, away)
	teller = tellers() // another server
	look(4*time.Minute, away)
	for i := range 10 { // it flaps
		d.RecordMessage("k", at(4*time.Minute+time.Duration(2*i)*time.Second))
		look(4*time.Minute+time.Duration(2*i)*time.Second, away)
		d.RecordLinkLost("k", at(4*time.Minute+time.Duration(2*i+1)*time.Second))
		look(4*time.Minute+time.Duration(2*i+1)*time.Second, away)
	}
	for s := 0; s < 60; s += 10 {
		d.RecordMessage("k", at(5*time.Minute+time.Duration(s)*time.Second))
		look(5*time.Minute+time.Duration(s)*time.Second, away)
	}
	d.RecordMessage("k", at(6*time.Minute))
	look(6*time.Minute, away, back)
	d.RecordLinkLost("k", at(6*time.Minute+time.Second))
	look(6*time.Minute+2*time.Second, away, back)
	d.RecordMessage("k", at(6*time.Minute+3*time.Second))
	look(6*time.Minute+4*time.Second, away, back)
}

// TestARemovedHostIsNotAway: a host that was removed while it was away, and joins again, is told anew. So is the return
// of a host that has got the events of the one that it replaces.
func TestARemovedHostIsNotAway(t *testing.T) {
	reg, events := &register{agents: []store.Agent{{Key: "k", IP: "10.0.0.1"}}}, &told{}
	d := fleet.New(reg, start)
	now := at(0)
	teller := fleet.NewTeller(fleet.TellerConfig{
		Store: events, Directory: d, Happened: func() {}, Now: func() time.Time { return now },
		Wall: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
	look := func(after time.Duration, want string) {
		t.Helper()
		now = at(after)
		if err := errors.Join(d.Load(t.Context()), teller.Look(t.Context())); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range events.events {
			got += e.Agent + " " + string(e.Event.Kind) + ", "
		}
		if got != want {
			t.Errorf("after %s: %q, want %q", after, got, want)
		}
	}
	look(0, "")
	d.RecordMessage("k", at(time.Second))
	d.RecordLinkLost("k", at(time.Second))
	look(2*time.Minute, "k host-away, ")
	events.events = append(events.events, store.StoredEvent{Agent: "k", Event: process.Event{Kind: process.EventHostRemoved}})
	reg.agents = nil
	look(3*time.Minute, "k host-away, k host-removed, ")
	reg.agents = []store.Agent{{Key: "k", IP: "10.0.0.1"}}
	look(4*time.Minute, "k host-away, k host-removed, ")
	look(6*time.Minute, "k host-away, k host-removed, k host-away, ")
	for i := range events.events {
		events.events[i].Agent = "new"
	}
	reg.agents = []store.Agent{{Key: "new", IP: "10.0.0.1"}}
	look(7*time.Minute, "new host-away, new host-removed, new host-away, ")
	d.RecordMessage("new", at(8*time.Minute))
	look(8*time.Minute, "new host-away, new host-removed, new host-away, ")
	d.RecordMessage("new", at(9*time.Minute))
	look(9*time.Minute, "new host-away, new host-removed, new host-away, new host-back, ")
}

// TestAHostThatJoinsIsNotAway: the absence of a host that has not spoken yet counts from its join, not from the start
// of the server.
func TestAHostThatJoinsIsNotAway(t *testing.T) {
	reg, events := &register{}, &told{}
	d := fleet.New(reg, start)
	now := at(time.Hour)
	teller := fleet.NewTeller(fleet.TellerConfig{
		Store: events, Directory: d, Happened: func() {}, Now: func() time.Time { return now },
		Wall: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
	look := func(after time.Duration, want int) {
		t.Helper()
		now = at(time.Hour + after)
		if err := teller.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(events.events) != want {
			t.Errorf("after %s %d events were told, want %d", after, len(events.events), want)
		}
	}
	look(0, 0)
	for _, joined := range []time.Duration{time.Second, 10 * time.Minute} {
		before := len(events.events)
		reg.agents = []store.Agent{{Key: "k", IP: "10.0.0.1"}}
		if err := d.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		look(joined, before)
		look(joined+time.Minute-time.Second, before)
		reg.agents = nil // somebody removes the host
		if err := d.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		look(joined+time.Minute, before)
	}
	reg.agents = []store.Agent{{Key: "k", IP: "10.0.0.1"}}
	if err := d.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	look(time.Hour, 0)
	look(time.Hour+time.Minute, 1)
}
