package tasks

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/kit"
)

// LeaseItems leases due items: it moves their due time to the end of the lease. An item whose lane is busy has no due
// time, so the query does not read it.
func (db *Tasks) LeaseItems(ctx context.Context, now, until time.Time, limit int) ([]store.Item, error) {
	var leased []store.Item
	err := db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		items, err := readItems(ctx, tx.Query, `WHERE i.state < 2 AND i.due <= ? ORDER BY i.due, i.num LIMIT ?`+
			db.Dialect.Skipping, kit.Nanos(now), limit)
		if err != nil || len(items) == 0 {
			leased = nil
			return err
		}
		ids := make([]string, len(items))
		for i := range items {
			ids[i] = items[i].ID
		}
		leased = items
		return tx.Exec(ctx, updateListed(`due = ?2`, ``), idList(ids), kit.Nanos(until))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot lease items: %w", err)
	}
	slices.SortFunc(leased, func(a, b store.Item) int { return cmp.Compare(number(a), number(b)) })
	return leased, nil
}

// number returns the place of an item in the order of arrival.
func number(it store.Item) int64 {
	id, _ := parseItemID(it.ID) // this store made the id
	return id.num
}

// updateListed updates the items of the first parameter, an idList, if they meet the condition.
func updateListed(set, condition string) string {
	return `UPDATE items SET ` + set + ` WHERE num IN (
		SELECT i.num FROM pairs(?1) j CROSS JOIN items i ON i.num = j.a AND i.nonce = j.b) ` + condition
}

// MarkSent records an attempt without a receipt.
func (db *Tasks) MarkSent(ctx context.Context, ids []string, resend time.Time) error {
	err := db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		const set, where = `state = 1, attempts = attempts + 1, due = ?2`, `AND state < 2 AND cancel IS NULL`
		return tx.Exec(ctx, updateListed(set, where), idList(ids), kit.Nanos(resend))
	})
	if err != nil {
		return fmt.Errorf("cannot mark items as sent: %w", err)
	}
	return nil
}

// EndLeases makes all items due that wait for a time. Call it after the opening of a database that one server holds at
// a time: the server that leased or postponed the items is gone, and the clock of their times may have been set since.
func (db *Tasks) EndLeases(ctx context.Context) error {
	err := db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		return tx.Exec(ctx, `UPDATE items SET due = ?1 WHERE state < 2 AND due > ?1`, afterRestart)
	})
	if err != nil {
		return fmt.Errorf("cannot end the leases of an earlier server: %w", err)
	}
	return nil
}

// Postpone gives items a new due time.
func (db *Tasks) Postpone(ctx context.Context, ids []string, due time.Time) error {
	err := db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		return tx.Exec(ctx, updateListed(`due = ?2`, `AND state < 2 AND cancel IS NULL`), idList(ids), kit.Nanos(due))
	})
	if err != nil {
		return fmt.Errorf("cannot postpone items: %w", err)
	}
	return nil
}

// MarkAccepted records a receipt.
func (db *Tasks) MarkAccepted(ctx context.Context, ids []string, until time.Time) error {
	err := db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		if until.IsZero() { // the usual case: an unchanged column costs no index update
			return tx.Exec(ctx, updateListed(`state = 2, due = NULL`, `AND state < 2`), idList(ids))
		}
		return tx.Exec(ctx, updateListed(acceptUntil, `AND state < 2`), idList(ids), kit.Nanos(until))
	})
	if err != nil {
		return fmt.Errorf("cannot mark items as accepted: %w", err)
	}
	return nil
}

// acceptUntil sets the columns of an accepted item. The second parameter is the earliest deadline.
const acceptUntil = `state = 2, due = NULL, deadline = CASE WHEN deadline < ?2 THEN ?2 ELSE deadline END`

// AcceptItems records which items an agent has, and returns the items that have ended.
func (db *Tasks) AcceptItems(ctx context.Context, agent string, ids []string, until time.Time) (
	ended []string, err error,
) {
	open := map[string]bool{}
	err = db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		clear(open)
		if err := tx.Exec(ctx, updateListed(acceptUntil, `AND state < 2 AND agent = ?3`), idList(ids), kit.Nanos(until),
			agent); err != nil {
			return err
		}
		return tx.Query(ctx, func(rows *sql.Rows) error {
			var id itemID
			err := rows.Scan(&id.num, &id.nonce)
			open[id.String()] = true
			return err
		},
			`SELECT i.num, i.nonce FROM pairs(?1) j CROSS JOIN items i ON i.num = j.a AND i.nonce = j.b
				WHERE i.state < 4 AND i.agent = ?2 AND i.cancel IS NULL`,
			idList(ids), agent)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read which items are wanted: %w", err)
	}
	for _, id := range ids {
		if !open[id] {
			ended = append(ended, id)
		}
	}
	return ended, nil
}

// Pass makes items due that may pass older items of their lane, and reports whether more such items wait. An item
// passes another item of the same task only if the agent has that one, because the order within a task counts.
func (db *Tasks) Pass(ctx context.Context) (waits bool, err error) {
	const waiting = `SELECT EXISTS (SELECT 1 FROM items WHERE state < 2 AND due IS NULL AND passes > 0 AND cancel IS NULL)`
	if waits, err = kit.One(ctx, db.Query, kit.Column[bool], waiting); err != nil {
		return false, fmt.Errorf("cannot find out whether an item may pass others: %w", err)
	}
	if !waits { // the usual case
		return false, nil
	}
	err = db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		// SQLite uses the index of the lanes only if its condition, state < 4, appears in exactly these words.
		err := tx.Exec(ctx, `UPDATE items SET due = ?1 WHERE state < 2 AND due IS NULL AND passes > 0 AND cancel IS NULL AND NOT EXISTS (
			SELECT 1 FROM items o WHERE o.host = items.host AND o.lane = items.lane AND o.num < items.num
				AND o.state < 4 AND o.state < 2 AND o.twin IS NULL
				AND (items.passes = 1 OR o.task = items.task))`, atOnce)
		if err != nil {
			return err
		}
		waits, err = kit.One(ctx, tx.Query, kit.Column[bool], waiting)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("cannot let items pass others: %w", err)
	}
	return waits, nil
}

// waiting is the condition of items that wait for older items and that no server has sent. Its first part equals the
// condition of an index.
const waiting = `items.state < 2 AND items.due IS NULL AND items.state = 0 AND items.attempts = 0
	AND items.twin IS NULL AND items.cancel IS NULL`

// WaitingAgents returns the agents of the items that wait for older items.
func (db *Tasks) WaitingAgents(ctx context.Context) ([]string, error) {
	agents, err := kit.All(ctx, db.Query, kit.Column[string], `SELECT DISTINCT agent FROM items WHERE `+waiting)
	if err != nil {
		return nil, fmt.Errorf("cannot read which items wait: %w", err)
	}
	return agents, nil
}

// EndWaiting ends, with an outcome, the waiting items of an agent whose tasks were created up to a time.
func (db *Tasks) EndWaiting(ctx context.Context, agent string, created time.Time, o process.Outcome) ([]string, error) {
	return db.finish(ctx, kit.RowValues{
		Head: `WITH v (host, agent, created, fault, text) AS (VALUES `,
		Row:  `(CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS TEXT))`,
		Tail: `) UPDATE items SET state = 4, due = NULL, fault = v.fault, text = v.text, hosted = 0 FROM v
			WHERE items.host = v.host AND items.agent = v.agent AND ` + waiting + `
				AND (SELECT created FROM tasks WHERE num = items.task) <= v.created ` + returningEnded,
	}, []any{kit.Hash(agent), agent, kit.Nanos(created), string(o.Fault), o.Text}, slices.Values([]string{agent}))
}

// NextDue returns the earliest due time.
func (db *Tasks) NextDue(ctx context.Context) (at time.Time, ok bool, err error) {
	at, ok, err = db.earliest(ctx, `SELECT due FROM items WHERE state < 2 AND due IS NOT NULL ORDER BY due LIMIT 1`)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("cannot find the next due item: %w", err)
	}
	return at, ok, nil
}

// earliest reads a time from the only row of a query; false for null.
func (db *Tasks) earliest(ctx context.Context, query string) (time.Time, bool, error) {
	times, err := kit.All(ctx, db.Query, kit.Column[int64], query)
	if err != nil || len(times) == 0 {
		return time.Time{}, false, err
	}
	return kit.Moment(times[0]), true, nil
}

// Unfinished returns the items that one agent has or may have, and has not finished.
func (db *Tasks) Unfinished(ctx context.Context, agent string) ([]store.Item, error) {
	items, err := readItems(ctx, db.Query,
		`WHERE i.host = ? AND i.state < 4 AND i.state > 0 AND i.agent = ? AND i.cancel IS NULL ORDER BY i.num`,
		kit.Hash(agent), agent)
	if err != nil {
		return nil, fmt.Errorf("cannot read unfinished items: %w", err)
	}
	return items, nil
}

// heard is the due time of the next message about a cancelled item whose agent knows of the cancellation: never.
const heard = math.MaxInt64

// CancelTask ends the items that no server has sent, and marks the other items that have not begun. An item that was
// never leased has no due time, or the due time of its creation or of its release by an older item.
func (db *Tasks) CancelTask(ctx context.Context, id, app string, now time.Time) (c store.CancelCounts, err error) {
	var ended []finishedItem
	err = db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		c, ended = store.CancelCounts{}, nil
		if err := db.lockLanes(ctx, tx, func(yield func(string) bool) { yield("") }); err != nil {
			return err
		}
		type span struct{ task, first, end, created int64 }
		s, err := kit.One(ctx, tx.Query, func(rows *sql.Rows) (s span, err error) {
			err = rows.Scan(&s.task, &s.first, &s.end, &s.created)
			return s, err
		}, `SELECT num, first_item, end_item, created FROM tasks WHERE id = ?1 AND (?2 = '' OR app = ?2)`, id, app)
		if err != nil {
			return err
		}
		var lanes [][2]int64
		outcome := process.NotBegun()
		err = tx.Query(ctx, func(rows *sql.Rows) error {
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
		err = tx.Exec(ctx, `UPDATE items SET cancel = ?3, due = NULL
			WHERE num >= ?1 AND num < ?2 AND +state < 3 AND twin IS NULL AND cancel IS NULL
				AND request NOT IN (SELECT num FROM requests WHERE task = ?4 AND op = 'query')`,
			s.first, s.end, kit.Nanos(now), s.task)
		if err != nil {
			return err
		}
		err = tx.Query(ctx, func(rows *sql.Rows) error { return rows.Scan(&c.Asked, &c.Begun) },
			`SELECT count(CASE WHEN state < 3 THEN 1 END), count(CASE WHEN state = 3 THEN 1 END) FROM items
			WHERE num >= ?1 AND num < ?2 AND twin IS NULL AND (+state = 3 OR +state < 3 AND cancel IS NOT NULL)`,
			s.first, s.end)
		if err != nil || len(lanes) == 0 {
			return err
		}
		return wakeLanes(ctx, tx, sqldb.Array(lanes))
	})
	if err != nil {
		return store.CancelCounts{}, fmt.Errorf("cannot cancel task %s: %w", id, err)
	}
	db.tell(ended)
	return c, nil
}

// LeaseCancels leases items that CancelTask has marked, for a message to their agents.
func (db *Tasks) LeaseCancels(ctx context.Context, now, until time.Time, limit int) (
	items []store.Item, next time.Time, err error,
) {
	const first = `SELECT cancel FROM items WHERE state < 3 AND cancel IS NOT NULL ORDER BY cancel LIMIT 1`
	at, err := kit.All(ctx, db.Query, kit.Column[int64], first)
	if err == nil && len(at) > 0 && at[0] <= kit.Nanos(now) {
		err = db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
			items, err = readItems(ctx, tx.Query, `WHERE i.state < 3 AND i.cancel <= ? ORDER BY i.cancel LIMIT ?`+
				db.Dialect.Skipping, kit.Nanos(now), limit)
			if err != nil || len(items) == 0 {
				return err
			}
			ids := make([]string, len(items))
			for i := range items {
				ids[i] = items[i].ID
			}
			return tx.Exec(ctx, updateListed(`cancel = ?2`, ``), idList(ids), kit.Nanos(until))
		})
		if err == nil {
			at, err = kit.All(ctx, db.Query, kit.Column[int64], first)
		}
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("cannot lease cancelled items: %w", err)
	}
	if len(at) > 0 && at[0] != heard {
		next = kit.Moment(at[0])
	}
	return items, next, nil
}

// CancelHeard records that agents know of the cancellation of items.
func (db *Tasks) CancelHeard(ctx context.Context, ids []string) error {
	err := db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		return tx.Exec(ctx, updateListed(`cancel = ?2`, `AND cancel IS NOT NULL`), idList(ids), int64(heard))
	})
	if err != nil {
		return fmt.Errorf("cannot record what agents know of cancelled items: %w", err)
	}
	return nil
}
