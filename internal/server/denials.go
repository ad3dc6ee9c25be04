package server

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"drover/internal/server/audit"
	"drover/internal/server/store"
)

const (
	// denialEvery is how often the same denial is put on record at most: an agent that was removed and runs on is refused every few
	// seconds.
	denialEvery = time.Hour
	// mostDenials is how many different ones are remembered; beyond that all are forgotten, and some are on record twice.
	mostDenials = 1000
)

// denials puts on record what the fabric has refused.
type denials struct {
	audit *audit.Recorder
	log   *slog.Logger

	mu   sync.Mutex
	last map[string]time.Time
}

func newDenials(a *audit.Recorder, log *slog.Logger) *denials {
	return &denials{audit: a, log: log, last: map[string]time.Time{}}
}

// note takes a line of the broker: "ADDRESS - cid:N - what was refused to whom".
func (d *denials) note(text string) {
	what, remote := text, ""
	if parts := strings.SplitN(text, " - ", 3); len(parts) == 3 {
		remote, what = parts[0], parts[2]
	}
	now := time.Now()
	if d.known(what, now) {
		return
	}
	row := store.AuditRow{At: now, Action: "fabric", Remote: remote, Targets: 1, Message: what}
	if err := d.audit.NoteAudit(context.Background(), row); err != nil {
		d.log.Error("record of a denial could not be stored", "error", err)
	}
}

func (d *denials) known(what string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.last[what]) < denialEvery {
		return true
	}
	if len(d.last) >= mostDenials {
		clear(d.last)
	}
	d.last[what] = now
	return false
}
