package audit

import (
	"context"
	"fmt"
	"time"

	"drover/internal/server/store"
)

const (
	// denialTime is how long equal denials are counted before one row tells of them.
	denialTime = time.Minute
	// Denials of strangers, of which no equal one was written within denialTime, are written at once: denialBurst of
	// them, and one more each denialPause. The others are counted by address, and beyond mostDenials addresses and
	// kinds all together. So strangers write less than 100 rows a minute in the long run, whatever they send from
	// wherever.
	denialBurst = 200
	denialPause = 10 * time.Second
	mostDenials = 60
)

// denial is what equal denials have in common. Those of an app that has proven who it is have no address; a stranger
// has no app, as he can claim any.
type denial struct {
	remote, app, action, message string
	code                         int
}

// repeated are equal denials after the one that was written.
type repeated struct {
	since time.Time
	times int
	last  store.AuditRow
}

// denials counts what is refused again and again.
type denials struct {
	seen map[denial]*repeated
	// strangers is how many of these are of strangers.
	strangers int
	// spent is the time up to which the rows are used that may be written at once.
	spent time.Time
}

// count reports whether a denial is to be written at once. Otherwise it is counted.
func (d *denials) count(now time.Time, key denial, row store.AuditRow) (first bool) {
	if d.seen == nil {
		d.seen = map[denial]*repeated{}
	}
	if d.seen[key] == nil && d.allowed(now, key) {
		d.enter(now, key)
		return true
	}
	if d.seen[key] == nil {
		key = denial{remote: key.remote}
	}
	if d.seen[key] == nil && d.strangers >= mostDenials {
		key = denial{}
	}
	if d.seen[key] == nil {
		d.enter(now, key)
	}
	r := d.seen[key]
	r.times, r.last = r.times+1, row
	return false
}

func (d *denials) enter(now time.Time, key denial) {
	d.seen[key] = &repeated{since: now}
	if key.app == "" {
		d.strangers++
	}
}

// allowed takes one of the rows that may be written at once.
func (d *denials) allowed(now time.Time, key denial) bool {
	if key.app != "" {
		return true
	}
	if unused := now.Add(-denialBurst * denialPause); d.spent.Before(unused) {
		d.spent = unused
	}
	if d.strangers >= mostDenials || d.spent.Add(denialPause).After(now) {
		return false
	}
	d.spent = d.spent.Add(denialPause)
	return true
}

// due takes the rows of those that were counted for long enough, or of all.
func (d *denials) due(now time.Time, all bool) (rows []store.AuditRow) {
	for key, r := range d.seen {
		if !all && now.Sub(r.since) < denialTime {
			continue
		}
		delete(d.seen, key)
		if key.app == "" {
			d.strangers--
		}
		if r.times == 0 {
			continue
		}
		row, since := r.last, r.since.UTC().Format(time.RFC3339)
		if key.action != "" {
			row.Message = fmt.Sprintf("%s (the last of %d more since %s)", row.Message, r.times, since)
		} else { // of many kinds
			row.App, row.User, row.Target, row.Remote = "", "", "", key.remote
			row.Message = fmt.Sprintf("%d refusals of several kinds since %s", r.times, since)
		}
		rows = append(rows, row)
	}
	return rows
}

// PutDenial stores the row of a call that was refused. It is on disk when PutDenial returns, unless an equal one was
// written within the last minute, or strangers are refused too often: those are counted, and one row tells of them
// after the minute. proven is the app that the caller has proven to be, empty for a stranger.
func (r *Recorder) PutDenial(ctx context.Context, proven string, row store.AuditRow) error {
	key := denial{app: proven, action: row.Action, code: row.Code}
	if proven == "" {
		key.remote, key.message = row.Remote, row.Message
	}
	r.mu.Lock()
	first := !r.running || r.denials.count(time.Now(), key, row)
	r.mu.Unlock()
	if !first {
		return nil
	}
	return r.store.PutAudit(ctx, row)
}
