package fleet_test

import (
	"testing"
	"time"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// TestCompare: an agent without a subscription is away at once. It is back with its subscription or with a report, and
// a report that was on its way when the link ended does not bring it back for long.
func TestCompare(t *testing.T) {
	const s = time.Second
	d := load(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}, {Key: "B", IP: "10.0.0.2"}}})
	listening, asked := map[string]bool{"A": true, "B": true}, 0
	compare := func(all bool, now time.Duration, want int) {
		t.Helper()
		if found := d.Compare(all, at(now), func(a store.Agent) bool {
			asked++
			return listening[a.Key]
		}); found != want {
			t.Errorf("after %v: found %d, want %d", now, found, want)
		}
	}
	away := func(now time.Duration, want bool, since time.Duration) {
		t.Helper()
		p := d.Presence("A", at(now))
		if p.Away != want || !p.Since.Equal(at(since)) {
			t.Errorf("after %v: away %t since %v, want %t since %v", now, p.Away, p.Since.Sub(start), want, since)
		}
	}
	compare(true, 0, 0)
	if asked > 0 {
		t.Error("it asks about agents that have not reported")
	}
	away(0, true, 0) // a subscription proves nothing
	d.RecordMessage("A", at(s))
	d.RecordMessage("B", at(s))
	compare(true, 2*s, 0)
	away(2*s, false, s)

	delete(listening, "A")
	compare(false, 3*s, 0)
	away(3*s, false, s)
	compare(true, 4*s, 1)
	away(4*s, true, 4*s)
	if d.Presence("A", at(4*s)).Vacant {
		t.Error("another agent may take its names at once")
	}
	compare(true, 5*s, 0)
	away(5*s, true, 4*s)

	d.RecordMessage("A", at(6*s)) // it was on its way
	away(6*s, false, 6*s)
	compare(false, 7*s, 1)
	away(7*s, true, 7*s)

	listening["A"] = true // the link to a proxy is back, and the agent has noticed nothing
	compare(true, 8*s, 1)
	away(8*s, false, 6*s)
	delete(listening, "A")
	compare(true, 9*s, 1)
	d.RecordMessage("A", at(10*s)) // it is back
	listening["A"] = true
	asked = 0
	compare(false, 11*s, 0)
	compare(false, 12*s, 0)
	away(12*s, false, 10*s)
	if asked != 1 {
		t.Errorf("it asks %d times about one agent that has reported", asked)
	}
	away(24*s, true, 10*s) // it hangs
}

// TestAbsence: a disconnected agent was absent until it reports, also if its subscription is back before; a restart of
// the agent takes no longer than returnTime and is none.
func TestAbsence(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name           string
		gone, back     time.Duration // when its subscription is found gone, and back; 0 is never
		lost           time.Duration // when an order does not reach it
		reports        time.Duration
		since, absence time.Duration
	}{
		{"silence", 0, 0, 0, 10 * s, s, 0},
		{"long silence", 0, 0, 0, 20 * s, s, 19 * s},
		{"a restart", 2 * s, 0, 0, 5 * s, 2 * s, 0},
		{"gone", 2 * s, 0, 0, 6 * s, 2 * s, 4 * s},
		{"gone, and an order finds that out, too", 2 * s, 0, 5 * s, 6 * s, 2 * s, 4 * s},
		{"gone, and the subscription is back first", 2 * s, 5 * s, 0, 6 * s, 2 * s, 4 * s},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := load(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
			d.InTurn("A", "one", 1)
			d.RecordMessage("A", at(s))
			if tt.gone > 0 {
				d.Compare(true, at(tt.gone), func(store.Agent) bool { return false })
			}
			if tt.back > 0 {
				d.Compare(true, at(tt.back), func(store.Agent) bool { return true })
			}
			if tt.lost > 0 {
				d.RecordLinkLost("A", at(tt.lost))
			}
			a, _ := d.Absence("A", "two", at(tt.reports))
			if !a.Since.Equal(at(tt.since)) || a.Until.Sub(a.Since) != tt.absence {
				t.Errorf("absent since %v for %v, want %v for %v", a.Since.Sub(start), a.Until.Sub(a.Since), tt.since,
					tt.absence)
			}
			d.RecordMessage("A", at(tt.reports))
			if a, gap := d.Absence("A", "", at(tt.reports+s)); gap && a.Until.After(a.Since) {
				t.Errorf("it is absent after its report: %+v", a)
			}
		})
	}
}

// TestCompareOvertaken: a report that arrives while the server looks counts, and the next look decides.
func TestCompareOvertaken(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
	d.RecordMessage("A", at(time.Second))
	gone := func(store.Agent) bool { return false }
	found := d.Compare(true, at(2*time.Second), func(store.Agent) bool {
		d.RecordMessage("A", at(3*time.Second))
		return false
	})
	if p := d.Presence("A", at(3*time.Second)); found != 0 || p.Away {
		t.Errorf("found %d, away %t", found, p.Away)
	}
	if found := d.Compare(false, at(4*time.Second), gone); found != 1 || !d.Presence("A", at(4*time.Second)).Away {
		t.Errorf("found %d, away %t", found, d.Presence("A", at(4*time.Second)).Away)
	}
}

// TestCompareIsNotShared: each server looks at its own broker, so one that is cut off from the others does not make
// their agents seem away to them. A report to another server makes a server look again.
func TestCompareIsNotShared(t *testing.T) {
	a, b, _ := pair(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
	gone := func(store.Agent) bool { return false }
	a.RecordMessage("A", at(time.Second))
	b.Hear(a.News(10))
	if a.Compare(true, at(2*time.Second), gone) != 1 {
		t.Fatal("the loss of the link is not noticed")
	}
	b.Hear(a.Links("", 10))
	if len(a.News(10)) != 0 || b.Presence("A", at(3*time.Second)).Away {
		t.Error("the loss is told to another server")
	}
	b.RecordMessage("A", at(4*time.Second))
	a.Hear(b.News(10))
	if a.Presence("A", at(5*time.Second)).Away {
		t.Error("a report to another server counts for nothing")
	}
	if a.Compare(false, at(6*time.Second), gone) != 1 || !a.Presence("A", at(6*time.Second)).Away {
		t.Error("the server does not look again")
	}
	a.Shift(time.Hour)
	if since := a.Presence("A", at(time.Hour+6*time.Second)).Since; !since.Equal(at(time.Hour + 6*time.Second)) {
		t.Errorf("after a step of the clock by an hour it is away since %v", since.Sub(start))
	}
}

// TestBeat: an agent reports rarely once it has been connected for a while, as long as the server learns of the end of
// its connection. Its silence then means nothing for two minutes.
func TestBeat(t *testing.T) {
	const s, m = time.Second, time.Minute
	d := load(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
	linked := true
	compare := func(now time.Duration) { d.Compare(true, at(now), func(store.Agent) bool { return linked }) }
	beat := func(now, want time.Duration) {
		t.Helper()
		d.RecordMessage("A", at(now))
		if got := d.Beat("A", at(now)); got != want || d.Rare("A") != (want > 0) {
			t.Errorf("after %v: %v, want %v", now, got, want)
		}
	}
	away := func(now time.Duration, away, vacant bool) {
		t.Helper()
		if p := d.Presence("A", at(now)); p.Away != away || p.Vacant != vacant {
			t.Errorf("after %v: away %t and vacant %t, want %t and %t", now, p.Away, p.Vacant, away, vacant)
		}
	}
	d.Introduced("A", fleet.Facts{Place: "a"}, at(0))
	beat(3*m, 0) // external brokers tell nothing
	compare(3 * m)
	beat(3*m+s, m)
	away(4*m+s, false, false)
	away(5*m+11*s, false, false)
	away(5*m+12*s, true, false)
	away(5*m+29*s, true, true)
	if a, gap := d.Absence("A", "", at(4*m)); gap {
		t.Errorf("silence between two heartbeats is an absence: %+v", a)
	}

	linked = false
	compare(4 * m)
	away(4*m, true, false)
	away(4*m+31*s, true, true)
	if a, gap := d.Absence("A", "", at(4*m+14*s)); !gap || !a.Since.Equal(at(4*m)) || !a.Until.Equal(at(4*m+14*s)) {
		t.Errorf("the absence is %+v, %t", a, gap)
	}
	linked = true
	compare(5 * m)
	d.RecordMessage("A", at(5*m))
	d.Introduced("A", fleet.Facts{Place: "a"}, at(5*m))
	beat(5*m+s, 0) // the link is new
	away(5*m+15*s, true, false)
	beat(7*m, m)
	c, _, _ := d.Claim("A", fleet.Claimant{Place: "b", Session: "s", Introduces: true}, at(7*m+50*s))
	if c != fleet.Unsettled {
		t.Errorf("a second host gets %v, because the first one reports rarely", c)
	}
	beat(7*m+51*s, 0) // it has to prove its presence
	if d.Beat("B", at(8*m)) != 0 {
		t.Error("an unknown agent may report rarely")
	}
}

// TestBeatIsHeardElsewhere: the other servers know which agents report rarely, and which keys they trust.
func TestBeatIsHeardElsewhere(t *testing.T) {
	a, b, _ := pair(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
	a.Introduced("A", fleet.Facts{}, at(0))
	a.Compare(true, at(0), nil)
	a.RecordMessage("A", at(3*time.Minute))
	a.Beat("A", at(3*time.Minute))
	a.Trusts("A", "digest")
	b.Hear(a.News(10))
	if p := b.Presence("A", at(4*time.Minute)); p.Away || !b.Rare("A") || p.Trust != "digest" {
		t.Errorf("another server believes %+v", p)
	}
}

// TestAwaySince: an agent is away since the first moment that shows it, whatever else shows it afterwards, until its
// next message.
func TestAwaySince(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name string
		// seen, gone, back and lost are the times of messages, of comparisons, and of an order that does not arrive.
		do    func(seen, gone, back, lost func(after time.Duration))
		since time.Duration
	}{
		{"a second comparison after an order", func(seen, gone, _, lost func(time.Duration)) {
			seen(s)
			gone(2 * s)
			lost(5 * s)
			gone(60 * s)
		}, 2 * s},
		{"it hangs, and its link ends later", func(seen, gone, _, lost func(time.Duration)) {
			seen(s)
			lost(5 * s)
			gone(60 * s)
		}, 5 * s},
		{"it hangs, and its link ends, returns and ends", func(seen, gone, back, lost func(time.Duration)) {
			seen(s)
			lost(5 * s)
			gone(20 * s)
			back(30 * s)
			gone(60 * s)
		}, 5 * s},
		{"it is silent for long, and its link ends later", func(seen, gone, _, _ func(time.Duration)) {
			seen(s)
			gone(60 * s)
		}, s},
		{"it is silent for long, and an order finds that out", func(seen, gone, _, lost func(time.Duration)) {
			seen(s)
			lost(20 * s)
			gone(60 * s)
		}, s},
		{"it was heard since", func(seen, gone, _, lost func(time.Duration)) {
			seen(s)
			gone(2 * s)
			lost(5 * s)
			seen(50 * s)
			gone(51 * s)
			lost(55 * s)
			gone(60 * s)
		}, 51 * s},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b, _ := pair(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
			compare := func(listens bool) func(time.Duration) {
				return func(after time.Duration) {
					a.Compare(true, at(after), func(store.Agent) bool { return listens })
				}
			}
			tell := func() { b.Hear(a.News(10)) }
			a.InTurn("A", "one", 1)
			tt.do(func(after time.Duration) { a.RecordMessage("A", at(after)); tell() }, compare(false), compare(true),
				func(after time.Duration) {
					b.RecordLinkLost("A", at(after+s)) // another server finds it out later
					a.RecordLinkLost("A", at(after))
					tell()
					a.Hear(b.News(10))
				})
			if p := a.Presence("A", at(65*s)); !p.Away || !p.Since.Equal(at(tt.since)) {
				t.Errorf("away %t since %v, want %v", p.Away, p.Since.Sub(start), tt.since)
			}
			if c, ok := a.Absence("A", "one", at(65*s)); !ok || !c.Since.Equal(at(tt.since)) || !c.Until.Equal(at(65*s)) {
				t.Errorf("absent from %v to %v, want from %v", c.Since.Sub(start), c.Until.Sub(start), tt.since)
			}
			if p := b.Presence("A", at(65*s)); !p.Away || p.Since.After(at(tt.since)) {
				t.Errorf("another server shows it away %t since %v, want %v", p.Away, p.Since.Sub(start), tt.since)
			}
			a.RecordMessage("A", at(70*s))
			if p := a.Presence("A", at(70*s)); p.Away || !p.Since.Equal(at(70*s)) {
				t.Errorf("after its return: away %t since %v", p.Away, p.Since.Sub(start))
			}
		})
	}
}
