package people

import (
	"context"
	"database/sql"
	"fmt"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// SaveView inserts a view.
func (db *People) SaveView(ctx context.Context, v store.SavedView) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		have, err := kit.One(ctx, tx.Query, kit.Column[int], `SELECT count(*) FROM views WHERE "user" = ?`, v.User)
		if err != nil {
			return err
		}
		if have >= store.MostViews {
			return store.ErrTooManyViews
		}
		return kit.Inserted(tx.Affect(ctx,
			`INSERT INTO views (id, "user", namespace, name, query, created) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			v.ID, v.User, v.Namespace, v.Name, v.Query, kit.Nanos(v.Created)))
	})
	if err != nil {
		return fmt.Errorf("cannot save view %q of user %q: %w", v.Name, v.User, err)
	}
	return nil
}

// ListViews returns the views of a user, and the shared ones.
func (db *People) ListViews(ctx context.Context, user string) ([]store.SavedView, error) {
	list, err := kit.All(ctx, db.Query, func(rows *sql.Rows) (v store.SavedView, err error) {
		var created int64
		err = rows.Scan(&v.ID, &v.User, &v.Namespace, &v.Name, &v.Query, &created)
		v.Created = kit.Moment(created)
		return v, err
	}, `SELECT id, "user", namespace, name, query, created FROM views WHERE "user" = ? OR namespace > ''
		ORDER BY name, id`, user)
	if err != nil {
		return nil, fmt.Errorf("cannot list the views of user %q: %w", user, err)
	}
	return list, nil
}

// RemoveView removes a view.
func (db *People) RemoveView(ctx context.Context, id string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return kit.Affected(tx.Affect(ctx, `DELETE FROM views WHERE id = ?`, id))
	})
	if err != nil {
		return fmt.Errorf("cannot remove view %q: %w", id, err)
	}
	return nil
}
