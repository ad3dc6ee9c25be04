package fleet_test

import (
	"testing"
	"time"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// contest is a key that several hosts say they have, each named by its place.
type contest struct {
	*fleet.Directory
	t   *testing.T
	now time.Time
}

func newContest(t *testing.T) *contest {
	t.Helper()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return &contest{fleet.New(nil, now), t, now}
}

// kinds of reports.
const (
	hello = iota
	heartbeat
	proof // a heartbeat that meets the challenge, if there is one
)

// says has a host report, some time after the last report, and compares what comes of it.
func (c *contest) says(after time.Duration, place string, kind int, want fleet.Claim, certain bool) fleet.Rival {
	c.t.Helper()
	c.now = c.now.Add(after)
	by := fleet.Claimant{Place: place, Session: "s" + place, Name: "host-" + place, Introduces: kind == hello}
	if r, there := c.against(place); there && kind == proof {
		by.Proof = r.Challenge()
	}
	got, r, news := c.Claim("K", by, c.now)
	if got != want || news != certain {
		c.t.Errorf("at %v %s is answered %v, news %v; want %v, %v", c.now.Format("04:05"), place, got, news, want,
			certain)
	}
	if got == fleet.Granted {
		c.Seen("K", c.now)
		if kind == hello {
			c.Introduced("K", fleet.Facts{Place: place}, c.now)
		}
	}
	return r
}

// against returns the rival of a host.
func (c *contest) against(place string) (fleet.Rival, bool) {
	_, r, _ := c.Claim("K", fleet.Claimant{Place: place}, c.now)
	return r, r.Place != ""
}

// TestACopyIsNoticed: of two hosts with one key the first one keeps it as long as it is there.
func TestACopyIsNoticed(t *testing.T) {
	const s = time.Second
	c := newContest(t)
	c.says(0, "a", hello, fleet.Granted, false)
	c.says(5*s, "a", heartbeat, fleet.Granted, false)
	c.says(s, "b", hello, fleet.Unsettled, false)
	if _, there := c.Rival("K", c.now); there {
		t.Error("a host that may have been rebooted is told of as a copy")
	}
	c.says(3*s, "b", hello, fleet.Unsettled, false)
	if r := c.says(s, "a", heartbeat, fleet.Granted, false); r.Place != "b" || r.Certain() {
		t.Errorf("the first one has to prove that it is there against %+v", r)
	}
	c.says(0, "a", proof, fleet.Granted, true)
	c.says(2*s, "b", hello, fleet.Denied, false)
	c.says(3*s, "b", hello, fleet.Denied, false)
	c.says(0, "b", heartbeat, fleet.Unsettled, false) // an introduction is asked for
	if r, there := c.Rival("K", c.now); !there || r.Name != "host-b" || c.Rivals(c.now) != 1 {
		t.Errorf("the copy is %+v, %v", r, there)
	}
	c.says(0, "a", proof, fleet.Granted, false)
	for range 3 {
		c.says(3*s, "b", hello, fleet.Denied, false)
	}
	c.says(s, "a", proof, fleet.Granted, false)
	c.says(3*s, "b", hello, fleet.Denied, false)
	c.says(3*s, "c", hello, fleet.Unsettled, false) // a third one, which began after the second
	c.says(s, "b", hello, fleet.Unsettled, false)   // and this one is not worth as much
	if r, _ := c.against("a"); r.Place != "c" {
		t.Errorf("the rival is %+v", r)
	}
	c.says(13*s, "b", heartbeat, fleet.Unsettled, false)
	c.says(0, "c", hello, fleet.Granted, false) // nobody has used the key for long
	if _, there := c.Rival("K", c.now); there || c.Rivals(c.now) != 0 {
		t.Error("the copy is told of although it has the key")
	}
	c.says(s, "a", hello, fleet.Unsettled, false)
	c.says(0, "", hello, fleet.Granted, false) // an agent that says no place
}

// TestAHostThatWasRebooted: it looks like a copy until it is clear that its earlier boot has gone.
func TestAHostThatWasRebooted(t *testing.T) {
	c := newContest(t)
	c.says(0, "boot 1", hello, fleet.Granted, false)
	for range 4 {
		c.says(3*time.Second, "boot 2", hello, fleet.Unsettled, false)
	}
	c.says(3*time.Second, "boot 2", hello, fleet.Granted, false)
	// Somebody goes on with heartbeats of before. They count for nothing, and the key goes over as soon.
	c.says(0, "boot 2", heartbeat, fleet.Granted, false)
	for range 4 {
		c.says(time.Second, "boot 2", heartbeat, fleet.Granted, false)
		c.says(2*time.Second, "boot 3", hello, fleet.Unsettled, false)
	}
	c.says(time.Second, "boot 2", heartbeat, fleet.Granted, false)
	c.says(2*time.Second, "boot 3", hello, fleet.Unsettled, false)
	c.says(2*time.Second, "boot 2", heartbeat, fleet.Granted, false)
	c.says(time.Second, "boot 3", hello, fleet.Granted, false)
	c.says(0, "boot 2", heartbeat, fleet.Unsettled, false)
	if c.Rivals(c.now) != 0 {
		t.Error("it is told of as a copy")
	}
}

// TestAProofOfBefore: what was signed against one rival does not do against the next.
func TestAProofOfBefore(t *testing.T) {
	c := newContest(t)
	c.says(0, "a", hello, fleet.Granted, false)
	c.says(time.Second, "b", hello, fleet.Unsettled, false)
	before, _ := c.against("a")
	c.says(time.Second, "c", hello, fleet.Unsettled, false)
	if _, r, news := c.Claim("K", fleet.Claimant{Place: "a", Proof: before.Challenge()}, c.now); news || r.Certain() {
		t.Errorf("it counts against %+v", r)
	}
	c.says(time.Second, "a", proof, fleet.Granted, true)
}

// TestARivalIsKnownElsewhere: a server that was told of it asks for the proof, and the one that it came to hears of
// that.
func TestARivalIsKnownElsewhere(t *testing.T) {
	const s = time.Second
	a, b, _ := pair(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
	exchange := func() {
		t.Helper()
		b.Hear(a.News(10))
		a.Hear(b.News(10))
	}
	a.Seen("A", at(10*s))
	a.Introduced("A", fleet.Facts{Place: "first"}, at(10*s))
	exchange()
	copied := fleet.Claimant{Place: "copy", Session: "s", Name: "two", Introduces: true}
	claim := func(d *fleet.Directory, now time.Duration, want fleet.Claim) {
		t.Helper()
		if c, _, _ := d.Claim("A", copied, at(now)); c != want {
			t.Errorf("after %v the copy is answered %v, want %v", now, c, want)
		}
		exchange()
	}
	holds := func(d *fleet.Directory, now time.Duration, proof string) (rival fleet.Rival, news bool) {
		t.Helper()
		c, rival, news := d.Claim("A", fleet.Claimant{Place: "first", Proof: proof}, at(now))
		if c != fleet.Granted {
			t.Errorf("after %v the first one is answered %v", now, c)
		}
		d.Seen("A", at(now))
		exchange()
		return rival, news
	}
	claim(a, 12*s, fleet.Unsettled)
	rival, _ := holds(b, 13*s, "")
	if rival.Name != "two" || !rival.Since.Equal(at(12*s)) {
		t.Fatalf("it is asked for a proof against %+v", rival)
	}
	if _, news := holds(b, 13*s, rival.Challenge()); !news {
		t.Error("that it is certain is no news")
	}
	claim(a, 15*s, fleet.Denied)
	claim(b, 18*s, fleet.Denied)
	if _, news := holds(a, 18*s, rival.Challenge()); news || a.Rivals(at(18*s)) != 1 || b.Rivals(at(18*s)) != 1 {
		t.Errorf("it is news once more, or %d and %d rivals are known", a.Rivals(at(18*s)), b.Rivals(at(18*s)))
	}
	// The first one is taken down, and the copy may have the key.
	for now := 21 * s; now <= 30*s; now += 3 * s {
		claim(a, now, fleet.Denied)
	}
	claim(b, 33*s, fleet.Granted)
	b.Seen("A", at(33*s))
	b.Introduced("A", fleet.Facts{Place: "copy"}, at(33*s))
	exchange()
	if a.Rivals(at(33*s)) != 0 {
		t.Error("it is a rival where it was not heard")
	}
	// The one that was there before comes back, and waits its turn.
	copied = fleet.Claimant{Place: "first", Session: "t", Introduces: true}
	claim(a, 34*s, fleet.Unsettled)
}

func TestRemarks(t *testing.T) {
	now := time.Now()
	d := fleet.New(nil, now)
	if !d.Remark("K", "odd") || d.Remark("K", "odd") || d.Remarked("K") != "odd" {
		t.Error("a remark is not kept, or is news twice")
	}
	d.Introduced("K", fleet.Facts{}, now)
	if d.Remarked("K") != "" {
		t.Error("it counts after an introduction")
	}
}
