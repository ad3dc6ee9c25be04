package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// where collects conditions and their parameters.
type where struct {
	dialect *Dialect
	text    []string
	args    []any
}

func (w *where) add(condition string, args ...any) {
	w.text = append(w.text, condition)
	w.args = append(w.args, args...)
}

// pattern adds a condition on a column. One without wildcards is compared, so that an index can serve it.
func (w *where) pattern(column, pattern string) {
	switch {
	case pattern == "":
	case !wildcard.IsPattern(pattern):
		w.add(column+" = ?", pattern)
	default:
		w.add(column+" "+w.dialect.Match+" ?", w.dialect.Pattern(pattern))
	}
}

// within adds that a column is of one of the patterns; nil is all of them.
func (w *where) within(column string, patterns []string) error {
	if patterns == nil {
		return nil
	}
	list, err := w.dialect.patterns(patterns)
	if err != nil {
		return err
	}
	w.add("EXISTS (SELECT 1 FROM texts(?) p WHERE "+column+" "+w.dialect.Match+" p.value)", list)
	return nil
}

// among adds that a column is one of the values.
func (w *where) among(column string, values []string) error {
	list, err := w.dialect.list(values)
	if err != nil {
		return err
	}
	w.add(column+" IN (SELECT value FROM texts(?) j)", list)
	return nil
}

// mostListed is how much is read of statuses and specs at once, in bytes: who asks holds it in memory, and so does who
// answers.
const mostListed = 8 << 20

// errListed ends a read that has had so much.
var errListed = errors.New("enough was read")

// ListObserved returns a page of the observed processes.
func (db *Store) ListObserved(
	ctx context.Context, f store.ObservedFilter, after store.ObservedKey, limit int,
) (rows []store.Observed, more bool, err error) {
	rows, err = db.listObserved(ctx, f, after, limit)
	if err != nil && !errors.Is(err, errListed) {
		return nil, false, fmt.Errorf("cannot list observations: %w", err)
	}
	return rows, err != nil || len(rows) == limit, nil
}

func (db *Store) listObserved(ctx context.Context, f store.ObservedFilter, after store.ObservedKey,
	limit int,
) ([]store.Observed, error) {
	w := where{dialect: db.dialect}
	w.add("(o.namespace, o.name, o.agent) > (?, ?, ?)", after.Process.Namespace, after.Process.Name, after.Agent)
	if f.Process.Name != "" || f.Process.Namespace != "" {
		w.add("o.namespace = ? AND o.name = ?", f.Process.Namespace, f.Process.Name)
	}
	w.pattern("o.namespace", f.Namespace)
	if err := w.within("o.namespace", f.Within); err != nil {
		return nil, err
	}
	w.pattern("o.name", f.Name)
	if f.Agents != nil {
		if err := w.among("o.agent", f.Agents); err != nil {
			return nil, err
		}
	}
	if len(f.States) > 0 {
		if err := w.among("o.status ->> 'state'", f.States); err != nil {
			return nil, err
		}
	}
	spec := "NULL"
	if f.Spec {
		spec = "o.spec"
	}
	var rows []store.Observed
	var scan observedScanner
	read := 0
	err := db.query(ctx, func(r *sql.Rows) error {
		o, err := scan.row(r)
		rows = append(rows, o)
		if read += len(scan.status) + len(scan.spec); err == nil && read > mostListed {
			err = errListed
		}
		return err
	}, `SELECT o.agent, o.namespace, o.name, o.status, `+spec+` FROM observed o INDEXED BY observed_name WHERE `+
		strings.Join(w.text, " AND ")+` ORDER BY o.namespace, o.name, o.agent LIMIT ?`,
		append(w.args, max(limit, 0))...)
	return rows, err
}

const selectTasks = `
	SELECT t.num, t.id, t.app, t."user", t.request_id, t.created,
		(SELECT count(*) FROM requests r WHERE r.task = t.num), r.op, r.namespace, r.name, c.keys, c.open, c.failed
	FROM tasks t
	LEFT JOIN requests r ON r.num = (SELECT min(num) FROM requests WHERE task = t.num)
	LEFT JOIN counts c ON c.num = t.num `

// failedUnless is not null unless the item is of one of the operations, which have found the process as it was to be:
// see process.Already.
func failedUnless(ops string) string {
	return `(SELECT CASE WHEN op NOT IN ` + ops + ` THEN i.fault END FROM requests WHERE num = i.request)`
}

// counted counts the results of the tasks that a query finds.
func counted(tasks string) string {
	return `WITH found AS (` + tasks + `), counts AS (
		SELECT f.num, count(i.num) AS keys, count(CASE WHEN i.state < 4 THEN 1 END) AS open,
			count(CASE i.fault WHEN 'already-running' THEN ` + failedUnless(`('start')`) + `
				WHEN 'not-running' THEN ` + failedUnless(`('stop', 'kill')`) + `
				ELSE i.fault END) AS failed
		FROM found f LEFT JOIN items i ON i.num >= f.first_item AND i.num < f.end_item AND i.rank IS NOT NULL
		GROUP BY f.num) `
}

// ListTasks returns a page of the tasks, newest first.
func (db *Store) ListTasks(ctx context.Context, f store.TaskFilter, after int64,
	limit int,
) ([]store.TaskSummary, error) {
	if after <= 0 {
		after = math.MaxInt64
	}
	w := where{dialect: db.dialect}
	w.add("num < ?", after)
	if f.App != "" {
		w.add("app = ?", f.App)
	}
	if f.Done != nil {
		open := "num IN (SELECT task FROM items WHERE state < 4)"
		if *f.Done {
			open = "NOT " + open
		}
		w.add(open)
	}
	tasks, err := all(ctx, db.query, scanTask, counted(`SELECT num, first_item, end_item FROM tasks WHERE `+
		strings.Join(w.text, " AND ")+` ORDER BY num DESC LIMIT ?`)+
		selectTasks+`WHERE t.num IN (SELECT num FROM found) ORDER BY t.num DESC`, append(w.args, max(limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot list tasks: %w", err)
	}
	return tasks, nil
}

// GetTask returns one task.
func (db *Store) GetTask(ctx context.Context, id, app string) (store.TaskSummary, error) {
	t, err := one(ctx, db.query, scanTask,
		counted(`SELECT num, first_item, end_item FROM tasks WHERE id = ?1 AND (?2 = '' OR app = ?2)`)+
			selectTasks+`WHERE t.num IN (SELECT num FROM found)`, id, app)
	if err != nil {
		return store.TaskSummary{}, fmt.Errorf("cannot read task %s: %w", id, err)
	}
	return t, nil
}

func scanTask(rows *sql.Rows) (store.TaskSummary, error) {
	var t store.TaskSummary
	var created int64
	var op, namespace, name sql.NullString
	err := rows.Scan(&t.Number, &t.ID, &t.App, &t.User, &t.RequestID, &created, &t.Requests, &op, &namespace, &name,
		&t.Keys, &t.Open, &t.Failed)
	t.Created = moment(created)
	t.Op, t.Process.Namespace, t.Process.Name = process.Op(op.String), namespace.String, name.String
	return t, err
}

// ListWaiting returns unfinished items, oldest first.
func (db *Store) ListWaiting(ctx context.Context, f store.WaitingFilter, limit int) ([]store.Waiting, error) {
	w := where{dialect: db.dialect, text: []string{
		"i.state < 4", "i.twin IS NULL",
		"r.op NOT IN ('query', 'set-groups')",
	}}
	if f.Process != (process.ID{}) {
		w.add("r.namespace = ? AND r.name = ?", f.Process.Namespace, f.Process.Name)
	}
	if !f.Before.IsZero() {
		w.add("t.created < ?", nanos(f.Before))
	}
	var all []store.Waiting
	err := db.query(ctx, func(r *sql.Rows) error {
		var one store.Waiting
		var created int64
		err := r.Scan(&one.Task, &one.App, &one.User, &created, &one.Agent, &one.Process.Namespace, &one.Process.Name,
			&one.Op, &one.State)
		one.Created = moment(created)
		all = append(all, one)
		return err
	}, `SELECT t.id, t.app, t."user", t.created, i.agent, r.namespace, r.name, r.op, i.state
		FROM items i INDEXED BY items_deadline JOIN requests r ON r.num = i.request JOIN tasks t ON t.num = i.task
		WHERE `+strings.Join(w.text, " AND ")+` ORDER BY i.num LIMIT ?`, append(w.args, max(limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot list open items: %w", err)
	}
	return all, nil
}
