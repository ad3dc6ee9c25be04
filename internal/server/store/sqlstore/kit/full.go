package kit

import (
	"context"
	"errors"
	"sync"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
)

// fullness keeps the time since which writes fail because the disk of the database is full.
type fullness struct {
	mu    sync.Mutex
	since time.Time
}

// judge updates the time from the result of a write. The success of an urgent write does not prove that other writes
// have room.
func (f *fullness) judge(ctx context.Context, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case errors.Is(err, sqldb.ErrFull):
		if f.since.IsZero() {
			f.since = time.Now()
		}
		return &store.FullError{Since: f.since, Err: err}
	case err == nil && !sqldb.Urgent(ctx):
		f.since = time.Time{}
	}
	return err
}

// FullSince returns the time since which writes fail because the disk is full; the zero time if they do not.
func (db *DB) FullSince() time.Time {
	db.full.mu.Lock()
	defer db.full.mu.Unlock()
	return db.full.since
}
