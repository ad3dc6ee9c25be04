package orders

import (
	"errors"
	"strings"
	"testing"
	"time"

	"drover/internal/wire"
)

// TestLifeIsTheServersOwn: however far the clocks of server and agent are apart, an order has the life that the server
// gave.
func TestLifeIsTheServersOwn(t *testing.T) {
	issued := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ given, want time.Duration }{
		{10 * time.Minute, 10 * time.Minute},
		{-time.Second, -time.Second},
		{24 * time.Hour, longestLife}, // the server's clock was set back between the task and its manifest
	} {
		if got := lifeOf(&wire.Manifest{Issued: issued, Expires: issued.Add(c.given)}); got != c.want {
			t.Errorf("given %v: life %v, want %v", c.given, got, c.want)
		}
	}
}

// TestI8_NoOldManifestTwice: what may have been forgotten is not taken again; clocks that are wrong by an hour, or
// stepped by a day, stop nothing.
func TestI8_NoOldManifestTwice(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, c := range []struct {
		name           string
		newest, issued time.Duration // against the agent's clock
		refused        bool
	}{
		{"clocks agree", 0, 0, false},
		{"the server is an hour behind", -time.Hour, -time.Hour, false},
		{"the server is an hour ahead", time.Hour, time.Hour, false},
		{"the server stepped back by a day", 0, -day, false},
		{"the server stepped ahead by a day", 0, day, false},
		{"the agent stepped back by a day", day, day, false},
		{"the agent stepped ahead by a day", -day, -day, false},
		{"the server was a year ahead and is right again", 365 * day, 0, false},
		{"a copy of two days ago", 0, -2 * day, true},
		{"a copy of a month ago, with a server a day ahead", day, -30 * day, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &freshness{note: func(time.Time) error { return nil }}
			if err := f.admit(now.Add(c.newest), now.Add(c.newest)); err != nil {
				t.Fatal(err)
			}
			if err := f.admit(now.Add(c.issued), now); (err != nil) != c.refused {
				t.Errorf("refused: %v, want refused %v", err, c.refused)
			} else if err != nil && !strings.Contains(err.Error(), "clock") {
				t.Errorf("%q does not tell what to do", err)
			}
		})
	}
}

// TestNewestIsNoted: not at every manifest, but never more than noteEvery behind; a manifest whose time cannot be noted
// is refused.
func TestNewestIsNoted(t *testing.T) {
	var noted []time.Time
	full := errors.New("no space left on device")
	var disk error
	f := &freshness{note: func(at time.Time) error {
		noted = append(noted, at)
		return disk
	}}
	begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i := range 60 {
		if err := f.admit(begin.Add(time.Duration(i)*time.Minute), begin); err != nil {
			t.Fatal(err)
		}
	}
	if len(noted) != 6 {
		t.Errorf("noted %d times in an hour, want 6", len(noted))
	}
	disk = full
	if err := f.admit(begin.Add(2*time.Hour), begin); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
}
