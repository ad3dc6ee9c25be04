package term

import (
	"testing"
	"time"
)

// TestTimesIn: times in sentences are in the zone of the reader, with an offset that no two zones share.
func TestTimesIn(t *testing.T) {
	t.Parallel()
	const english = "pid 7 exited at 2026-11-23T18:04:05Z; the next start is at 2026-11-23T18:04:06.5Z, not at 2026-99-23T18:04:05Z"
	for _, c := range []struct {
		zone *time.Location
		want string
	}{
		{
			time.FixedZone("CST", 8*3600),
			"pid 7 exited at 2026-11-24 02:04:05 +08:00; the next start is at 2026-11-24 02:04:06 +08:00, " +
				"not at 2026-99-23T18:04:05Z",
		},
		{
			time.UTC,
			"pid 7 exited at 2026-11-23 18:04:05 UTC; the next start is at 2026-11-23 18:04:06 UTC, " +
				"not at 2026-99-23T18:04:05Z",
		},
	} {
		if got := timesIn(english, c.zone); got != c.want {
			t.Errorf("%s: %q, want %q", c.zone, got, c.want)
		}
	}
}
