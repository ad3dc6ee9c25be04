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
	hello     = iota
	heartbeat // sealed now
	held      // a heartbeat of before the rival, which somebody has held back
)

// says has a host report, some time after the last report, and compares what comes of it.
func (c *contest) says(after time.Duration, place string, kind int, want fleet.Claim, certain bool) fleet.Rival {
	c.t.Helper()
	c.now = c.now.Add(after)
	by := fleet.Claimant{
		Place: place, Session: "s" + place, Name: "host-" + place, Introduces: kind == hello, Sealed: c.now,
	}
	if r, there := c.against(place); there && kind == held {
		by.Sealed = r.Since.Add(time.Second) // the clocks of the servers may differ by that
	}
	got, r, news := c.Claim("K", by, c.now)
	if got != want || news != certain {
		c.t.Errorf("at %v %s is answered %v, news %v; want %v, %v", c.now.Format("04:05"), place, got, news, want,
			certain)
	}
	if got == fleet.Granted {
		c.RecordMessage("K", c.now)
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
	if r := c.says(s, "a", held, fleet.Granted, false); r.Place != "b" || r.Certain() {
		t.Errorf("a heartbeat of before the second one shows that there is %+v", r)
	}
	c.says(0, "a", heartbeat, fleet.Granted, true)
	c.says(2*s, "b", hello, fleet.Denied, false)
	c.says(3*s, "b", hello, fleet.Denied, false)
	c.says(0, "b", heartbeat, fleet.Unsettled, false) // an introduction is asked for
	if r, there := c.Rival("K", c.now); !there || r.Name != "host-b" || c.Rivals(c.now) != 1 {
		t.Errorf("the copy is %+v, %v", r, there)
	}
	c.says(0, "a", heartbeat, fleet.Granted, false)
	for range 3 {
		c.says(3*s, "b", hello, fleet.Denied, false)
	}
	c.says(s, "a", heartbeat, fleet.Granted, false)
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
	// Somebody has held back heartbeats of before, and delivers them now. They count for nothing, and the key goes over
	// as soon.
	c.says(0, "boot 2", held, fleet.Granted, false)
	for range 4 {
		c.says(time.Second, "boot 2", held, fleet.Granted, false)
		c.says(2*time.Second, "boot 3", hello, fleet.Unsettled, false)
	}
	c.says(time.Second, "boot 2", held, fleet.Granted, false)
	c.says(2*time.Second, "boot 3", hello, fleet.Unsettled, false)
	c.says(2*time.Second, "boot 2", held, fleet.Granted, false)
	c.says(time.Second, "boot 3", hello, fleet.Granted, false)
	c.says(0, "boot 2", held, fleet.Unsettled, false)
	if c.Rivals(c.now) != 0 {
		t.Error("it is told of as a copy")
	}
}

// TestARebootedHostIsAway: what a host told before a reboot is not of now. From the claim of the new boot on, the host
// is away until it has got its key; a host that goes on beside a copy is back with its next report.
func TestARebootedHostIsAway(t *testing.T) {
	c := newContest(t)
	c.says(0, "boot 1", hello, fleet.Granted, false)
	away := func(want bool) {
		t.Helper()
		if p := c.Presence("K", c.now); p.Away != want {
			t.Errorf("at %s: away %v, want %v", c.now.Format("04:05"), p.Away, want)
		}
	}
	c.says(time.Second, "boot 1", heartbeat, fleet.Granted, false)
	away(false)
	for range 4 {
		c.says(3*time.Second, "boot 2", hello, fleet.Unsettled, false)
		away(true)
	}
	c.says(3*time.Second, "boot 2", hello, fleet.Granted, false)
	away(false)
	c.says(time.Second, "copy", hello, fleet.Unsettled, false)
	away(true)
	c.says(time.Second, "boot 2", held, fleet.Granted, false) // it reports, whatever its clock
	away(false)
	c.says(time.Second, "copy", hello, fleet.Unsettled, false)
	away(false)
	c.says(2*time.Second, "boot 2", heartbeat, fleet.Granted, true)
	c.says(time.Second, "copy", hello, fleet.Denied, false)
	away(false)
}

// TestAReportOfBefore: what was sealed before a rival came says nothing about the rival, nor does what was sealed by
// a clock that is ahead.
func TestAReportOfBefore(t *testing.T) {
	c := newContest(t)
	c.says(0, "a", hello, fleet.Granted, false)
	c.says(time.Second, "b", hello, fleet.Unsettled, false)
	c.says(4*time.Second, "c", hello, fleet.Unsettled, false)
	for name, at := range map[string]time.Time{
		"after the first rival": c.now.Add(-2 * time.Second), "at an unknown time": {}, "ahead": c.now.Add(4 * time.Second),
	} {
		if _, r, news := c.Claim("K", fleet.Claimant{Place: "a", Sealed: at}, c.now.Add(time.Second)); news || r.Certain() {
			t.Errorf("what was sealed %s counts against %+v", name, r)
		}
	}
	c.says(2*time.Second, "a", heartbeat, fleet.Granted, true)
}

// TestAReportThatIsSentAgain: it shows that its host was there when it was sealed, however late and however often it
// comes.
func TestAReportThatIsSentAgain(t *testing.T) {
	c := newContest(t)
	c.says(0, "a", hello, fleet.Granted, false)
	c.says(time.Second, "b", hello, fleet.Unsettled, false)
	c.says(2*time.Second, "a", heartbeat, fleet.Granted, true)
	last := fleet.Claimant{Place: "a", Sealed: c.now.Add(time.Second)}
	for range 4 {
		c.says(3*time.Second, "b", hello, fleet.Denied, false)
		if got, _, news := c.Claim("K", last, c.now); got != fleet.Granted || news {
			t.Errorf("it is answered %v, news %v", got, news)
		}
		c.RecordMessage("K", c.now)
	}
	for range 6*60 - 2 { // a copy does not get the key while the host may be under repair
		c.says(10*time.Second, "b", hello, fleet.Denied, false)
	}
	c.says(10*time.Second, "b", hello, fleet.Granted, false)
}

// TestACopyWaitsForItsOriginal: the agent of the host is away for a while, and comes back.
func TestACopyWaitsForItsOriginal(t *testing.T) {
	c := newContest(t)
	c.says(0, "a", hello, fleet.Granted, false)
	c.says(time.Second, "b", hello, fleet.Unsettled, false)
	c.says(2*time.Second, "a", heartbeat, fleet.Granted, true)
	for range 60 {
		c.says(10*time.Second, "b", hello, fleet.Denied, false)
	}
	c.says(time.Second, "a", hello, fleet.Granted, false)
	c.says(time.Second, "b", hello, fleet.Denied, false)
}

// TestARivalIsKnownElsewhere: a server that was told of it notices that the host is there, and the one that it came to
// hears of that.
func TestARivalIsKnownElsewhere(t *testing.T) {
	const s = time.Second
	a, b, _ := pair(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
	exchange := func() {
		t.Helper()
		b.Hear(a.News(10))
		a.Hear(b.News(10))
	}
	a.RecordMessage("A", at(10*s))
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
	holds := func(d *fleet.Directory, now, sealed time.Duration) (rival fleet.Rival, news bool) {
		t.Helper()
		c, rival, news := d.Claim("A", fleet.Claimant{Place: "first", Sealed: at(sealed)}, at(now))
		if c != fleet.Granted {
			t.Errorf("after %v the first one is answered %v", now, c)
		}
		d.RecordMessage("A", at(now))
		exchange()
		return rival, news
	}
	claim(a, 12*s, fleet.Unsettled)
	if rival, news := holds(b, 14*s, 13*s); news || rival.Name != "two" || !rival.Since.Equal(at(12*s)) {
		t.Fatalf("its rival is %+v, news %v", rival, news)
	}
	if _, news := holds(b, 14*s, 14*s); !news {
		t.Error("that it is certain is no news")
	}
	claim(a, 15*s, fleet.Denied)
	claim(b, 18*s, fleet.Denied)
	if _, news := holds(a, 18*s, 18*s); news || a.Rivals(at(18*s)) != 1 || b.Rivals(at(18*s)) != 1 {
		t.Errorf("it is news once more, or %d and %d rivals are known", a.Rivals(at(18*s)), b.Rivals(at(18*s)))
	}
	// The first one is taken down, and the copy may have the key after a long time.
	end := 18*s + time.Hour
	for now := 21 * s; now <= end; now += 3 * s {
		claim(a, now, fleet.Denied)
	}
	end += 3 * s
	claim(b, end, fleet.Granted)
	b.RecordMessage("A", at(end))
	b.Introduced("A", fleet.Facts{Place: "copy"}, at(end))
	exchange()
	if a.Rivals(at(end)) != 0 {
		t.Error("it is a rival where it was not heard")
	}
	// The one that was there before comes back, and waits its turn.
	copied = fleet.Claimant{Place: "first", Session: "t", Introduces: true}
	claim(a, end+s, fleet.Unsettled)
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
