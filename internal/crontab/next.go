package crontab

import "time"

// Next returns the first time after a moment that the rule is due, in the rule's zone. It is false for the zero Rule,
// and where there is none within nine years.
func (r Rule) Next(after time.Time) (time.Time, bool) {
	if r.calendar == nil {
		return time.Time{}, false
	}
	// Without the monotonic reading, which says nothing about other moments.
	after = after.In(r.zone).Round(0)
	if r.hourly {
		return r.nextMinute(after)
	}
	return r.nextOfDay(after)
}

// Hourly reports whether the rule names every hour, so that a clock that is changed loses and repeats nothing.
func (r Rule) Hourly() bool { return r.hourly }

// nextOfDay goes by what a clock on the wall shows.
func (r Rule) nextOfDay(after time.Time) (time.Time, bool) {
	// In the second pass through an hour the times of the first come up again, and are over: at most some dozens.
	for shown := r.calendar.Next(face(after)); !shown.IsZero(); shown = r.calendar.Next(shown) {
		if due := r.firstShowing(shown); due.After(after) {
			return due, true
		}
	}
	return time.Time{}, false
}

// nextMinute goes from one change of the clock to the next: in between minutes pass on the wall as they do everywhere.
func (r Rule) nextMinute(after time.Time) (time.Time, bool) {
	for {
		shown := r.calendar.Next(face(after))
		if shown.IsZero() {
			return time.Time{}, false
		}
		due := after.Add(shown.Sub(face(after)))
		_, change := after.ZoneBounds()
		if change.IsZero() || due.Before(change) {
			return due, true
		}
		if r.calendar.Next(face(change).Add(-1)).Equal(face(change)) {
			return change, true
		}
		after = change
	}
}

// face is what a clock on the wall shows, as a time of a calendar that has no zones.
func face(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// firstShowing returns when the clock first shows a time. For a time that the clock never shows, it returns when the
// clock passes over that time.
func (r Rule) firstShowing(shown time.Time) time.Time {
	near := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), shown.Second(), 0, r.zone)
	start, end := near.ZoneBounds()
	if face(near).Equal(shown) {
		if !start.IsZero() {
			// The same time may have been shown before the last change too.
			_, offset := start.Add(-1).Zone()
			if earlier := shown.Add(-time.Duration(offset) * time.Second).In(r.zone); face(earlier).Equal(shown) &&
				earlier.Before(near) {
				return earlier
			}
		}
		return near
	}
	// The package time has chosen one side of the gap, and does not promise which.
	if !start.IsZero() && !face(start).Before(shown) && face(start.Add(-1)).Before(shown) {
		return start
	}
	return end
}

// mostCounted is how many due times Between counts: for a rule with a run in every minute, those of two days.
const mostCounted = 3000

// Between returns how many times the rule was due after last and not after now, and when the last of them was. Beyond
// 3,000 they are not counted any more.
func (r Rule) Between(last, now time.Time) (newest time.Time, count int) {
	next, ok := r.Next(last)
	for ; ok && !next.After(now) && count < mostCounted; next, ok = r.Next(newest) {
		newest = next
		count++
	}
	if count == mostCounted {
		newest = r.Newest(now)
	}
	return newest, count
}

// Newest returns the last time that the rule was due by now.
func (r Rule) Newest(now time.Time) time.Time {
	for back := time.Hour; ; back *= 4 {
		at, ok := r.Next(now.Add(-back))
		if !ok || at.After(now) {
			continue
		}
		for next, ok := r.Next(at); ok && !next.After(now); next, ok = r.Next(at) {
			at = next
		}
		return at
	}
}
