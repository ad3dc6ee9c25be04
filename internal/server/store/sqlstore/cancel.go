package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
)

// heard is the time of the next message about a cancelled item whose agent knows of it.
const heard = math.MaxInt64

// CancelTask ends the items that nobody has sent, and marks the others that have not begun. An item that was never
// leased has no due time, or the due time of its creation or of its release by an older item.
func (db *Store) CancelTask(ctx context.Context, id, app string, now time.Time) (c store.Cancelled, err error) {
	var ended []finishedItem
	err = db.write(sqldb.Urgently(ctx), func(ctx context.Context, tx tx) error {
		c, ended = store.Cancelled{}, nil
		if err := db.lockLanes(ctx, tx, func(yield func(string) bool) { yield("") }); err != nil {
			return err
		}
		type span struct{ task, first, end, created int64 }
		s, err := one(ctx, tx.query, func(rows *sql.Rows) (s span, err error) {
			err = rows.Scan(&s.task, &s.first, &s.end, &s.created)
			return s, err
		}, `SELECT num, first_item, end_item, created FROM tasks WHERE id = ?1 AND (?2 = '' OR app = ?2)`, id, app)
		if err != nil {
			return err
		}
		var lanes [][2]int64
		outcome := process.NotBegun()
		err = tx.query(ctx, func(rows *sql.Rows) error {
			var lane [2]int64
			it := finishedItem{fault: outcome.Fault, created: s.created}
			err := rows.Scan(&lane[0], &lane[1], &it.op)
			lanes, ended = append(lanes, lane), append(ended, it)
			return err
		}, `UPDATE items SET state = 4, due = NULL, fault = ?5, text = ?6, hosted = 0
			WHERE num >= ?1 AND num < ?2 AND state = 0 AND attempts = 0 AND twin IS NULL AND cancel IS NULL
				AND (due IS NULL OR due = ?3 OR due = ?4)
			RETURNING host, lane, (SELECT op FROM requests WHERE num = items.request)`,
			s.first, s.end, s.created, atOnce, string(outcome.Fault), outcome.Text)
		if err != nil {
			return err
		}
		c.Ended = len(ended)
		err = tx.query(ctx, func(*sql.Rows) error { c.Asked++; return nil },
			`UPDATE items SET cancel = ?3, due = NULL
			WHERE num >= ?1 AND num < ?2 AND +state < 3 AND twin IS NULL AND cancel IS NULL
				AND request NOT IN (SELECT num FROM requests WHERE task = ?4 AND op = 'query') RETURNING num`,
			s.first, s.end, nanos(now), s.task)
		if err != nil {
			return err
		}
		c.Begun, err = one(ctx, tx.query, column[int],
			`SELECT count(*) FROM items WHERE num >= ?1 AND num < ?2 AND +state = 3 AND twin IS NULL`, s.first, s.end)
		if err != nil || len(lanes) == 0 {
			return err
		}
		return wakeLanes(ctx, tx, sqldb.Array(lanes))
	})
	if err != nil {
		return store.Cancelled{}, fmt.Errorf("cannot cancel task %s: %w", id, err)
	}
	db.tell(ended)
	return c, nil
}

// LeaseCancels leases marked items.
func (db *Store) LeaseCancels(ctx context.Context, now, until time.Time, limit int) (
	items []store.Item, next time.Time, err error,
) {
	const first = `SELECT cancel FROM items WHERE state < 3 AND cancel IS NOT NULL ORDER BY cancel LIMIT 1`
	at, err := all(ctx, db.query, column[int64], first)
	if err == nil && len(at) > 0 && at[0] <= nanos(now) {
		err = db.write(sqldb.Urgently(ctx), func(ctx context.Context, tx tx) error {
			items, err = readItems(ctx, tx.query, `WHERE i.state < 3 AND i.cancel <= ? ORDER BY i.cancel LIMIT ?`+
				db.dialect.Skipping, nanos(now), limit)
			if err != nil || len(items) == 0 {
				return err
			}
			ids := make([]string, len(items))
			for i := range items {
				ids[i] = items[i].ID
			}
			return tx.exec(ctx, updateListed(`cancel = ?2`, ``), idList(ids), nanos(until))
		})
		if err == nil {
			at, err = all(ctx, db.query, column[int64], first)
		}
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("cannot lease cancelled items: %w", err)
	}
	if len(at) > 0 && at[0] != heard {
		next = moment(at[0])
	}
	return items, next, nil
}

// CancelHeard records the answers of agents.
func (db *Store) CancelHeard(ctx context.Context, ids []string) error {
	err := db.write(sqldb.Urgently(ctx), func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, updateListed(`cancel = ?2`, `AND cancel IS NOT NULL`), idList(ids), int64(heard))
	})
	if err != nil {
		return fmt.Errorf("cannot record what agents know of cancelled items: %w", err)
	}
	return nil
}
