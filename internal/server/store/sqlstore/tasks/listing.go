package tasks

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
	"drover/internal/server/task"
)

const selectTasks = `
	SELECT t.num, t.id, t.app, t."user", t.request_id, t.created, t.selector, t.reason,
		(SELECT count(*) FROM requests r WHERE r.task = t.num), r.op, r.namespace, r.name, c.keys, c.open, c.failed
	FROM tasks t
	LEFT JOIN requests r ON r.num = (SELECT min(num) FROM requests WHERE task = t.num)
	LEFT JOIN counts c ON c.num = t.num `

// sees adds the condition that a caller sees a task or a rollout. of is the FROM clause of its requests or steps, with
// the alias r.
func sees(w *kit.Where, s store.Sight, of string) {
	switch {
	case s.App == "" && s.Within == nil:
	case len(s.Within) == 0:
		w.Add("app = ?", s.App)
	default:
		w.Add("(app = ? OR EXISTS (SELECT 1 FROM "+of+") AND NOT EXISTS (SELECT 1 FROM "+of+
			" AND NOT EXISTS (SELECT 1 FROM texts(?) p WHERE r.namespace "+w.Dialect.Match+" p.value)))",
			s.App, w.Dialect.Patterns(s.Within))
	}
}

// ofTask is the FROM clause of the requests of a task, and ofRollout that of the steps of a rollout, for sees.
const (
	ofTask    = "requests r WHERE r.task = tasks.num"
	ofRollout = "rollout_steps r WHERE r.rollout = rollouts.id"
)

// failedUnless is an SQL expression that is not null, except for items of the given operations that found the process
// already in the wanted state: see process.Already.
func failedUnless(ops string) string {
	return `(SELECT CASE WHEN op NOT IN ` + ops + ` THEN i.fault END FROM requests WHERE num = i.request)`
}

// failedItem is an SQL expression that is null for an item that has not failed.
func failedItem() string {
	return `CASE i.fault WHEN 'already-running' THEN ` + failedUnless(`('start')`) + `
		WHEN 'not-running' THEN ` + failedUnless(`('stop', 'kill')`) + ` ELSE i.fault END`
}

// withCounts returns a query that counts the results of the tasks that another query finds.
func withCounts(tasks string) string {
	return `WITH found AS (` + tasks + `), counts AS (
		SELECT f.num, count(i.num) AS keys, count(CASE WHEN i.state < 4 THEN 1 END) AS open,
			count(` + failedItem() + `) AS failed
		FROM found f LEFT JOIN items i ON i.num >= f.first_item AND i.num < f.end_item AND i.rank IS NOT NULL
		GROUP BY f.num) `
}

// ListTasks returns a page of the tasks, newest first.
func (db *Tasks) ListTasks(ctx context.Context, f store.TaskFilter, after int64,
	limit int,
) ([]store.TaskSummary, error) {
	if after <= 0 {
		after = math.MaxInt64
	}
	w := kit.Where{Dialect: db.Dialect}
	w.Add("num < ?", after)
	sees(&w, f.Sight, ofTask)
	w.When(f.App != "", "app = ?", f.App)
	w.When(f.User != "", `"user" = ?`, f.User)
	if !f.Since.IsZero() || !f.Until.IsZero() {
		until := int64(math.MaxInt64)
		if !f.Until.IsZero() {
			until = kit.Nanos(f.Until)
		}
		within, args := "SELECT num FROM tasks WHERE created > ? AND created <= ?", []any{kit.Nanos(f.Since), until}
		if f.Beside != nil {
			within, args = within+" ORDER BY created DESC LIMIT ?", append(args, store.MostBeside)
		}
		w.Add("num IN ("+within+")", args...)
	}
	if f.Op != "" || f.Namespace != "" {
		request := kit.Where{Dialect: db.Dialect, Text: []string{"SELECT 1 FROM " + ofTask}}
		request.When(f.Op != "", "(r.op = ? OR substr(r.op, 1, ?) = ?)", string(f.Op), len(f.Op)+1, string(f.Op)+":")
		request.Pattern("r.namespace", f.Namespace)
		w.Add("EXISTS ("+request.All()+")", request.Args...)
	}
	if b := f.Beside; b != nil {
		names := make([]string, len(b.Processes))
		for i, id := range b.Processes {
			names[i] = id.String()
		}
		w.Add("substr(id, 1, ?) <> ?", len(b.Rollout)+1, b.Rollout+"-")
		w.Add(`EXISTS (SELECT 1 FROM requests r JOIN items i ON i.num >= first_item AND i.num < end_item AND i.request = r.num
			WHERE r.task = tasks.num AND r.op NOT IN ('query', 'set-groups')
			AND r.namespace || '/' || r.name IN (SELECT value FROM texts(?) n)
			AND i.agent IN (SELECT value FROM texts(?) j))`, db.Dialect.Texts(names), db.Dialect.Texts(b.Agents))
	}
	if f.Agents != nil {
		w.Add(`EXISTS (SELECT 1 FROM items i WHERE i.num >= first_item AND i.num < end_item
			AND i.agent IN (SELECT value FROM texts(?) j))`, db.Dialect.Texts(f.Agents))
	}
	w.Whether(f.Done, "num NOT IN (SELECT task FROM items WHERE state < 4)")
	w.Whether(f.Failed, `EXISTS (SELECT 1 FROM items i WHERE i.num >= first_item AND i.num < end_item
		AND i.rank IS NOT NULL AND `+failedItem()+` IS NOT NULL)`)
	tasks, err := kit.All(ctx, db.Query, scanTask, withCounts(`SELECT num, first_item, end_item FROM tasks WHERE `+
		w.All()+` ORDER BY num DESC LIMIT ?`)+
		selectTasks+`WHERE t.num IN (SELECT num FROM found) ORDER BY t.num DESC`, append(w.Args, max(limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot list tasks: %w", err)
	}
	return tasks, nil
}

// TaskOn reports whether a task has an item on one of some agents.
func (db *Tasks) TaskOn(ctx context.Context, number int64, agents []string) (bool, error) {
	on, err := kit.One(ctx, db.Query, kit.Column[bool], `SELECT EXISTS (SELECT 1 FROM tasks t
		JOIN items i ON i.num >= t.first_item AND i.num < t.end_item
		WHERE t.num = ? AND i.agent IN (SELECT value FROM texts(?) j))`, number, db.Dialect.Texts(agents))
	return on, kit.Wrapped(err, "cannot look for the hosts of a task")
}

// GetTask returns one task.
func (db *Tasks) GetTask(ctx context.Context, id, app string) (store.TaskSummary, error) {
	t, err := kit.One(ctx, db.Query, scanTask,
		withCounts(`SELECT num, first_item, end_item FROM tasks WHERE id = ?1 AND (?2 = '' OR app = ?2)`)+
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
	err := rows.Scan(&t.Number, &t.ID, &t.App, &t.User, &t.RequestID, &created, &t.Selector, &t.Reason, &t.Requests,
		&op, &namespace, &name, &t.Keys, &t.Open, &t.Failed)
	t.Created = kit.Moment(created)
	t.Op, t.Process.Namespace, t.Process.Name = process.Op(op.String), namespace.String, name.String
	return t, err
}

// ListOpenItems returns unfinished items, oldest first.
func (db *Tasks) ListOpenItems(ctx context.Context, f store.OpenItemFilter, limit int) ([]store.OpenItem, error) {
	w := kit.Where{Dialect: db.Dialect, Text: []string{
		"i.state < 4", "i.twin IS NULL",
		"r.op NOT IN ('query', 'set-groups')",
	}}
	if f.Process != (process.ID{}) {
		w.Add("r.namespace = ?", f.Process.Namespace)
		w.Name("r.name", f.Process.Name, f.Copies)
	}
	w.When(!f.Before.IsZero(), "t.created < ?", kit.Nanos(f.Before))
	waiting, err := kit.All(ctx, db.Query, func(r *sql.Rows) (i store.OpenItem, err error) {
		var created int64
		err = r.Scan(&i.Task, &i.App, &i.User, &created, &i.Agent, &i.Process.Namespace, &i.Process.Name, &i.Op,
			&i.State)
		i.Created = kit.Moment(created)
		return i, err
	}, `SELECT t.id, t.app, t."user", t.created, i.agent, r.namespace, r.name, r.op, i.state
		FROM items i INDEXED BY items_deadline JOIN requests r ON r.num = i.request JOIN tasks t ON t.num = i.task
		WHERE `+w.All()+` ORDER BY i.num LIMIT ?`, append(w.Args, max(limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot list open items: %w", err)
	}
	return waiting, nil
}

// Counts counts observed processes and unfinished items.
func (db *Tasks) Counts(ctx context.Context) (store.Counts, error) {
	f := store.Counts{Processes: map[string]int{}, Items: map[task.State]int{}}
	err := db.Query(ctx, func(r *sql.Rows) error {
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
	err = db.Query(ctx, func(r *sql.Rows) error {
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
func (db *Tasks) OpenItems(ctx context.Context) (int, error) {
	n, err := kit.One(ctx, db.Query, kit.Column[int], `SELECT count(*) FROM items INDEXED BY items_deadline WHERE state < 4`)
	if err != nil {
		return 0, fmt.Errorf("cannot count open items: %w", err)
	}
	return n, nil
}
