package report

import (
	"math/rand/v2"
	"time"
)

// longestBeat is the longest interval between heartbeats that the agent takes from a server.
const longestBeat = time.Minute

// beats says when the next heartbeat is due.
type beats struct {
	// usual is the interval unless a server asks for a longer one, rare is that longer interval; 0 if there is none.
	usual, rare time.Duration
	// phase is the time of one rare beat.
	phase time.Time
}

// ask takes the interval that a server asks for, in seconds; 0 is the usual one. The first rare beat is due at a random
// time within the interval, so that the beats of a fleet that came back together are spread.
func (b *beats) ask(seconds int, now time.Time) {
	rare := min(time.Duration(max(seconds, 0))*time.Second, longestBeat)
	if rare <= b.usual {
		rare = 0
	}
	if rare != b.rare && rare > 0 {
		b.phase = now.Add(-rand.N(rare)) //nolint:gosec // not a secret
	}
	b.rare = rare
}

// after returns the time from a report to the next heartbeat. A rare beat does not wait for the report: otherwise the
// agents that report together once, as after an operation on all hosts, would beat together from then on.
func (b *beats) after(report time.Time) time.Duration {
	if b.rare == 0 {
		return b.usual
	}
	return b.rare - report.Sub(b.phase)%b.rare
}
