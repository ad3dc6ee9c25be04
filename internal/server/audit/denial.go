package audit

import (
	"context"
	"fmt"
	"time"

	"drover/internal/server/store"
)

const (
	// denialTime is how long equal denials are counted before one row reports them.
	denialTime = time.Minute
	// A denial of a stranger is written at once if no equal one was written within denialTime: denialBurst of them, and
	// then one each denialPause. The others are counted by address. Beyond mostDenials addresses and kinds they are
	// counted all together. So strangers write fewer than 100 rows a minute in the long run, whatever they send and
	// from wherever.
	denialBurst = 200
	denialPause = 10 * time.Second
	mostDenials = 60
)

// denial is the key of equal denials. The key of an authenticated app has no address. The key of a stranger has no app,
// because a stranger can claim any app.
type denial struct {
	remote, app, action, message string
	code                         int
}

// repeated counts equal denials after the written one.
type repeated struct {
	since time.Time
	times int
	last  store.AuditRow
}

// denials counts repeated denials.
type denials struct {
	seen map[denial]*repeated
	// strangers is how many of these belong to strangers.
	strangers int
	// spent is the time up to which the rows that may be written at once are used.
	spent time.Time
}

// count reports whether to write a denial at once. Otherwise it counts the denial.
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

// allowed takes one of the rows that may be written at once; it returns false if none is left.
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

// due removes and returns the rows of denials that were counted for denialTime, or of all.
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
		} else { // the row for many kinds together
			row.App, row.User, row.Target, row.Remote = "", "", "", key.remote
			row.Message = fmt.Sprintf("%d refusals of several kinds since %s", r.times, since)
		}
		rows = append(rows, row)
	}
	return rows
}

// PutDenial stores the row of a rejected call. The row is on disk when PutDenial returns, unless an equal one was
// written within the last minute, or strangers are rejected too often. Such denials are counted, and one row reports
// them after the minute. proven is the authenticated app; empty for a stranger.
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
