package report

import (
	"strings"
	"testing"
	"time"
)

// TestSessionsAreOrdered: each is greater than those of earlier runs and builds, whatever the clock says.
func TestSessionsAreOrdered(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	last := strings.Repeat("Z", 26) // as long ago
	for name, at := range map[string]time.Time{
		"later": now.Add(time.Microsecond), "at once": now,
		"earlier": now.Add(-time.Hour), "long ago": time.Unix(-1, 0), "much later": now.AddDate(900, 0, 0),
	} {
		first := newSession("", now)
		next := newSession(first, at)
		if next <= first || first <= last {
			t.Errorf("%s: %q follows %q", name, next, first)
		}
		if newSession(first, at) == next {
			t.Errorf("%s: two have session %q", name, next)
		}
	}
	if a, b := newSession("", now), newSession("", now.Add(time.Microsecond)); b <= a {
		t.Errorf("%q follows %q", b, a)
	}
	for _, odd := range []string{"", "s", last, "s000000000000000g" + last, "sffffffffffffffff", "S0006406e5fc00000" +
		last} {
		if s := newSession(odd, now); s[:timeEnd] != newSession("", now)[:timeEnd] {
			t.Errorf("after %q comes %q", odd, s)
		}
	}
}
