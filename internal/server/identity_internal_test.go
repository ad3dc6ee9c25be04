package server

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"drover/internal/server/audit"
	"drover/internal/server/dbclock"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// auditStore keeps the rows of the audit log.
type auditStore struct {
	store.Store
	rows []store.AuditRow
}

func (a *auditStore) PutAudit(_ context.Context, rows ...store.AuditRow) error {
	a.rows = append(a.rows, rows...)
	return nil
}

// TestACopiedHostIsRecordedByTheTimeForPeople: the row of a copied host has the time of the other rows, also if the
// clock of the machine differs from it.
func TestACopiedHostIsRecordedByTheTimeForPeople(t *testing.T) {
	t.Parallel()
	db, at, log := &auditStore{}, time.Unix(1_800_000_000, 0), slog.New(slog.DiscardHandler)
	s := &Server{
		cfg: Config{Log: log}, clock: dbclock.Alone(func() time.Time { return at }), audit: audit.New(db, log),
		directory: fleet.New(db, at),
	}
	s.cloned(t.Context(), "A", fleet.Rival{Name: "b"})
	if len(db.rows) != 1 || !db.rows[0].At.Equal(at) {
		t.Errorf("the rows are %+v, want one at %v", db.rows, at)
	}
}
