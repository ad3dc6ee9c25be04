package observed

import (
	"context"
	"database/sql"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// HoldSelection stores a selection, and deletes the oldest of its owner.
func (db *Observed) HoldSelection(ctx context.Context, s store.CallerSelection, most int, ofApp bool) error {
	owner, args := `app = ?1 AND "user" = ?3`, []any{s.App, most, s.User}
	if ofApp {
		owner, args = `app = ?1`, args[:2]
	}
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		if err := kit.Inserted(tx.Affect(ctx, `INSERT INTO held_selections (id, app, "user", until, filter, targets)
			VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			s.ID, s.App, s.User, kit.Nanos(s.Until), s.Filter, string(s.Targets))); err != nil {
			return err
		}
		return tx.Exec(ctx, `DELETE FROM held_selections WHERE `+owner+` AND num <= (
			SELECT num FROM held_selections WHERE `+owner+` ORDER BY num DESC LIMIT 1 OFFSET ?2)`, args...)
	})
	return kit.Wrapped(err, "cannot hold the selection")
}

// PruneSelections removes selections that have ended.
func (db *Observed) PruneSelections(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		n, err = tx.Affect(ctx, `DELETE FROM held_selections WHERE num IN (
			SELECT num FROM held_selections WHERE until < ? ORDER BY until LIMIT ?)`, kit.Nanos(before), max(limit, 0))
		return err
	})
	return n, kit.Wrapped(err, "cannot prune selections")
}

// FindSelection returns a selection of its owner.
func (db *Observed) FindSelection(
	ctx context.Context, id, app, user string, now time.Time,
) (store.CallerSelection, error) {
	s, err := kit.One(ctx, db.Query, func(r *sql.Rows) (s store.CallerSelection, err error) {
		var until int64
		var targets string
		err = r.Scan(&s.ID, &s.App, &s.User, &until, &s.Filter, &targets)
		s.Until, s.Targets = kit.Moment(until), []byte(targets)
		return s, err
	}, `SELECT id, app, "user", until, filter, targets FROM held_selections
		WHERE id = ? AND app = ? AND "user" = ? AND until > ?`, id, app, user, kit.Nanos(now))
	return s, kit.Wrapped(err, "cannot read the selection")
}
