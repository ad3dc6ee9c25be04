package tasks

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/kit"
)

// atOnce is the due time of an item that has just become the first of its lane.
const atOnce = 1

// afterRestart is the due time of an item that an earlier server may have sent.
const afterRestart = 2

// begunItem is an item that an agent executes.
type begunItem struct {
	agent    string
	id       itemID
	deadline time.Time
}

// Begin records that the agent executes the items. The deadline of an item that has already begun stays, because the
// agent may resend its report. Callers that wait at the same time share a transaction.
func (db *Tasks) Begin(ctx context.Context, agent string, deadlines map[string]time.Time) error {
	items := make([]begunItem, 0, len(deadlines))
	for s, deadline := range deadlines {
		if id, ok := parseItemID(s); ok {
			items = append(items, begunItem{agent, id, deadline})
		}
	}
	err := ctx.Err()
	if err == nil {
		err = db.begun.Put(ctx, items)
	}
	if err != nil {
		return fmt.Errorf("cannot mark items as begun: %w", err)
	}
	return nil
}

// begin stores begun items in one transaction.
func (db *Tasks) begin(ctx context.Context, items []begunItem) error {
	args := make([]any, 0, 4*len(items))
	for _, it := range items {
		args = append(args, it.agent, it.id.num, it.id.nonce, kit.Nanos(it.deadline))
	}
	begun := kit.RowValues{
		Head: `WITH v (agent, num, nonce, deadline) AS (VALUES `,
		Row:  `(CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS BIGINT))`,
		Tail: `) UPDATE items SET state = 3, due = NULL, deadline = v.deadline FROM v
			WHERE items.num = v.num AND items.nonce = v.nonce AND (v.agent = '' OR items.agent = v.agent)
				AND items.state < 3`,
	}
	return db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		return begun.Run(ctx, tx, args)
	})
}

// Finish stores outcomes that agents reported.
func (db *Tasks) Finish(ctx context.Context, given []store.ReportedOutcome) ([]string, error) {
	args := make([]any, 0, endWidth*len(given))
	for i := range given {
		g := &given[i]
		var err error
		if args, err = appendEnd(args, g.Item, &g.Outcome, g.Agent); err != nil {
			return nil, err
		}
	}
	own := endOf(`agent, `, `CAST(? AS TEXT), `, `(v.agent = '' OR items.agent = v.agent)`)
	return db.finish(ctx, own, args, func(yield func(string) bool) {
		for i := range given {
			if !yield(given[i].Agent) {
				return
			}
		}
	})
}

// Conclude stores outcomes that the server decided.
func (db *Tasks) Conclude(ctx context.Context, ended []store.DecidedOutcome) ([]string, error) {
	args := make([]any, 0, endWidth*len(ended))
	for i := range ended {
		e := &ended[i]
		var err error
		if args, err = appendEnd(args, e.Item.ID, &e.Outcome, int(e.Item.State)); err != nil {
			return nil, err
		}
	}
	unchanged := endOf(`state, `, `CAST(? AS BIGINT), `, `items.state = v.state`)
	return db.finish(ctx, unchanged, args, func(yield func(string) bool) {
		for i := range ended {
			if !yield(ended[i].Item.Agent) {
				return
			}
		}
	})
}

// endWidth is the number of parameters that appendEnd adds for an item with one other parameter.
const endWidth = 7

// appendEnd appends others and the parameters for the end of an item. It appends nothing if the id is invalid.
func appendEnd(args []any, item string, o *process.Outcome, others ...any) ([]any, error) {
	id, ok := parseItemID(item)
	if !ok {
		return args, nil
	}
	status, err := kit.Encode(o.Status)
	if err != nil {
		return nil, fmt.Errorf("cannot finish items: cannot encode status: %w", err)
	}
	args = append(args, others...)
	return append(args, id.num, id.nonce, kit.Optional(string(o.Fault), o.Fault != process.None), o.Text, o.Hosted,
		kit.Optional(status.String, status.Valid)), nil
}

// endOf ends items that are not done and meet the condition. columns and parameters name the values that come before
// the values of appendEnd.
func endOf(columns, parameters, condition string) kit.RowValues {
	return kit.RowValues{
		Head: `WITH v (` + columns + `num, nonce, fault, text, hosted, status) AS (VALUES `,
		Row: `(` + parameters +
			`CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BIGINT),
					CAST(? AS TEXT))`,
		Tail: `) UPDATE items SET state = 4, due = NULL, fault = v.fault, text = v.text, hosted = v.hosted,
			status = v.status FROM v
			WHERE items.num = v.num AND items.nonce = v.nonce AND items.state < 4 AND ` + condition + ` ` +
			returningEnded,
	}
}

// returningEnded ends a statement of finish.
const returningEnded = `RETURNING items.task, items.host, items.lane, coalesce(items.fault, ''),
	(SELECT op FROM requests WHERE num = items.request)`

// finish ends items of the given agents, makes the next item of each lane due, and returns the tasks.
func (db *Tasks) finish(
	ctx context.Context, ends kit.RowValues, args []any, agents iter.Seq[string],
) ([]string, error) {
	var names []string
	var done []finishedItem
	err := db.Write(sqldb.Urgently(ctx), func(ctx context.Context, tx kit.Tx) error {
		names, done = nil, nil
		if err := db.lockLanes(ctx, tx, agents); err != nil {
			return err
		}
		var of []int64 // the tasks of the ended items
		var lanes [][2]int64
		ends.Scan = func(rows *sql.Rows) error {
			var task, host, lane int64
			var it finishedItem
			err := rows.Scan(&task, &host, &lane, &it.fault, &it.op)
			done, of = append(done, it), append(of, task)
			lanes = append(lanes, [2]int64{host, lane})
			return err
		}
		if err := ends.Run(ctx, tx, args); err != nil || len(done) == 0 {
			return err
		}
		created := map[int64]int64{}
		for i, task := range of {
			if _, ok := created[task]; !ok {
				var name string
				var at int64
				err := tx.Query(ctx, func(rows *sql.Rows) error { return rows.Scan(&name, &at) },
					`SELECT id, created FROM tasks WHERE num = ?`, task)
				if err != nil {
					return err
				}
				names, created[task] = append(names, name), at
			}
			done[i].created = created[task]
		}
		return wakeLanes(ctx, tx, sqldb.Array(lanes))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot finish items: %w", err)
	}
	db.tell(done)
	return names, nil
}

// wakeLanes ends the twins of done items. In each lane it makes the first unfinished item due, if that item waited.
// lanes are pairs(?) of host and lane.
func wakeLanes(ctx context.Context, tx kit.Tx, lanes string) error {
	waiting, err := kit.One(ctx, tx.Query, kit.Column[bool],
		`SELECT EXISTS (SELECT 1 FROM items INDEXED BY items_waiting WHERE state < 2 AND due IS NULL)`)
	if err != nil || !waiting { // usually no item waits
		return err
	}
	err = tx.Exec(ctx,
		`UPDATE items INDEXED BY items_twins SET state = 4, fault = o.fault, text = o.text, hosted = o.hosted,
			status = o.status
		FROM items o WHERE items.twin IS NOT NULL AND items.state < 4 AND o.num = items.twin AND o.state = 4`)
	if err != nil {
		return err
	}
	return tx.Exec(ctx, `UPDATE items SET due = ?2 WHERE state < 2 AND due IS NULL AND cancel IS NULL AND num IN (
		SELECT (SELECT num FROM items WHERE host = j.a AND lane = j.b AND state < 4 ORDER BY num LIMIT 1)
			FROM pairs(?1) j)`,
		lanes, atOnce)
}

// Overdue returns the items whose deadline has passed.
func (db *Tasks) Overdue(ctx context.Context, now time.Time, limit int) ([]store.Item, error) {
	items, err := readItems(ctx, db.Query, `WHERE i.state < 4 AND i.deadline <= ? ORDER BY i.deadline, i.num LIMIT ?`,
		kit.Nanos(now), limit)
	if err != nil {
		return nil, fmt.Errorf("cannot read overdue items: %w", err)
	}
	return items, nil
}

// NextDeadline returns the earliest deadline.
func (db *Tasks) NextDeadline(ctx context.Context) (at time.Time, ok bool, err error) {
	at, ok, err = db.earliest(ctx, `SELECT deadline FROM items WHERE state < 4 ORDER BY deadline LIMIT 1`)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("cannot find the next deadline: %w", err)
	}
	return at, ok, nil
}

// finishedItem is an item that has just got its outcome.
type finishedItem struct {
	op      process.Op
	fault   process.Fault
	created int64 // creation of the task, in Unix nanoseconds
}

// tell reports finished items to the Watch.
func (db *Tasks) tell(items []finishedItem) {
	now := time.Now()
	for _, it := range items {
		db.Watch.Ended(it.op, it.fault, max(now.Sub(kit.Moment(it.created)), 0))
	}
}

// knownFrom returns the items of a task whose outcomes were known at its creation.
func knownFrom(t *store.Task, l layout) []finishedItem {
	var list []finishedItem
	for _, it := range l.items {
		if o := it.target.Outcome; o != nil {
			list = append(list, finishedItem{
				op: t.Requests[it.request].Op, fault: o.Fault, created: kit.Nanos(t.Created),
			})
		}
	}
	return list
}
