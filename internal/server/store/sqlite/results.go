package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// atOnce is the due time of an item that has just become the first of its lane.
const atOnce = 1

// Begin notes that the agent works on the items.
func (db *DB) Begin(ctx context.Context, agent string, deadlines map[string]time.Time) error {
	err := db.writer.write(ctx, func(ctx context.Context, tx *tx) error {
		for s, deadline := range deadlines {
			id, ok := parseItemID(s)
			if !ok {
				continue
			}
			err := tx.exec(ctx, `UPDATE items SET state = 3, due = NULL, deadline = ?4
				WHERE num = ?1 AND nonce = ?2 AND (?3 = '' OR agent = ?3) AND state < 4`, id.num, id.nonce, agent, nanos(deadline))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot mark items as begun: %w", err)
	}
	return nil
}

// Finish stores outcomes that agents have given.
func (db *DB) Finish(ctx context.Context, agent string, outcomes map[string]process.Outcome) ([]string, error) {
	ends := make([]end, 0, len(outcomes))
	for s, outcome := range outcomes {
		if id, ok := parseItemID(s); ok {
			ends = append(ends, end{id: id, outcome: outcome, condition: `AND (?7 = '' OR agent = ?7)`, args: []any{agent}})
		}
	}
	return db.finish(ctx, ends)
}

// Conclude stores outcomes that the server has decided on.
func (db *DB) Conclude(ctx context.Context, ended []store.Ended) ([]string, error) {
	ends := make([]end, 0, len(ended))
	for _, e := range ended {
		if id, ok := parseItemID(e.Item.ID); ok {
			ends = append(ends, end{
				id: id, outcome: e.Outcome, condition: `AND state = ?7 AND deadline = ?8`,
				args: []any{int(e.Item.State), nanos(e.Item.Deadline)},
			})
		}
	}
	return db.finish(ctx, ends)
}

// end is the end of one item, under a condition whose parameters begin with the seventh.
type end struct {
	id        itemID
	outcome   process.Outcome
	condition string
	args      []any
}

func (db *DB) finish(ctx context.Context, ends []end) ([]string, error) {
	var names []string
	var done []finished
	err := db.writer.write(ctx, func(ctx context.Context, tx *tx) error {
		tasks := map[int64]bool{}
		done = nil
		for _, e := range ends {
			it, ok, err := e.store(ctx, tx, tasks)
			if err != nil {
				return err
			}
			if ok {
				done = append(done, it)
			}
		}
		names = nil
		for task := range tasks {
			var name string
			if err := tx.value(ctx, &name, `SELECT id FROM tasks WHERE num = ?`, task); err != nil {
				return err
			}
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot finish items: %w", err)
	}
	db.tell(done)
	return names, nil
}

// store ends the item unless it is done or the condition fails, makes the next one of its lane due, and adds its task to tasks. ok is
// whether it ended it.
func (e end) store(ctx context.Context, tx *tx, tasks map[int64]bool) (it finished, ok bool, err error) {
	status, err := encode(e.outcome.Status)
	if err != nil {
		return finished{}, false, fmt.Errorf("cannot encode status: %w", err)
	}
	var task, host, lane int64
	it.fault = e.outcome.Fault
	err = tx.query(ctx, func(rows *sql.Rows) error { return rows.Scan(&task, &host, &lane, &it.op, &it.created) },
		`UPDATE items SET state = 4, due = NULL, fault = ?3, text = ?4, hosted = ?5, status = ?6
		WHERE num = ?1 AND nonce = ?2 AND state < 4 `+e.condition+` RETURNING task, host, lane,
			(SELECT op FROM requests WHERE num = items.request), (SELECT created FROM tasks WHERE num = items.task)`,
		append([]any{e.id.num, e.id.nonce, faultColumn(e.outcome.Fault), e.outcome.Text, e.outcome.Hosted, status}, e.args...)...)
	if err != nil || task == 0 {
		return finished{}, false, err
	}
	tasks[task] = true
	return it, true, tx.exec(ctx, `UPDATE items SET due = ?3 WHERE state < 2 AND due IS NULL AND num = (
		SELECT num FROM items WHERE host = ?1 AND lane = ?2 AND state < 4 ORDER BY num LIMIT 1)`, host, lane, atOnce)
}

// Overdue returns the items that have waited too long.
func (db *DB) Overdue(ctx context.Context, now time.Time, limit int) ([]store.Item, error) {
	items, err := readItems(ctx, db.query, `WHERE i.state < 4 AND i.deadline <= ? ORDER BY i.deadline, i.num LIMIT ?`, nanos(now), limit)
	if err != nil {
		return nil, fmt.Errorf("cannot read overdue items: %w", err)
	}
	return items, nil
}

// NextDeadline returns the earliest deadline.
func (db *DB) NextDeadline(ctx context.Context) (at time.Time, ok bool, err error) {
	at, ok, err = db.earliest(ctx, `SELECT deadline FROM items WHERE state < 4 ORDER BY deadline LIMIT 1`)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("cannot find the next deadline: %w", err)
	}
	return at, ok, nil
}
