package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/task"
	"drover/internal/wildcard"
)

// where collects conditions and their parameters.
type where struct {
	dialect *sqldb.Dialect
	text    []string
	args    []any
}

func (w *where) add(condition string, args ...any) {
	w.text = append(w.text, condition)
	w.args = append(w.args, args...)
}

// when adds a condition if it is wanted.
func (w *where) when(wanted bool, condition string, args ...any) {
	if wanted {
		w.add(condition, args...)
	}
}

// whether adds a condition that must hold or not; nil is either.
func (w *where) whether(wanted *bool, condition string) {
	switch {
	case wanted == nil:
	case *wanted:
		w.add(condition)
	default:
		w.add("NOT (" + condition + ")")
	}
}

// all returns the conditions for a WHERE. The number of distinct texts is the number of combinations of conditions, so
// each statement can stay prepared.
func (w *where) all() string { return strings.Join(w.text, " AND ") }

// pattern adds a condition on a column. It compares a pattern without wildcards for equality, so that an index can
// serve it.
func (w *where) pattern(column, pattern string) {
	switch {
	case pattern == "":
	case !wildcard.IsPattern(pattern):
		w.add(column+" = ?", pattern)
	default:
		w.add(column+" "+w.dialect.Match+" ?", w.dialect.Pattern(pattern))
	}
}

// digits are at the end of the name of a copy.
const digits = "'0123456789'"

// names adds the condition that a column of names matches a pattern, or with copies is the name of a copy of a match.
func (w *where) names(column, pattern string, copies bool) {
	switch {
	case pattern == "" || !copies:
		w.pattern(column, pattern)
	case wildcard.IsPattern(pattern):
		w.add("("+column+" "+w.dialect.Match+" ? OR rtrim("+column+", "+digits+") "+w.dialect.Match+" ?)",
			w.dialect.Pattern(pattern), w.dialect.Pattern(pattern+"@"))
	default:
		w.name(column, pattern, copies)
	}
}

// name adds the condition that a column is a name, or with copies the name of a copy of it. The range serves an index:
// in ASCII a colon follows the digits.
func (w *where) name(column, name string, copies bool) {
	if !copies {
		w.add(column+" = ?", name)
		return
	}
	w.add(column+" >= ? AND "+column+" < ? AND ("+column+" = ? OR rtrim("+column+", "+digits+") = ?)",
		name, name+"@:", name, name+"@")
}

// within adds the condition that a column matches one of the patterns; nil matches all.
func (w *where) within(column string, patterns []string) {
	if patterns != nil {
		w.add("EXISTS (SELECT 1 FROM texts(?) p WHERE "+column+" "+w.dialect.Match+" p.value)",
			w.dialect.Patterns(patterns))
	}
}

// among adds the condition that a column has one of the values.
func (w *where) among(column string, values []string) {
	w.add(column+" IN (SELECT value FROM texts(?) j)", w.dialect.Texts(values))
}

// mostListed is how many bytes of statuses and specs one read returns, because both the server and its caller hold them
// in memory.
const mostListed = 8 << 20

// errListed ends a read that has reached mostListed.
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

// observedAfter is the condition on rows o of processes on agents after a place, by what a filter says of their names.
func (db *Store) observedAfter(f store.ObservedFilter, after store.ObservedKey) where {
	w := where{dialect: db.dialect}
	w.add("(o.namespace, o.name, o.agent) > (?, ?, ?)", after.Process.Namespace, after.Process.Name, after.Agent)
	if f.Process != (process.ID{}) {
		w.add("o.namespace = ?", f.Process.Namespace)
		w.name("o.name", f.Process.Name, f.Copies)
	}
	w.pattern("o.namespace", f.Namespace)
	w.within("o.namespace", f.Within)
	w.names("o.name", f.Name, f.Copies)
	if f.Agents != nil {
		w.among("o.agent", f.Agents)
	}
	return w
}

func (db *Store) listObserved(ctx context.Context, f store.ObservedFilter, after store.ObservedKey,
	limit int,
) ([]store.Observed, error) {
	w := db.observedAfter(f, after)
	if len(f.States) > 0 {
		w.among("o.status ->> 'state'", f.States)
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
		w.all()+` ORDER BY o.namespace, o.name, o.agent LIMIT ?`,
		append(w.args, max(limit, 0))...)
	return rows, err
}

// ObservedAt calls fn with the rows of processes.
func (db *Store) ObservedAt(ctx context.Context, keys []store.ObservedKey, spec bool, fn func(store.Observed)) error {
	specs, places := "NULL", make([][3]string, len(keys))
	if spec {
		specs = "o.spec"
	}
	for i, k := range keys {
		places[i] = [3]string{k.Process.Namespace, k.Process.Name, k.Agent}
	}
	var scan observedScanner
	err := db.query(ctx, func(r *sql.Rows) error {
		o, err := scan.row(r)
		if err == nil {
			fn(o)
		}
		return err
	}, `SELECT o.agent, o.namespace, o.name, o.status, `+specs+` FROM triples(?) j
		CROSS JOIN observed o ON o.namespace = j.a AND o.name = j.b AND o.agent = j.c`, db.dialect.Triples(places))
	if err != nil {
		return fmt.Errorf("cannot read observations: %w", err)
	}
	return nil
}

const selectTasks = `
	SELECT t.num, t.id, t.app, t."user", t.request_id, t.created, t.selector, t.reason,
		(SELECT count(*) FROM requests r WHERE r.task = t.num), r.op, r.namespace, r.name, c.keys, c.open, c.failed
	FROM tasks t
	LEFT JOIN requests r ON r.num = (SELECT min(num) FROM requests WHERE task = t.num)
	LEFT JOIN counts c ON c.num = t.num `

// sees adds the condition that a caller sees a task or a rollout. of is what follows FROM for its requests or steps r.
func (w *where) sees(s store.Sight, of string) {
	switch {
	case s.App == "" && s.Within == nil:
	case len(s.Within) == 0:
		w.add("app = ?", s.App)
	default:
		w.add("(app = ? OR EXISTS (SELECT 1 FROM "+of+") AND NOT EXISTS (SELECT 1 FROM "+of+
			" AND NOT EXISTS (SELECT 1 FROM texts(?) p WHERE r.namespace "+w.dialect.Match+" p.value)))",
			s.App, w.dialect.Patterns(s.Within))
	}
}

// ofTask are the requests of a task, and ofRollout the steps of a rollout.
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

// counted returns a query that counts the results of the tasks that another query finds.
func counted(tasks string) string {
	return `WITH found AS (` + tasks + `), counts AS (
		SELECT f.num, count(i.num) AS keys, count(CASE WHEN i.state < 4 THEN 1 END) AS open,
			count(` + failedItem() + `) AS failed
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
	w.sees(f.Sight, ofTask)
	w.when(f.App != "", "app = ?", f.App)
	w.when(f.User != "", `"user" = ?`, f.User)
	if !f.Since.IsZero() || !f.Until.IsZero() {
		until := int64(math.MaxInt64)
		if !f.Until.IsZero() {
			until = nanos(f.Until)
		}
		within, args := "SELECT num FROM tasks WHERE created > ? AND created <= ?", []any{nanos(f.Since), until}
		if f.Beside != nil {
			within, args = within+" ORDER BY created DESC LIMIT ?", append(args, store.MostBeside)
		}
		w.add("num IN ("+within+")", args...)
	}
	if f.Op != "" || f.Namespace != "" {
		request := where{dialect: db.dialect, text: []string{"SELECT 1 FROM " + ofTask}}
		request.when(f.Op != "", "(r.op = ? OR substr(r.op, 1, ?) = ?)", string(f.Op), len(f.Op)+1, string(f.Op)+":")
		request.pattern("r.namespace", f.Namespace)
		w.add("EXISTS ("+request.all()+")", request.args...)
	}
	if b := f.Beside; b != nil {
		names := make([]string, len(b.Processes))
		for i, id := range b.Processes {
			names[i] = id.String()
		}
		w.add("substr(id, 1, ?) <> ?", len(b.Rollout)+1, b.Rollout+"-")
		w.add(`EXISTS (SELECT 1 FROM requests r JOIN items i ON i.num >= first_item AND i.num < end_item AND i.request = r.num
			WHERE r.task = tasks.num AND r.op NOT IN ('query', 'set-groups')
			AND r.namespace || '/' || r.name IN (SELECT value FROM texts(?) n)
			AND i.agent IN (SELECT value FROM texts(?) j))`, db.dialect.Texts(names), db.dialect.Texts(b.Agents))
	}
	if f.Agents != nil {
		w.add(`EXISTS (SELECT 1 FROM items i WHERE i.num >= first_item AND i.num < end_item
			AND i.agent IN (SELECT value FROM texts(?) j))`, db.dialect.Texts(f.Agents))
	}
	w.whether(f.Done, "num NOT IN (SELECT task FROM items WHERE state < 4)")
	w.whether(f.Failed, `EXISTS (SELECT 1 FROM items i WHERE i.num >= first_item AND i.num < end_item
		AND i.rank IS NOT NULL AND `+failedItem()+` IS NOT NULL)`)
	tasks, err := all(ctx, db.query, scanTask, counted(`SELECT num, first_item, end_item FROM tasks WHERE `+
		w.all()+` ORDER BY num DESC LIMIT ?`)+
		selectTasks+`WHERE t.num IN (SELECT num FROM found) ORDER BY t.num DESC`, append(w.args, max(limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot list tasks: %w", err)
	}
	return tasks, nil
}

// TaskOn reports whether a task has an item on one of some agents.
func (db *Store) TaskOn(ctx context.Context, number int64, agents []string) (bool, error) {
	on, err := one(ctx, db.query, column[bool], `SELECT EXISTS (SELECT 1 FROM tasks t
		JOIN items i ON i.num >= t.first_item AND i.num < t.end_item
		WHERE t.num = ? AND i.agent IN (SELECT value FROM texts(?) j))`, number, db.dialect.Texts(agents))
	return on, wrapped(err, "cannot look for the hosts of a task")
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
	err := rows.Scan(&t.Number, &t.ID, &t.App, &t.User, &t.RequestID, &created, &t.Selector, &t.Reason, &t.Requests,
		&op, &namespace, &name, &t.Keys, &t.Open, &t.Failed)
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
		w.add("r.namespace = ?", f.Process.Namespace)
		w.name("r.name", f.Process.Name, f.Copies)
	}
	w.when(!f.Before.IsZero(), "t.created < ?", nanos(f.Before))
	waiting, err := all(ctx, db.query, func(r *sql.Rows) (i store.Waiting, err error) {
		var created int64
		err = r.Scan(&i.Task, &i.App, &i.User, &created, &i.Agent, &i.Process.Namespace, &i.Process.Name, &i.Op,
			&i.State)
		i.Created = moment(created)
		return i, err
	}, `SELECT t.id, t.app, t."user", t.created, i.agent, r.namespace, r.name, r.op, i.state
		FROM items i INDEXED BY items_deadline JOIN requests r ON r.num = i.request JOIN tasks t ON t.num = i.task
		WHERE `+w.all()+` ORDER BY i.num LIMIT ?`, append(w.args, max(limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot list open items: %w", err)
	}
	return waiting, nil
}

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
func (db *Store) OpenItems(ctx context.Context) (int, error) {
	n, err := one(ctx, db.query, column[int], `SELECT count(*) FROM items INDEXED BY items_deadline WHERE state < 4`)
	if err != nil {
		return 0, fmt.Errorf("cannot count open items: %w", err)
	}
	return n, nil
}

// LastReports returns the place of the last report of each agent.
func (db *Store) LastReports(ctx context.Context) (map[string]store.ReportPlace, error) {
	places := map[string]store.ReportPlace{}
	err := db.query(ctx, func(r *sql.Rows) error {
		var agent string
		var p store.ReportPlace
		err := r.Scan(&agent, &p.Session, &p.Number)
		places[agent] = p
		return err
	}, `SELECT agent, session, number FROM agent_reports`)
	if err != nil {
		return nil, fmt.Errorf("cannot read the places of reports: %w", err)
	}
	return places, nil
}

// ObservedOn calls fn with the rows of agents.
func (db *Store) ObservedOn(ctx context.Context, agents []string, fn func(store.Observed)) error {
	var scan observedScanner
	err := db.query(ctx, func(r *sql.Rows) error {
		o, err := scan.row(r)
		if err == nil {
			fn(o)
		}
		return err
	}, `SELECT o.agent, o.namespace, o.name, o.status, o.spec FROM texts(?) j
		CROSS JOIN observed o ON o.agent = j.value`, db.dialect.Texts(agents))
	if err != nil {
		return fmt.Errorf("cannot read observations of agents: %w", err)
	}
	return nil
}

// HoldSelection stores a selection, and deletes the oldest of its owner.
func (db *Store) HoldSelection(ctx context.Context, s store.HeldSelection, most int, ofApp bool) error {
	owner, args := `app = ?1 AND "user" = ?3`, []any{s.App, most, s.User}
	if ofApp {
		owner, args = `app = ?1`, args[:2]
	}
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := inserted(tx.affect(ctx, `INSERT INTO held_selections (id, app, "user", until, filter, targets)
			VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			s.ID, s.App, s.User, nanos(s.Until), s.Filter, string(s.Targets))); err != nil {
			return err
		}
		return tx.exec(ctx, `DELETE FROM held_selections WHERE `+owner+` AND num <= (
			SELECT num FROM held_selections WHERE `+owner+` ORDER BY num DESC LIMIT 1 OFFSET ?2)`, args...)
	})
	return wrapped(err, "cannot hold the selection")
}

// PruneSelections removes selections that have ended.
func (db *Store) PruneSelections(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		n, err = tx.affect(ctx, `DELETE FROM held_selections WHERE num IN (
			SELECT num FROM held_selections WHERE until < ? ORDER BY until LIMIT ?)`, nanos(before), max(limit, 0))
		return err
	})
	return n, wrapped(err, "cannot prune selections")
}

// FindSelection returns a selection of its owner.
func (db *Store) FindSelection(ctx context.Context, id, app, user string, now time.Time) (store.HeldSelection, error) {
	s, err := one(ctx, db.query, func(r *sql.Rows) (s store.HeldSelection, err error) {
		var until int64
		var targets string
		err = r.Scan(&s.ID, &s.App, &s.User, &until, &s.Filter, &targets)
		s.Until, s.Targets = moment(until), []byte(targets)
		return s, err
	}, `SELECT id, app, "user", until, filter, targets FROM held_selections
		WHERE id = ? AND app = ? AND "user" = ? AND until > ?`, id, app, user, nanos(now))
	return s, wrapped(err, "cannot read the selection")
}
