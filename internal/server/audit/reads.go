package audit

import (
	"fmt"
	"time"

	"drover/internal/server/store"
)

const (
	// A caller may write readBurst rows of reads at once, and then one each readPause. Its other reads are counted, and
	// one row a minute reports them: 172,800 rows a day at most, however often it reads.
	readBurst = 1200
	readPause = 500 * time.Millisecond
	// mostReaders is how many callers are counted apart.
	mostReaders = 10_000
)

// reader is who reads.
type reader struct{ app, user string }

// budget is what a caller may still write. Its zero value is full.
type budget struct {
	// spent is the time up to which the rows are used.
	spent time.Time
	repeated
}

// reads bounds the rows of reads.
type reads struct{ of map[reader]*budget }

// count reports whether to write the row of a read. Otherwise it counts the read.
func (r *reads) count(now time.Time, row store.AuditRow) (writes bool) {
	key := reader{row.App, row.User}
	if r.of == nil {
		r.of = map[reader]*budget{}
	}
	b := r.of[key]
	if b == nil && len(r.of) >= mostReaders {
		key = reader{}
		b = r.of[key]
	}
	if b == nil {
		b = &budget{}
		r.of[key] = b
	}
	if full := now.Add(-readBurst * readPause); b.spent.Before(full) {
		b.spent = full
	}
	if next := b.spent.Add(readPause); !next.After(now) {
		b.spent = next
		return true
	}
	if b.times == 0 {
		b.since = now
	}
	b.times, b.last = b.times+1, row
	return false
}

// due removes and returns the rows of reads that were counted for denialTime, or of all.
func (r *reads) due(now time.Time, all bool) (rows []store.AuditRow) {
	for key, b := range r.of {
		switch {
		case b.times > 0 && (all || now.Sub(b.since) >= denialTime):
			row := b.last
			row.Message = fmt.Sprintf("the last of %d more reads since %s", b.times, b.since.UTC().Format(time.RFC3339))
			rows = append(rows, row)
			b.times = 0
		case b.times == 0 && now.Sub(b.spent) >= readBurst*readPause:
			delete(r.of, key)
		}
	}
	return rows
}
