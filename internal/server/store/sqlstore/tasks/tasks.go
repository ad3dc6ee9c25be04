// Package tasks keeps the requests of callers: tasks with their items, their delivery to agents and their results;
// rollouts, schedules, revisions, and upkeep. One transaction often changes several of these tables.
package tasks

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"drover/internal/process"
	"drover/internal/server/batch"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/events"
	"drover/internal/server/store/sqlstore/fleet"
	"drover/internal/server/store/sqlstore/kit"
	"drover/internal/server/store/sqlstore/observed"
	"drover/internal/server/store/sqlstore/people"
	"drover/internal/server/task"
	"drover/internal/spec"
)

// Tasks are the tables of requests.
type Tasks struct {
	*kit.DB
	people   *people.People
	observed *observed.Observed
	events   *events.Events
	fleet    *fleet.Fleet
	views    viewCache
	// begun gathers the items that agents have begun.
	begun *batch.Writer[begunItem]
}

// New returns the tables of requests.
func New(db *kit.DB, p *people.People, o *observed.Observed, e *events.Events, f *fleet.Fleet) *Tasks {
	t := &Tasks{DB: db, people: p, observed: o, events: e, fleet: f}
	t.begun = batch.New(observed.ReportBatch, t.begin)
	return t
}

// CreateTask stores the task, all its items and the audit row in one transaction, and leases the first due items.
func (db *Tasks) CreateTask(ctx context.Context, t *store.Task, row store.AuditRow, until time.Time,
	limit int,
) ([]store.Item, error) {
	l, err := layOut(t)
	if err != nil {
		return nil, fmt.Errorf("cannot create task %s: %w", t.ID, err)
	}
	l.lease(until, limit)
	var secret [8]byte
	rand.Read(secret[:]) // never fails
	base := itemBase{nonce: int64(binary.LittleEndian.Uint64(secret[:]))}
	var waiting map[int64]bool
	err = db.Write(hurried(ctx, t), func(ctx context.Context, tx kit.Tx) (err error) {
		if t.Exclusive {
			if err := db.checkRollouts(ctx, tx, "", processesOf(t), nil); err != nil {
				return err
			}
		} else if err := db.lockLanes(ctx, tx, func(yield func(string) bool) {
			for i := range l.items {
				if it := &l.items[i]; it.target.Outcome == nil && !yield(it.target.Agent) {
					return
				}
			}
		}); err != nil {
			return err
		}
		if err := base.read(ctx, tx, db.Dialect); err != nil {
			return err
		}
		if err := db.revise(ctx, tx, t, &l); err != nil {
			return err
		}
		if t.Selections != nil {
			if err := db.putSelections(ctx, tx, *t.Selections); err != nil {
				return err
			}
		}
		if err := putUpkeep(ctx, tx, t.Upkeep); err != nil {
			return err
		}
		if err := putRun(ctx, tx, t.Run); err != nil {
			return err
		}
		if waiting, err = insertTask(ctx, tx, t, l, base); err != nil {
			return err
		}
		return people.InsertAudit(ctx, tx, &row)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot create task %s: %w", t.ID, err)
	}
	db.Watch.Audited(1)
	db.tell(knownFrom(t, l))
	return l.leased(t, base, waiting), nil
}

// processesOf returns the processes of a task, each once.
func processesOf(t *store.Task) []process.ID {
	list := make([]process.ID, len(t.Requests))
	for i := range t.Requests {
		list[i] = t.Requests[i].Process
	}
	process.SortIDs(list)
	return slices.Compact(list)
}

// insertTask inserts a task with all its rows. It returns the numbers of the items that wait for items of other tasks.
func insertTask(ctx context.Context, tx kit.Tx, t *store.Task, l layout,
	base itemBase,
) (waiting map[int64]bool, err error) {
	err = tx.Exec(ctx,
		`INSERT INTO tasks (num, id, app, "user", request_id, created, first_item, end_item, in_order,
			ordered, selector, reason, asks)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		base.task, t.ID, t.App, t.User, t.RequestID, kit.Nanos(t.Created), base.item, base.item+int64(len(l.items)),
		!l.shuffled, t.Ordered, t.Selector, t.Reason, t.Asks)
	if err != nil {
		return nil, err
	}
	if err := insertRequests(ctx, tx, t, l, base); err != nil {
		return nil, err
	}
	busy, err := kit.One(ctx, tx.Query, kit.Column[bool], `SELECT EXISTS (SELECT 1 FROM items WHERE state < 4)`)
	if err != nil {
		return nil, err
	}
	if err := insertItems(ctx, tx, t, l, base); err != nil || !busy {
		return nil, err
	}
	// This finds the items that wait for unfinished items of earlier tasks. layOut has placed the items that wait
	// within the task.
	waiting = map[int64]bool{}
	err = tx.Query(ctx, func(rows *sql.Rows) error {
		var num int64
		err := rows.Scan(&num)
		waiting[num] = true
		return err
	}, `UPDATE items SET due = NULL WHERE num >= ?1 AND num < ?2 AND due IS NOT NULL AND EXISTS (
		SELECT 1 FROM items o WHERE o.host = items.host AND o.lane = items.lane AND o.state < 4 AND o.num < ?1
			AND o.state < CASE items.passes WHEN 0 THEN 4 WHEN 1 THEN 2 ELSE 0 END AND (items.passes = 0
				OR o.twin IS NULL)) RETURNING num`,
		base.item, base.item+int64(len(l.items)))
	return waiting, err
}

func insertRequests(ctx context.Context, tx kit.Tx, t *store.Task, l layout, base itemBase) error {
	none := &process.Spec{Compat: &spec.Compat{}} // a task without a spec shows none of its fields
	args := make([]any, 0, 11*len(t.Requests))
	for i := range t.Requests {
		r, laid := &t.Requests[i], &l.specs[i]
		shown := cmp.Or(r.Spec, r.ReportedSpec, none)
		text := kit.Optional(laid.text.String, laid.text.Valid && laid.of == i)
		args = append(args, base.request+int64(i), string(r.Op), r.Process.Namespace, r.Process.Name,
			shown.ProcessName, shown.Dir(), shown.FuncID(), shown.InstanceID(), text,
			kit.Optional(base.request+int64(laid.of), laid.of != i), r.Removes)
	}
	return kit.RowValues{
		Head: `INSERT INTO requests (task, num, op, namespace, name, proc_name, setup_path, func_id, instance_id,
			spec, spec_of, removes) VALUES `,
		Row:    `(?1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		Shared: []any{base.task},
	}.Run(ctx, tx, args)
}

// itemBase holds the first numbers of a task's rows, and the nonce of its items.
type itemBase struct{ task, request, item, nonce int64 }

// read finds the next free numbers.
func (b *itemBase) read(ctx context.Context, tx kit.Tx, d *sqldb.Dialect) error {
	return tx.Query(ctx, func(rows *sql.Rows) error { return rows.Scan(&b.task, &b.request, &b.item) }, d.Numbers)
}

func insertItems(ctx context.Context, tx kit.Tx, t *store.Task, l layout, base itemBase) error {
	fresh := task.New(t.Created, t.HostTimeout)
	lanes := make([]int64, len(t.Requests))
	for i := range t.Requests {
		lanes[i] = laneOf(t.Requests[i].Process)
	}
	open, done := make([]any, 0, 13*len(l.items)), []any(nil)
	for i, it := range l.items {
		row := [...]any{
			base.item + int64(i), base.request + int64(it.request), kit.Optional(int64(it.rank), it.rank != hidden),
			it.target.ItemKey, it.target.Spelling, it.target.Agent, kit.Hash(it.target.Agent), lanes[it.request],
		}
		o := it.target.Outcome
		if o == nil {
			due := fresh.Due
			if it.leased {
				due = l.until
			}
			deadline := kit.Nanos(fresh.Deadline)
			if it.twin != single {
				deadline = math.MaxInt64 // it ends with its twin
			}
			// The agent lets the operation pass older operations, so the server must send it early.
			passes := t.Requests[it.request].Op.Info().Passes
			if it.twin != single {
				passes = process.PassesNothing
			}
			open = append(append(open, row[:]...), kit.Optional(kit.Nanos(due), !it.blocked), deadline,
				kit.Optional(base.item+int64(it.twin), it.twin != single), int64(passes), it.revision)
			continue
		}
		status, err := kit.Encode(o.Status)
		if err != nil {
			return fmt.Errorf("cannot encode status: %w", err)
		}
		done = append(append(done, row[:]...), kit.Optional(string(o.Fault), o.Fault != process.None), o.Text, o.Hosted,
			status)
	}
	shared := []any{base.nonce, base.task, kit.Nanos(fresh.Deadline)}
	err := kit.RowValues{
		Head: `INSERT INTO items (nonce, task, num, request, rank, key, asked, agent, host, lane, due, deadline,
			twin, passes, revision, state, attempts) VALUES `,
		Row:    `(?1, ?2, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)`,
		Shared: shared[:2],
	}.Run(ctx, tx, open)
	if err != nil {
		return err
	}
	return kit.RowValues{
		Head: `INSERT INTO items (nonce, task, deadline, num, request, rank, key, asked, agent, host, lane, fault,
			text, hosted, status,
			passes, state, attempts) VALUES `,
		Row:    `(?1, ?2, ?3, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 4, 0)`,
		Shared: shared,
	}.Run(ctx, tx, done)
}

// TaskOpen reports whether a task has an item key whose last item is not done.
func (db *Tasks) TaskOpen(ctx context.Context, id string) (bool, error) {
	open, err := kit.One(ctx, db.Query, kit.Column[bool],
		`SELECT EXISTS (SELECT 1 FROM items i WHERE i.num >= t.first_item AND i.num < t.end_item
			AND i.rank IS NOT NULL AND +i.state < 4)
		FROM tasks t WHERE t.id = ?1`, id)
	if err != nil {
		return false, fmt.Errorf("cannot look at task %s: %w", id, err)
	}
	return open, nil
}

// PruneTasks removes old tasks whose items are all done.
func (db *Tasks) PruneTasks(ctx context.Context, before time.Time, limit int) (int, error) {
	var pruned int
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		type span struct{ num, first, end int64 }
		old, err := kit.All(ctx, tx.Query, func(rows *sql.Rows) (s span, err error) {
			err = rows.Scan(&s.num, &s.first, &s.end)
			return s, err
		}, `SELECT num, first_item, end_item FROM tasks t WHERE created < ?1 AND NOT EXISTS (
			SELECT 1 FROM items i WHERE i.num >= t.first_item AND i.num < t.end_item AND +i.state < 4)
				ORDER BY created, num LIMIT ?2`,
			kit.Nanos(before), limit)
		if err != nil {
			return err
		}
		for _, s := range old {
			if err := tx.Exec(ctx, `DELETE FROM items WHERE num >= ? AND num < ?`, s.first, s.end); err != nil {
				return err
			}
			if err := tx.Exec(ctx, `DELETE FROM tasks WHERE num = ?`, s.num); err != nil {
				return err
			}
		}
		pruned = len(old)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune tasks: %w", err)
	}
	return pruned, nil
}

// PutRepeat remembers a call that its caller will repeat.
func (db *Tasks) PutRepeat(ctx context.Context, r store.Repeat, before time.Time) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		if err := tx.Exec(ctx, `DELETE FROM repeats WHERE at < ?`, kit.Nanos(before)); err != nil {
			return err
		}
		return tx.Exec(ctx,
			`INSERT INTO repeats (matter, what, task, at) VALUES (?, ?, ?, ?) ON CONFLICT (matter) DO UPDATE
			SET what = excluded.what, task = excluded.task, at = excluded.at`, r.Of, r.What, r.Task, kit.Nanos(r.At))
	})
	if err != nil {
		return fmt.Errorf("cannot remember the call of task %s: %w", r.Task, err)
	}
	return nil
}

// FindRepeat returns a call that its caller will repeat.
func (db *Tasks) FindRepeat(ctx context.Context, of string) (store.Repeat, error) {
	r, err := kit.One(ctx, db.Query, func(rows *sql.Rows) (r store.Repeat, err error) {
		var at int64
		err = rows.Scan(&r.Of, &r.What, &r.Task, &at)
		r.At = kit.Moment(at)
		return r, err
	}, `SELECT matter, what, task, at FROM repeats WHERE matter = ?`, of)
	if err != nil {
		return store.Repeat{}, fmt.Errorf("cannot look for an earlier call: %w", err)
	}
	return r, nil
}

// DropRepeat deletes a call that its caller will not repeat.
func (db *Tasks) DropRepeat(ctx context.Context, of string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return tx.Exec(ctx, `DELETE FROM repeats WHERE matter = ?`, of)
	})
	if err != nil {
		return fmt.Errorf("cannot forget a call: %w", err)
	}
	return nil
}

// hurried marks the writes for a task as urgent if the task only stops, kills or unhosts: such writes may use the
// reserve of a full disk.
func hurried(ctx context.Context, t *store.Task) context.Context {
	for _, r := range t.Requests {
		if !r.Op.Info().Ends {
			return ctx
		}
	}
	return sqldb.Urgently(ctx)
}
