package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
)

// CreateRollouts inserts rollouts.
func (db *Store) CreateRollouts(ctx context.Context, list []*store.Rollout, row store.AuditRow) error {
	steps := make([][]any, len(list))
	for i, r := range list {
		var err error
		if steps[i], err = stepRows(r.Steps); err != nil {
			return fmt.Errorf("cannot create rollout %s: %w", r.ID, err)
		}
	}
	_, err := db.writeEvents(ctx, row.At, func(ctx context.Context, tx tx, events *arrivals) error {
		for i, r := range list {
			if end := r.Ends; end != nil {
				_, err := db.changeRollout(ctx, tx, events, r.Undoes, "", end.RolloutChange, end.Change)
				if err != nil {
					return err
				}
			}
			if err := db.createRollout(ctx, tx, r, steps[i]); err != nil {
				return fmt.Errorf("cannot create rollout %s: %w", r.ID, err)
			}
		}
		return insertAudit(ctx, tx, &row)
	})
	if err != nil {
		return err
	}
	db.watch.Audited(1)
	return nil
}

// createRollout inserts one rollout with the rows of its steps.
func (db *Store) createRollout(ctx context.Context, tx tx, r *store.Rollout, steps []any) error {
	if err := db.checkRollouts(ctx, tx, r.ID, r.Processes(), r.Agents()); err != nil {
		return err
	}
	if k := r.Known; k != nil {
		if latest, err := db.lockNamespace(ctx, tx, k.Namespace); err != nil {
			return err
		} else if latest != k.Number {
			return store.ErrRevised
		}
	}
	if err := putRun(ctx, tx, r.Run); err != nil {
		return err
	}
	if err := insertRollout(ctx, tx, r); err != nil {
		return err
	}
	err := rowValues{
		head:   `INSERT INTO rollout_steps (rollout, place, op, namespace, name, removes, spec, former) VALUES `,
		row:    `(?1, ?, ?, ?, ?, ?, ?, ?)`,
		shared: []any{r.ID},
	}.run(ctx, tx, steps)
	if err != nil {
		return err
	}
	places := make([]int, len(r.Hosts))
	for i := range places {
		places[i] = i
	}
	return insertHosts(ctx, tx, r.ID, &r.Rollout, places)
}

// insertRollout inserts the row of a rollout.
func insertRollout(ctx context.Context, tx tx, r *store.Rollout) error {
	plan, err := json.Marshal(r.Plan)
	if err != nil {
		return err
	}
	approvals, err := json.Marshal(r.Approvals)
	if err != nil {
		return err
	}
	selections, err := optionalJSON(r.Selections)
	if err != nil {
		return err
	}
	former, err := optionalJSON(r.Former)
	if err != nil {
		return err
	}
	return inserted(tx.affect(ctx,
		`INSERT INTO rollouts (num, id, app, "user", request_id, created, op, host_timeout, selector, total, plan, begins,
			approvals, undoes, schedule, through, message, state, reason, batch, settled, forgiven, selections, former)
		VALUES ((SELECT coalesce(max(num), 0) + 1 FROM rollouts), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
			?, ?, ?, ?, ?)
		ON CONFLICT (id) DO NOTHING`,
		r.ID, r.App, r.User, r.RequestID, nanos(r.Created), string(r.Op), int64(r.HostTimeout), r.Selector,
		len(r.Hosts), string(plan), optionalNanos(r.At), string(approvals), r.Undoes, r.Schedule, r.Through,
		r.Message, string(r.State), r.Reason, r.Batch, optionalNanos(r.Settled), r.Forgiven, selections, former))
}

// optionalJSON returns the text of a change; nil if there is none.
func optionalJSON(c *store.SelectionChange) (any, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // NULL
	}
	text, err := json.Marshal(c)
	return string(text), err
}

// selectionsOf reads a column of a rollout with a change of selections; nil if it is NULL.
func selectionsOf(ctx context.Context, query queryFunc, column, id string) (*store.SelectionChange, error) {
	text, err := one(ctx, query, func(rows *sql.Rows) (text sql.NullString, err error) {
		err = rows.Scan(&text)
		return text, err
	}, `SELECT `+column+` FROM rollouts WHERE id = ?`, id)
	if err != nil || !text.Valid {
		return nil, err
	}
	var c store.SelectionChange
	return &c, json.Unmarshal([]byte(text.String), &c)
}

// FormerSelections reads what a rollout has replaced, once it has.
func (db *Store) FormerSelections(ctx context.Context, id string) (*store.SelectionChange, error) {
	c, err := selectionsOf(ctx, db.query, "CASE WHEN selections IS NULL THEN former END", id)
	if err != nil {
		return nil, fmt.Errorf("cannot read the former selections of rollout %s: %w", id, err)
	}
	return c, nil
}

// selectByRollout brings the selections of a rollout that is done into force, once. It leaves the entries alone that a
// later apply has changed.
func (db *Store) selectByRollout(ctx context.Context, tx tx, id string) error {
	c, err := selectionsOf(ctx, tx.query, "selections", id)
	if err != nil || c == nil {
		return err
	}
	former, err := selectionsOf(ctx, tx.query, "former", id)
	if err != nil {
		return err
	}
	if _, err := db.lockNamespace(ctx, tx, c.Namespace); err != nil {
		return err
	}
	now, err := listSelections(ctx, tx.query, c.Namespace)
	if err != nil {
		return err
	}
	of := func(list []store.Selection, entry string) (found []string) {
		for _, s := range list {
			if base, _ := process.CutCopy(s.Process.Name); base == entry {
				found = append(found, fmt.Sprint(s.Process.Name, " ", s.Selector, " ", s.At.UnixNano()))
			}
		}
		slices.Sort(found)
		return found
	}
	later := func(name string) bool {
		entry, _ := process.CutCopy(name)
		return former != nil && !slices.Equal(of(now, entry), of(former.Now, entry))
	}
	c.Entries = slices.DeleteFunc(c.Entries, later)
	c.Now = slices.DeleteFunc(c.Now, func(s store.Selection) bool { return later(s.Process.Name) })
	laterOn := func(m store.ObservedKey) bool { return later(m.Process.Name) }
	c.Members, c.Released = slices.DeleteFunc(c.Members, laterOn), slices.DeleteFunc(c.Released, laterOn)
	if err := db.putSelections(ctx, tx, *c); err != nil {
		return err
	}
	return tx.exec(ctx, `UPDATE rollouts SET selections = NULL WHERE id = ?`, id)
}

// stepRows returns the values of the rows of steps. A spec that many steps share is encoded once.
func stepRows(steps []store.RolloutStep) ([]any, error) {
	args := make([]any, 0, 7*len(steps))
	known := map[*process.Spec]any{}
	text := func(s *process.Spec) (any, error) {
		if encoded, ok := known[s]; ok {
			return encoded, nil
		}
		encoded, err := encode(s)
		if err != nil {
			return nil, err
		}
		known[s] = optional(encoded.String, encoded.Valid)
		return known[s], nil
	}
	for i := range steps {
		s := &steps[i]
		spec, err := text(s.Spec)
		if err != nil {
			return nil, err
		}
		former, err := text(s.Former)
		if err != nil {
			return nil, err
		}
		args = append(args, i, string(s.Op), s.Process.Namespace, s.Process.Name, s.Removes, spec, former)
	}
	return args, nil
}

// insertHosts inserts the rows of hosts at some places.
func insertHosts(ctx context.Context, tx tx, id string, r *rollout.Rollout, places []int) error {
	args := make([]any, 0, 9*len(places))
	for _, i := range places {
		h := &r.Hosts[i]
		args = append(args, i, h.Agent, h.Name, sqldb.Array(h.Steps), h.Batch, string(h.State), optionalNanos(h.Begun),
			h.Cause, h.Text)
	}
	return rowValues{
		head:   `INSERT INTO rollout_hosts (rollout, place, agent, name, steps, batch, state, begun, cause, text) VALUES `,
		row:    `(?1, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		shared: []any{id},
	}.run(ctx, tx, args)
}

// checkRollouts fails if another active rollout has one of the processes; of upgrades, if it has one of the agents. It
// keeps other transactions from adding one until this transaction ends.
func (db *Store) checkRollouts(ctx context.Context, tx tx, id string, processes []process.ID, agents []string) error {
	if err := db.lockLanes(ctx, tx, func(yield func(string) bool) { yield("") }); err != nil {
		return err
	}
	agent := process.AgentID()
	pairs := make([][2]string, len(processes))
	for i, p := range processes {
		pairs[i] = [2]string{p.Namespace, p.Name}
	}
	busy, err := all(ctx, tx.query, func(rows *sql.Rows) (e store.RolloutBusyError, err error) {
		err = rows.Scan(&e.ID, &e.Process.Namespace, &e.Process.Name, &e.State, &e.Host)
		return e, err
	}, `SELECT r.id, p.namespace, p.name, r.state, coalesce(h.name, '') FROM names(?1) j
		CROSS JOIN rollout_steps p ON p.namespace = j.a AND p.name = j.b
		CROSS JOIN rollouts r ON r.id = p.rollout
		LEFT JOIN rollout_hosts h ON h.rollout = r.id AND p.namespace = ?3 AND p.name = ?4
			AND h.agent IN (SELECT a.value FROM texts(?5) a)
		WHERE r.state NOT IN ('done', 'aborted') AND r.id <> ?2
			AND (p.namespace <> ?3 OR p.name <> ?4 OR h.name IS NOT NULL)
		ORDER BY r.num, h.place LIMIT 1`, sqldb.Array(pairs), id, agent.Namespace, agent.Name, db.dialect.Texts(agents))
	if err == nil && len(busy) > 0 {
		return &busy[0]
	}
	return err
}

// optionalNanos writes a time that may be zero.
func optionalNanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return nanos(t)
}

// optionalMoment reads a time that may be 0.
func optionalMoment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return moment(n)
}

const selectRollouts = `SELECT num, id, app, "user", request_id, created, op, host_timeout, selector, total, plan, begins,
	approvals, undoes, schedule, through, message, state, reason, batch, settled, forgiven FROM rollouts `

func scanRollout(rows *sql.Rows) (store.Rollout, error) {
	var r store.Rollout
	var created, timeout, begins, settled int64
	var plan, approvals string
	err := rows.Scan(&r.Number, &r.ID, &r.App, &r.User, &r.RequestID, &created, &r.Op, &timeout, &r.Selector, &r.Total,
		&plan, &begins, &approvals, &r.Undoes, &r.Schedule, &r.Through, &r.Message, &r.State, &r.Reason, &r.Batch,
		&settled, &r.Forgiven)
	if err == nil {
		err = json.Unmarshal([]byte(plan), &r.Plan)
	}
	if err == nil {
		err = json.Unmarshal([]byte(approvals), &r.Approvals)
	}
	r.Created, r.HostTimeout, r.At, r.Settled = moment(created), time.Duration(timeout), optionalMoment(begins),
		optionalMoment(settled)
	return r, err
}

// GetRollout returns a rollout.
func (db *Store) GetRollout(ctx context.Context, id, app string) (*store.Rollout, error) {
	r, err := readRollout(ctx, db.query, selectRollouts+`WHERE id = ?1 AND (?2 = '' OR app = ?2)`, id, app)
	if err != nil {
		return nil, fmt.Errorf("cannot read rollout %s: %w", id, err)
	}
	return r, nil
}

// readRollout reads a rollout and its hosts.
func readRollout(ctx context.Context, query queryFunc, text, id, app string) (*store.Rollout, error) {
	r, err := one(ctx, query, scanRollout, text, id, app)
	if err != nil {
		return nil, err
	}
	if r.Steps, err = stepsOf(ctx, query, id); err != nil {
		return nil, err
	}
	r.Hosts, err = all(ctx, query, func(rows *sql.Rows) (h rollout.Host, err error) {
		var list string
		var begun int64
		err = rows.Scan(&h.Agent, &h.Name, &list, &h.Batch, &h.State, &begun, &h.Cause, &h.Text)
		if err == nil {
			err = json.Unmarshal([]byte(list), &h.Steps)
		}
		h.Begun = optionalMoment(begun)
		return h, err
	}, `SELECT agent, name, steps, batch, state, begun, cause, text FROM rollout_hosts WHERE rollout = ? ORDER BY place`,
		id)
	return &r, err
}

// stepsOf returns the steps of a rollout without their specs.
func stepsOf(ctx context.Context, query queryFunc, id string) ([]store.RolloutStep, error) {
	return all(ctx, query, func(rows *sql.Rows) (s store.RolloutStep, err error) {
		err = rows.Scan(&s.Op, &s.Process.Namespace, &s.Process.Name, &s.Removes)
		return s, err
	}, `SELECT op, namespace, name, removes FROM rollout_steps WHERE rollout = ? ORDER BY place`, id)
}

// RolloutSteps returns the steps of a rollout with their specs.
func (db *Store) RolloutSteps(ctx context.Context, id string) ([]store.RolloutStep, error) {
	known := map[string]*process.Spec{}
	decode := func(text sql.NullString) (*process.Spec, error) {
		if !text.Valid || known[text.String] != nil {
			return known[text.String], nil
		}
		s := &process.Spec{}
		known[text.String] = s
		return s, json.Unmarshal([]byte(text.String), s)
	}
	steps, err := all(ctx, db.query, func(rows *sql.Rows) (s store.RolloutStep, err error) {
		var spec, former sql.NullString
		err = rows.Scan(&s.Op, &s.Process.Namespace, &s.Process.Name, &s.Removes, &spec, &former)
		if err == nil {
			s.Spec, err = decode(spec)
		}
		if err == nil {
			s.Former, err = decode(former)
		}
		return s, err
	}, `SELECT op, namespace, name, removes, spec, former FROM rollout_steps WHERE rollout = ? ORDER BY place`, id)
	if err != nil {
		return nil, fmt.Errorf("cannot read the steps of rollout %s: %w", id, err)
	}
	return steps, nil
}

// ListRollouts lists rollouts, newest first.
func (db *Store) ListRollouts(ctx context.Context, f store.RolloutFilter, after int64,
	limit int,
) ([]store.Rollout, error) {
	if after <= 0 {
		after = math.MaxInt64
	}
	w := where{dialect: db.dialect}
	w.add("num < ?", after)
	w.sees(f.Sight, ofRollout)
	if f.Namespace != "" {
		step := where{dialect: db.dialect, text: []string{"SELECT 1 FROM " + ofRollout}}
		step.pattern("r.namespace", f.Namespace)
		w.add("EXISTS ("+step.all()+")", step.args...)
	}
	w.when(f.State != "", "state = ?", string(f.State))
	w.when(f.Active, "state IN ('scheduled', 'running', 'held', 'paused')")
	if f.Agents != nil {
		w.add(`EXISTS (SELECT 1 FROM rollout_hosts h
			WHERE h.rollout = rollouts.id AND h.agent IN (SELECT value FROM texts(?) j))`, db.dialect.Texts(f.Agents))
	}
	list, err := all(ctx, db.query, scanRollout, selectRollouts+`WHERE `+w.all()+` ORDER BY num DESC LIMIT ?`,
		append(w.args, limit)...)
	if err == nil && len(list) > 0 {
		err = db.completeRollouts(ctx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list rollouts: %w", err)
	}
	return list, nil
}

// AbortedRollouts returns those of some rollouts that were aborted.
func (db *Store) AbortedRollouts(ctx context.Context, ids []string) ([]string, error) {
	list, err := all(ctx, db.query, column[string], `SELECT id FROM rollouts WHERE state = 'aborted'
		AND id IN (SELECT j.value FROM texts(?) j)`, db.dialect.Texts(ids))
	if err != nil {
		return nil, fmt.Errorf("cannot read rollouts: %w", err)
	}
	return list, nil
}

// completeRollouts reads the steps of rollouts and counts their hosts, with a statement for each.
func (db *Store) completeRollouts(ctx context.Context, list []store.Rollout) error {
	ids, of := make([]string, len(list)), make(map[string]*store.Rollout, len(list))
	for i := range list {
		ids[i], of[list[i].ID] = list[i].ID, &list[i]
		list[i].States = map[rollout.HostState]int{}
	}
	err := db.query(ctx, func(rows *sql.Rows) error {
		var id string
		var s store.RolloutStep
		err := rows.Scan(&id, &s.Op, &s.Process.Namespace, &s.Process.Name, &s.Removes)
		of[id].Steps = append(of[id].Steps, s)
		return err
	}, `SELECT rollout, op, namespace, name, removes FROM rollout_steps
		WHERE rollout IN (SELECT j.value FROM texts(?1) j) ORDER BY rollout, place`, db.dialect.Texts(ids))
	if err != nil {
		return err
	}
	return db.query(ctx, func(rows *sql.Rows) error {
		var id string
		var state rollout.HostState
		var n int
		err := rows.Scan(&id, &state, &n)
		of[id].States[state] = n
		return err
	}, `SELECT rollout, state, count(*) FROM rollout_hosts
		WHERE rollout IN (SELECT j.value FROM texts(?1) j) GROUP BY rollout, state`, db.dialect.Texts(ids))
}

// OpenRollouts returns the rollouts that need a driver now.
func (db *Store) OpenRollouts(ctx context.Context, now time.Time) (open []string, next time.Time, err error) {
	err = db.query(ctx, func(rows *sql.Rows) error {
		var id string
		var begins int64
		if err := rows.Scan(&id, &begins); err != nil {
			return err
		}
		if at := moment(begins); !at.After(now) {
			open = append(open, id)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
		return nil
	}, `SELECT id, 0 FROM rollouts WHERE state = 'running'
		UNION SELECT id, begins FROM rollouts WHERE state = 'scheduled'
		UNION SELECT id, 0 FROM rollouts WHERE state = 'paused' AND plan LIKE '%"undo_on_failure":true%'
			AND plan NOT LIKE '%"not_undone":true%' AND EXISTS (SELECT 1 FROM rollout_hosts h WHERE h.rollout = rollouts.id AND h.state = 'failed')
		UNION SELECT rollout, 0 FROM rollout_hosts WHERE state IN ('begun', 'baking')`)
	if err != nil {
		return nil, next, fmt.Errorf("cannot list open rollouts: %w", err)
	}
	return open, next, nil
}

// ChangeRollout changes a rollout in one transaction.
func (db *Store) ChangeRollout(ctx context.Context, id, app string, by store.RolloutChange,
	change func(*rollout.Rollout) error,
) (r *store.Rollout, err error) {
	_, err = db.writeEvents(ctx, by.At, func(ctx context.Context, tx tx, events *arrivals) (err error) {
		r, err = db.changeRollout(ctx, tx, events, id, app, by, change)
		return err
	})
	return r, err
}

// changeRollout changes a rollout, and adds the event of the change.
func (db *Store) changeRollout(ctx context.Context, tx tx, events *arrivals, id, app string, by store.RolloutChange,
	change func(*rollout.Rollout) error,
) (*store.Rollout, error) {
	fail := func(err error) (*store.Rollout, error) {
		return nil, fmt.Errorf("cannot change rollout %s: %w", id, err)
	}
	r, err := readRollout(ctx, tx.query, selectRollouts+`WHERE id = ?1 AND (?2 = '' OR app = ?2)`+db.dialect.Locked,
		id, app)
	if err != nil {
		return fail(err)
	}
	before := r.Rollout
	before.Hosts = slices.Clone(r.Hosts)
	if err := change(&r.Rollout); err != nil {
		return fail(err)
	}
	if r.State.Active() && !before.State.Active() {
		if err := db.checkRollouts(ctx, tx, id, r.Processes(), r.Agents()); err != nil {
			return fail(err)
		}
	}
	if r.State == rollout.Done && before.State != rollout.Done && !r.TooManyFailed() {
		if err := db.selectByRollout(ctx, tx, id); err != nil {
			return fail(err)
		}
	}
	if err := storeRollout(ctx, tx, id, &before, &r.Rollout); err != nil {
		return fail(err)
	}
	if err := events.ofRollout(ctx, tx, r, before.State, by); err != nil {
		return fail(err)
	}
	return r, nil
}

// ofRollout adds the event of a rollout that had another state before.
func (a *arrivals) ofRollout(ctx context.Context, tx tx, r *store.Rollout, from rollout.State, by store.RolloutChange,
) error {
	if r.State == from || len(r.Hosts) == 0 {
		return nil
	}
	a.agent = r.Hosts[0].Agent
	s, err := a.streamOf(ctx, tx, store.RolloutStream(r.ID))
	if err != nil {
		return err
	}
	e, ok, err := r.Event(from, by, s.seq+1)
	if err != nil || !ok {
		return err
	}
	return a.add(ctx, tx, &e)
}

// storeRollout writes what differs.
func storeRollout(ctx context.Context, tx tx, id string, before, r *rollout.Rollout) error {
	var places []int
	for i := range r.Hosts {
		if !reflect.DeepEqual(r.Hosts[i], before.Hosts[i]) {
			places = append(places, i)
		}
	}
	if len(places) > 0 { // two statements for any number of rows
		if err := tx.exec(ctx, `DELETE FROM rollout_hosts WHERE rollout = ?1 AND place IN (SELECT j.value FROM numbers(?2) j)`,
			id, sqldb.Array(places)); err != nil {
			return err
		}
		if err := insertHosts(ctx, tx, id, r, places); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(r.Plan, before.Plan) {
		plan, err := json.Marshal(r.Plan)
		if err != nil {
			return err
		}
		if err := tx.exec(ctx, `UPDATE rollouts SET plan = ? WHERE id = ?`, string(plan), id); err != nil {
			return err
		}
	}
	approvals, err := json.Marshal(r.Approvals)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `UPDATE rollouts SET approvals = ?, state = ?, reason = ?, batch = ?, settled = ?, forgiven = ?
		WHERE id = ?`,
		string(approvals), string(r.State), r.Reason, r.Batch, optionalNanos(r.Settled), r.Forgiven, id)
}

// PruneRollouts removes old rollouts.
func (db *Store) PruneRollouts(ctx context.Context, before time.Time, limit int) (int, error) {
	var pruned int
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		old, err := all(ctx, tx.query, column[string], `SELECT id FROM rollouts WHERE created < ?
			AND state IN ('done', 'aborted') ORDER BY created LIMIT ?`, nanos(before), limit)
		if err != nil {
			return err
		}
		for _, id := range old {
			for _, table := range []string{
				"rollout_hosts WHERE rollout", "rollout_steps WHERE rollout", "rollouts WHERE id",
			} {
				if err := tx.exec(ctx, `DELETE FROM `+table+` = ?`, id); err != nil {
					return err
				}
			}
		}
		pruned = len(old)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune rollouts: %w", err)
	}
	return pruned, nil
}
