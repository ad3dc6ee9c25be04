package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"drover/internal/server/store"
)

// PutRepeat remembers a call that its caller will repeat.
func (db *Store) PutRepeat(ctx context.Context, r store.Repeat, before time.Time) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := tx.exec(ctx, `DELETE FROM repeats WHERE at < ?`, nanos(before)); err != nil {
			return err
		}
		return tx.exec(ctx,
			`INSERT INTO repeats (matter, what, task, at) VALUES (?, ?, ?, ?) ON CONFLICT (matter) DO UPDATE
			SET what = excluded.what, task = excluded.task, at = excluded.at`, r.Of, r.What, r.Task, nanos(r.At))
	})
	if err != nil {
		return fmt.Errorf("cannot remember the call of task %s: %w", r.Task, err)
	}
	return nil
}

// FindRepeat returns a call that its caller will repeat.
func (db *Store) FindRepeat(ctx context.Context, of string) (store.Repeat, error) {
	r, err := one(ctx, db.query, func(rows *sql.Rows) (r store.Repeat, err error) {
		var at int64
		err = rows.Scan(&r.Of, &r.What, &r.Task, &at)
		r.At = moment(at)
		return r, err
	}, `SELECT matter, what, task, at FROM repeats WHERE matter = ?`, of)
	if err != nil {
		return store.Repeat{}, fmt.Errorf("cannot look for an earlier call: %w", err)
	}
	return r, nil
}

// DropRepeat deletes a call that its caller will not repeat.
func (db *Store) DropRepeat(ctx context.Context, of string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, `DELETE FROM repeats WHERE matter = ?`, of)
	})
	if err != nil {
		return fmt.Errorf("cannot forget a call: %w", err)
	}
	return nil
}
