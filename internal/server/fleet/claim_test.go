package fleet_test

import (
	"testing"
	"time"

	"drover/internal/server/fleet"
)

// TestACopyIsNoticed: of two hosts with one key the first one keeps it as long as it is there.
func TestACopyIsNoticed(t *testing.T) {
	begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := fleet.New(nil, begin)
	now := begin
	after := func(wait time.Duration) time.Time { now = now.Add(wait); return now }
	claim := func(place string, hello bool) (fleet.Claim, bool) {
		c, _, news := d.Claim("K", place, "host-"+place, hello, now)
		if c == fleet.Granted {
			d.Seen("K", now)
			if hello {
				d.Introduced("K", fleet.Facts{Place: place}, now)
			}
		}
		return c, news
	}
	want := func(step, place string, hello bool, c fleet.Claim, news bool) {
		t.Helper()
		if got, told := claim(place, hello); got != c || told != news {
			t.Errorf("%s: %v, %v, want %v, %v", step, got, told, c, news)
		}
	}
	want("the first one", "a", true, fleet.Granted, false)
	after(5 * time.Second)
	want("it goes on", "a", false, fleet.Granted, false)
	after(time.Second)
	want("a copy comes", "b", true, fleet.Unsettled, false)
	if _, there := d.Rival("K", now); there {
		t.Error("a host that may have been rebooted is told of as a copy")
	}
	after(3 * time.Second)
	want("it comes again", "b", true, fleet.Unsettled, false)
	after(time.Second)
	want("the first one is still there", "a", false, fleet.Granted, false)
	after(2 * time.Second)
	want("now it is certain", "b", true, fleet.Denied, true)
	after(3 * time.Second)
	want("and told once", "b", false, fleet.Denied, false)
	if r, there := d.Rival("K", now); !there || r.Name != "host-b" || d.Rivals(now) != 1 {
		t.Errorf("the copy is %+v, %v", r, there)
	}
	after(5 * time.Second)
	want("a third one", "c", true, fleet.Unsettled, false)
	after(13 * time.Second)
	want("a report is no introduction", "b", false, fleet.Unsettled, false)
	want("nobody has used the key for long", "b", true, fleet.Granted, false)
	if _, there := d.Rival("K", now); there || d.Rivals(now) != 0 {
		t.Error("the copy is told of although it has the key")
	}
	after(time.Second)
	want("the first one comes back", "a", true, fleet.Unsettled, false)
	want("an agent that says no place", "", true, fleet.Granted, false)
}

// TestAHostThatWasRebooted: it looks like a copy until it is clear that its earlier boot has gone.
func TestAHostThatWasRebooted(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := fleet.New(nil, now)
	d.Introduced("K", fleet.Facts{Place: "boot 1"}, now)
	d.Seen("K", now)
	for range 4 {
		now = now.Add(3 * time.Second)
		if c, _, _ := d.Claim("K", "boot 2", "", true, now); c != fleet.Unsettled {
			t.Fatalf("%v at %v", c, now)
		}
	}
	now = now.Add(3 * time.Second)
	if c, _, _ := d.Claim("K", "boot 2", "", true, now); c != fleet.Granted {
		t.Errorf("%v after 15 s", c)
	}
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
