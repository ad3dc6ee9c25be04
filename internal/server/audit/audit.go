// Package audit writes the audit records of calls without a sync to disk for each poll. It batches the rows of calls
// that change nothing, and writes all other rows at once. It owns the waiting rows, and how a row names a request.
// The HTTP APIs supply the other columns, and the engine removes old rows.
package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"drover/internal/server/store"
)

// Store takes rows; they are on disk when it returns.
type Store interface {
	PutAudit(ctx context.Context, rows ...store.AuditRow) error
}

const (
	// interval is how long a row waits at most, and so how much a kill -9 or a power cut may lose.
	interval = time.Second
	// waiting is how many rows may wait. Beyond that, each call writes its own row at once, which slows callers instead
	// of losing rows.
	waiting = 20_000
	// together is how many rows one write takes, so that other writes do not wait long for it.
	together = 500
	// lastWrite bounds the writes at the end.
	lastWrite = 10 * time.Second
)

// Recorder gathers rows. It may be used from any goroutine, before, while and after Run runs.
type Recorder struct {
	store Store
	log   *slog.Logger

	mu      sync.Mutex
	rows    []store.AuditRow
	running bool
	denials denials
	reads   reads
}

// New returns a recorder over a store.
func New(s Store, log *slog.Logger) *Recorder { return &Recorder{store: s, log: log} }

// PutAudit stores rows before it returns.
func (r *Recorder) PutAudit(ctx context.Context, rows ...store.AuditRow) error {
	return r.store.PutAudit(ctx, rows...)
}

// NoteAudit queues a row of a call that changes nothing. The row is stored within a second, unless the caller reads all
// the time: then its reads are counted, and a row a minute tells their number. If too many rows wait, or Run does not
// run, NoteAudit stores the row as PutAudit does.
func (r *Recorder) NoteAudit(ctx context.Context, row store.AuditRow) error {
	r.mu.Lock()
	if !r.reads.count(time.Now(), row) {
		r.mu.Unlock()
		return nil
	}
	if r.running && len(r.rows) < waiting {
		r.rows = append(r.rows, row)
		r.mu.Unlock()
		return nil
	}
	r.mu.Unlock()
	return r.store.PutAudit(ctx, row)
}

// Run writes the queued rows until ctx ends; then it writes the rest and returns. Rows that cannot be written wait for
// the next write. At the end such rows are lost, and the log has their number.
func (r *Recorder) Run(ctx context.Context) error {
	r.mu.Lock()
	r.running = true
	r.mu.Unlock()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.queueDue(false)
			if err := r.flush(ctx); err != nil && ctx.Err() == nil {
				r.log.ErrorContext(ctx, "cannot write audit rows yet, retrying", "error", err)
			}
		case <-ctx.Done():
			r.mu.Lock()
			r.running = false
			r.mu.Unlock()
			r.queueDue(true)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
			defer cancel()
			if err := r.flush(ctx); err != nil {
				r.log.ErrorContext(ctx, "lost audit rows", "rows", r.left(), "error", err)
			}
			return nil
		}
	}
}

// queueDue queues the counted denials and reads that are due, or all.
func (r *Recorder) queueDue(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, r.denials.due(time.Now(), all)...)
	r.rows = append(r.rows, r.reads.due(time.Now(), all)...)
}

// flush writes the queued rows, oldest first.
func (r *Recorder) flush(ctx context.Context) error {
	r.mu.Lock()
	rows := r.rows
	r.rows = nil
	r.mu.Unlock()
	for len(rows) > 0 {
		n := min(len(rows), together)
		if err := r.store.PutAudit(ctx, rows[:n]...); err != nil {
			r.mu.Lock()
			r.rows = append(rows, r.rows...)
			r.mu.Unlock()
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (r *Recorder) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rows)
}
