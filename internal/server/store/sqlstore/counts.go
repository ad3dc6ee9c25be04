package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"drover/internal/server/store"
	"drover/internal/server/task"
)

// Counts counts observed processes and unfinished items.
func (db *Store) Counts(ctx context.Context) (store.Counts, error) {
	f := store.Counts{Processes: map[string]int{}, Items: map[task.State]int{}}
	err := db.query(ctx, func(r *sql.Rows) error {
		var state string
		var hosted, flapping, unhealthy, drifted bool
		var n int
		if err := r.Scan(&state, &hosted, &flapping, &unhealthy, &drifted, &n); err != nil {
			return err
		}
		f.Processes[state] += n
		for _, c := range []struct {
			so    bool
			count *int
		}{{hosted, &f.Hosted}, {flapping, &f.Flapping}, {unhealthy, &f.Unhealthy}, {drifted, &f.Drifted}} {
			if c.so {
				*c.count += n
			}
		}
		return nil
	}, `SELECT status ->> 'state', coalesce(status ->> 'hosted', '0'), coalesce(status ->> 'flapping', '0'),
		coalesce(status ->> '$.health.bad', '0'), status ->> 'config' IS NOT NULL, count(*)
		FROM observed GROUP BY 1, 2, 3, 4, 5`)
	if err != nil {
		return store.Counts{}, fmt.Errorf("cannot count processes: %w", err)
	}
	err = db.query(ctx, func(r *sql.Rows) error {
		var state, n int
		err := r.Scan(&state, &n)
		f.Items[task.State(state)] = n
		return err
	}, `SELECT state, count(*) FROM items INDEXED BY items_deadline WHERE state < 4 GROUP BY state`)
	if err != nil {
		return store.Counts{}, fmt.Errorf("cannot count items: %w", err)
	}
	return f, nil
}

// OpenItems counts the unfinished items.
func (db *Store) OpenItems(ctx context.Context) (n int, err error) {
	err = db.query(ctx, func(r *sql.Rows) error { return r.Scan(&n) },
		`SELECT count(*) FROM items INDEXED BY items_deadline WHERE state < 4`)
	if err != nil {
		return 0, fmt.Errorf("cannot count open items: %w", err)
	}
	return n, nil
}
