package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"drover/internal/server/store"
)

// LeaseItems takes what is due, by moving it to the end of the lease. An item whose lane is busy has no due time, so that none is
// looked at in vain.
func (db *Store) LeaseItems(ctx context.Context, now, until time.Time, limit int) ([]store.Item, error) {
	var leased []store.Item
	err := db.write(urgently(ctx), func(ctx context.Context, tx tx) error {
		items, err := readItems(ctx, tx.query, `WHERE i.state < 2 AND i.due <= ? ORDER BY i.due, i.num LIMIT ?`+db.dialect.Skipping, nanos(now), limit)
		if err != nil || len(items) == 0 {
			leased = nil
			return err
		}
		ids := make([]string, len(items))
		for i := range items {
			ids[i] = items[i].ID
		}
		leased = items
		return tx.exec(ctx, updateListed(`due = ?2`, ``), idList(ids), nanos(until))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot lease items: %w", err)
	}
	slices.SortFunc(leased, func(a, b store.Item) int { return cmp.Compare(number(a), number(b)) })
	return leased, nil
}

// number is the place of an item in the order of arrival.
func number(it store.Item) int64 {
	id, _ := parseItemID(it.ID) // the id was made by this store
	return id.num
}

// updateListed is an update of the items that idList gave as the first parameter, as far as they meet the condition.
func updateListed(set, condition string) string {
	return `UPDATE items SET ` + set + ` WHERE num IN (
		SELECT i.num FROM pairs(?1) j CROSS JOIN items i ON i.num = j.a AND i.nonce = j.b) ` + condition
}

// MarkSent notes an attempt that brought no receipt.
func (db *Store) MarkSent(ctx context.Context, ids []string, resend time.Time) error {
	err := db.write(urgently(ctx), func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, updateListed(`state = 1, attempts = attempts + 1, due = ?2`, `AND state < 2`), idList(ids), nanos(resend))
	})
	if err != nil {
		return fmt.Errorf("cannot mark items as sent: %w", err)
	}
	return nil
}

// EndLeases makes all that waits for a time due at once. It is for the opening of a database that one server holds at a time: whoever
// leased or postponed an item before is no more, and the clock that its time is of may have been set since.
func (db *Store) EndLeases(ctx context.Context) error {
	err := db.write(urgently(ctx), func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, `UPDATE items SET due = ?1 WHERE state < 2 AND due > ?1`, atOnce)
	})
	if err != nil {
		return fmt.Errorf("cannot end the leases of an earlier server: %w", err)
	}
	return nil
}

// Postpone gives items a new due time.
func (db *Store) Postpone(ctx context.Context, ids []string, due time.Time) error {
	err := db.write(urgently(ctx), func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, updateListed(`due = ?2`, `AND state < 2`), idList(ids), nanos(due))
	})
	if err != nil {
		return fmt.Errorf("cannot postpone items: %w", err)
	}
	return nil
}

// MarkAccepted notes a receipt.
func (db *Store) MarkAccepted(ctx context.Context, ids []string) error {
	err := db.write(urgently(ctx), func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, updateListed(`state = 2, due = NULL`, `AND state < 2`), idList(ids))
	})
	if err != nil {
		return fmt.Errorf("cannot mark items as accepted: %w", err)
	}
	return nil
}

// NextDue returns the earliest due time.
func (db *Store) NextDue(ctx context.Context) (at time.Time, ok bool, err error) {
	at, ok, err = db.earliest(ctx, `SELECT due FROM items WHERE state < 2 AND due IS NOT NULL ORDER BY due LIMIT 1`)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("cannot find the next due item: %w", err)
	}
	return at, ok, nil
}

// earliest reads a time that may not be there.
func (db *Store) earliest(ctx context.Context, query string) (time.Time, bool, error) {
	var at int64
	found := false
	err := db.query(ctx, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(&at)
	}, query)
	return moment(at), found && err == nil, err
}

// Unfinished returns what one agent has or may have, and has not finished.
func (db *Store) Unfinished(ctx context.Context, agent string) ([]store.Item, error) {
	items, err := readItems(ctx, db.query, `WHERE i.host = ? AND i.state < 4 AND i.state > 0 AND i.agent = ? ORDER BY i.num`,
		hash(agent), agent)
	if err != nil {
		return nil, fmt.Errorf("cannot read unfinished items: %w", err)
	}
	return items, nil
}
