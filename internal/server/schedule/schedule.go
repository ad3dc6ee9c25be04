// Package schedule begins the runs of schedules at their times, and records what became of them. A run is stored in
// the transaction of its task or rollout, and only from the state that the runner has read. So two runners, or a
// server that died in between, never begin the run of a time twice. How the runs are resolved and submitted is the
// caller's.
package schedule

import (
	"time"

	"drover/internal/crontab"
	"drover/internal/server/store"
)

const (
	// lateness is how late a run may begin without counting as missed: a lease moves, or a server restarts, within that
	// time.
	lateness = time.Minute
	// correction is the largest step back of the clock after which no time of day runs again, and wobble the largest
	// after which nothing runs again.
	correction = 3 * time.Hour
	wobble     = lateness
)

// plan is what is to do about a schedule at a moment.
type plan struct {
	// missed are the due times that have passed: their number, the first and the last.
	missed      int
	first, last time.Time
	// due is the time of the run that is to begin now; zero if there is none.
	due time.Time
	// next is the next due time; zero if there is none.
	next time.Time
}

// corrected reports whether the clock was set back so far that due times after now are to come again: looked, up to
// which all are decided, then lies in the future. It does no I/O.
func corrected(rule crontab.Rule, looked, now time.Time) bool {
	ahead := looked.Sub(now)
	return ahead > correction || rule.Hourly() && ahead > wobble
}

// judge decides about a schedule whose due times up to looked are decided. It does no I/O.
func judge(rule crontab.Rule, looked, now time.Time) plan {
	newest, count := rule.Between(looked, now)
	p := plan{}
	switch {
	case count == 0:
	case now.Sub(newest) > lateness:
		p.missed, p.last = count, newest
	default:
		p.missed, p.due = count-1, newest
		if p.missed > 0 {
			p.last = rule.Newest(newest.Add(-1))
		}
	}
	if p.missed > 0 {
		p.first, _ = rule.Next(looked)
	}
	after := now
	if looked.After(after) {
		after = looked
	}
	p.next, _ = rule.Next(after)
	return p
}

// missedText says why due times were missed. last is the last run that the server could not begin, if there is one.
func missedText(p plan, last failure) string {
	why := "no server ran"
	if !last.due.IsZero() && !last.due.Before(p.first) && !last.due.After(p.last) {
		why = last.text
	}
	if p.missed == 1 {
		return why
	}
	return why + " from " + p.first.UTC().Format(time.RFC3339) + " to " + p.last.UTC().Format(time.RFC3339)
}

// run returns a run of a schedule.
func run(s *store.Schedule, due time.Time, state store.RunState) store.ScheduleRun {
	return store.ScheduleRun{
		Schedule: s.Name, Created: s.Created, Due: due, State: state, Count: 1, Looked: s.Looked,
	}
}
