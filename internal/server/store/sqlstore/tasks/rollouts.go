package tasks

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
	"drover/internal/server/store/sqlstore/events"
	"drover/internal/server/store/sqlstore/kit"
	"drover/internal/server/store/sqlstore/people"
)

// CreateRollouts inserts rollouts.
func (db *Tasks) CreateRollouts(ctx context.Context, list []*store.Rollout, row store.AuditRow) error {
	steps := make([][]any, len(list))
	for i, r := range list {
		var err error
		if steps[i], err = stepRows(r.Steps); err != nil {
			return fmt.Errorf("cannot create rollout %s: %w", r.ID, err)
		}
	}
	_, err := db.events.WriteEvents(ctx, row.At, func(ctx context.Context, tx kit.Tx, events *events.Arrivals) error {
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
		return people.InsertAudit(ctx, tx, &row)
	})
	if err != nil {
		return err
	}
	db.Watch.Audited(1)
	return nil
}

// createRollout inserts one rollout with the rows of its steps.
func (db *Tasks) createRollout(ctx context.Context, tx kit.Tx, r *store.Rollout, steps []any) error {
	if err := db.checkRollouts(ctx, tx, r.ID, r.Processes(), r.Agents()); err != nil {
		return err
	}
	if k := r.ExpectedRevision; k != nil {
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
	err := kit.RowValues{
		Head:   `INSERT INTO rollout_steps (rollout, place, op, namespace, name, removes, spec, former) VALUES `,
		Row:    `(?1, ?, ?, ?, ?, ?, ?, ?)`,
		Shared: []any{r.ID},
	}.Run(ctx, tx, steps)
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
func insertRollout(ctx context.Context, tx kit.Tx, r *store.Rollout) error {
	plan, err := json.Marshal(r.Plan)
	if err != nil {
		return err
	}
	approvals, err := json.Marshal(r.Approvals)
	if err != nil {
		return err
	}
	selections, err := kit.OptionalJSON(r.Selections)
	if err != nil {
		return err
	}
	former, err := kit.OptionalJSON(r.Former)
	if err != nil {
		return err
	}
	return kit.Inserted(tx.Affect(ctx,
		`INSERT INTO rollouts (num, id, app, "user", request_id, created, op, host_timeout, selector, total, plan, begins,
			approvals, undoes, schedule, through, message, state, reason, batch, settled, forgiven, selections, former)
		VALUES ((SELECT coalesce(max(num), 0) + 1 FROM rollouts), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
			?, ?, ?, ?, ?)
		ON CONFLICT (id) DO NOTHING`,
		r.ID, r.App, r.User, r.RequestID, kit.Nanos(r.Created), string(r.Op), int64(r.HostTimeout), r.Selector,
		len(r.Hosts), string(plan), kit.OptionalNanos(r.At), string(approvals), r.Undoes, r.Schedule, r.Through,
		r.Message, string(r.State), r.Reason, r.Batch, kit.OptionalNanos(r.Settled), r.Forgiven, selections, former))
}

// selectionsOf reads a column of a rollout with a change of selections; nil if it is NULL.
func selectionsOf(ctx context.Context, query kit.QueryFunc, column, id string) (*store.SelectionChange, error) {
	text, err := kit.One(ctx, query, func(rows *sql.Rows) (text sql.NullString, err error) {
		err = rows.Scan(&text)
		return text, err
	}, `SELECT `+column+` FROM rollouts WHERE id = ?`, id)
	if err != nil || !text.Valid {
		return nil, err
	}
	var c store.SelectionChange
	return &c, json.Unmarshal([]byte(text.String), &c)
}

// FormerSelections returns the change that brings back the selections that a rollout has replaced; nil if it has
// replaced none yet.
func (db *Tasks) FormerSelections(ctx context.Context, id string) (*store.SelectionChange, error) {
	c, err := selectionsOf(ctx, db.Query, "CASE WHEN selections IS NULL THEN former END", id)
	if err != nil {
		return nil, fmt.Errorf("cannot read the former selections of rollout %s: %w", id, err)
	}
	return c, nil
}

// selectByRollout puts the selections of a finished rollout into force, once. It leaves out entries that a later apply
// has changed.
func (db *Tasks) selectByRollout(ctx context.Context, tx kit.Tx, id string) error {
	c, err := selectionsOf(ctx, tx.Query, "selections", id)
	if err != nil || c == nil {
		return err
	}
	former, err := selectionsOf(ctx, tx.Query, "former", id)
	if err != nil {
		return err
	}
	if _, err := db.lockNamespace(ctx, tx, c.Namespace); err != nil {
		return err
	}
	now, err := listSelections(ctx, tx.Query, c.Namespace)
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
	return tx.Exec(ctx, `UPDATE rollouts SET selections = NULL WHERE id = ?`, id)
}

// stepRows returns the values of the rows of steps. A spec that many steps share is encoded once.
func stepRows(steps []store.RolloutStep) ([]any, error) {
	args := make([]any, 0, 7*len(steps))
	known := map[*process.Spec]any{}
	text := func(s *process.Spec) (any, error) {
		if encoded, ok := known[s]; ok {
			return encoded, nil
		}
		encoded, err := kit.Encode(s)
		if err != nil {
			return nil, err
		}
		known[s] = kit.Optional(encoded.String, encoded.Valid)
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

// insertHosts inserts the rows of the hosts of a rollout at the given places of its list.
func insertHosts(ctx context.Context, tx kit.Tx, id string, r *rollout.Rollout, places []int) error {
	args := make([]any, 0, 9*len(places))
	for _, i := range places {
		h := &r.Hosts[i]
		args = append(args, i, h.Agent, h.Name, sqldb.Array(h.Steps), h.Batch, string(h.State),
			kit.OptionalNanos(h.Begun),
			h.Cause, h.Text)
	}
	return kit.RowValues{
		Head:   `INSERT INTO rollout_hosts (rollout, place, agent, name, steps, batch, state, begun, cause, text) VALUES `,
		Row:    `(?1, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		Shared: []any{id},
	}.Run(ctx, tx, args)
}

// checkRollouts fails if another active rollout has one of the processes; of upgrades, if it has one of the agents. It
// keeps other transactions from adding one until this transaction ends.
func (db *Tasks) checkRollouts(
	ctx context.Context, tx kit.Tx, id string, processes []process.ID, agents []string,
) error {
	if err := db.lockLanes(ctx, tx, func(yield func(string) bool) { yield("") }); err != nil {
		return err
	}
	agent := process.AgentID()
	pairs := make([][2]string, len(processes))
	for i, p := range processes {
		pairs[i] = [2]string{p.Namespace, p.Name}
	}
	busy, err := kit.All(ctx, tx.Query, func(rows *sql.Rows) (e store.RolloutBusyError, err error) {
		err = rows.Scan(&e.ID, &e.Process.Namespace, &e.Process.Name, &e.State, &e.Host)
		return e, err
	}, `SELECT r.id, p.namespace, p.name, r.state, coalesce(h.name, '') FROM names(?1) j
		CROSS JOIN rollout_steps p ON p.namespace = j.a AND p.name = j.b
		CROSS JOIN rollouts r ON r.id = p.rollout
		LEFT JOIN rollout_hosts h ON h.rollout = r.id AND p.namespace = ?3 AND p.name = ?4
			AND h.agent IN (SELECT a.value FROM texts(?5) a)
		WHERE r.state NOT IN ('done', 'aborted') AND r.id <> ?2
			AND (p.namespace <> ?3 OR p.name <> ?4 OR h.name IS NOT NULL)
		ORDER BY r.num, h.place LIMIT 1`, sqldb.Array(pairs), id, agent.Namespace, agent.Name, db.Dialect.Texts(agents))
	if err == nil && len(busy) > 0 {
		return &busy[0]
	}
	return err
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
	r.Created, r.HostTimeout, r.At, r.Settled = kit.Moment(created), time.Duration(timeout), kit.OptionalMoment(begins),
		kit.OptionalMoment(settled)
	return r, err
}

// GetRollout returns a rollout.
func (db *Tasks) GetRollout(ctx context.Context, id, app string) (*store.Rollout, error) {
	r, err := readRollout(ctx, db.Query, selectRollouts+`WHERE id = ?1 AND (?2 = '' OR app = ?2)`, id, app)
	if err != nil {
		return nil, fmt.Errorf("cannot read rollout %s: %w", id, err)
	}
	return r, nil
}

// readRollout reads a rollout and its hosts.
func readRollout(ctx context.Context, query kit.QueryFunc, text, id, app string) (*store.Rollout, error) {
	r, err := kit.One(ctx, query, scanRollout, text, id, app)
	if err != nil {
		return nil, err
	}
	if r.Steps, err = stepsOf(ctx, query, id); err != nil {
		return nil, err
	}
	r.Hosts, err = kit.All(ctx, query, func(rows *sql.Rows) (h rollout.Host, err error) {
		var list string
		var begun int64
		err = rows.Scan(&h.Agent, &h.Name, &list, &h.Batch, &h.State, &begun, &h.Cause, &h.Text)
		if err == nil {
			err = json.Unmarshal([]byte(list), &h.Steps)
		}
		h.Begun = kit.OptionalMoment(begun)
		return h, err
	}, `SELECT agent, name, steps, batch, state, begun, cause, text FROM rollout_hosts WHERE rollout = ? ORDER BY place`,
		id)
	return &r, err
}

// stepsOf returns the steps of a rollout without their specs.
func stepsOf(ctx context.Context, query kit.QueryFunc, id string) ([]store.RolloutStep, error) {
	return kit.All(ctx, query, func(rows *sql.Rows) (s store.RolloutStep, err error) {
		err = rows.Scan(&s.Op, &s.Process.Namespace, &s.Process.Name, &s.Removes)
		return s, err
	}, `SELECT op, namespace, name, removes FROM rollout_steps WHERE rollout = ? ORDER BY place`, id)
}

// RolloutSteps returns the steps of a rollout with their specs.
func (db *Tasks) RolloutSteps(ctx context.Context, id string) ([]store.RolloutStep, error) {
	known := map[string]*process.Spec{}
	decode := func(text sql.NullString) (*process.Spec, error) {
		if !text.Valid || known[text.String] != nil {
			return known[text.String], nil
		}
		s := &process.Spec{}
		known[text.String] = s
		return s, json.Unmarshal([]byte(text.String), s)
	}
	steps, err := kit.All(ctx, db.Query, func(rows *sql.Rows) (s store.RolloutStep, err error) {
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
func (db *Tasks) ListRollouts(ctx context.Context, f store.RolloutFilter, after int64,
	limit int,
) ([]store.Rollout, error) {
	if after <= 0 {
		after = math.MaxInt64
	}
	w := kit.Where{Dialect: db.Dialect}
	w.Add("num < ?", after)
	sees(&w, f.Sight, ofRollout)
	if f.Namespace != "" {
		step := kit.Where{Dialect: db.Dialect, Text: []string{"SELECT 1 FROM " + ofRollout}}
		step.Pattern("r.namespace", f.Namespace)
		w.Add("EXISTS ("+step.All()+")", step.Args...)
	}
	w.When(f.State != "", "state = ?", string(f.State))
	w.When(f.Active, "state IN ('scheduled', 'running', 'held', 'paused')")
	if f.Agents != nil {
		w.Add(`EXISTS (SELECT 1 FROM rollout_hosts h
			WHERE h.rollout = rollouts.id AND h.agent IN (SELECT value FROM texts(?) j))`, db.Dialect.Texts(f.Agents))
	}
	list, err := kit.All(ctx, db.Query, scanRollout, selectRollouts+`WHERE `+w.All()+` ORDER BY num DESC LIMIT ?`,
		append(w.Args, limit)...)
	if err == nil && len(list) > 0 {
		err = db.completeRollouts(ctx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list rollouts: %w", err)
	}
	return list, nil
}

// AbortedRollouts returns the ids of the given rollouts that were aborted.
func (db *Tasks) AbortedRollouts(ctx context.Context, ids []string) ([]string, error) {
	list, err := kit.All(ctx, db.Query, kit.Column[string], `SELECT id FROM rollouts WHERE state = 'aborted'
		AND id IN (SELECT j.value FROM texts(?) j)`, db.Dialect.Texts(ids))
	if err != nil {
		return nil, fmt.Errorf("cannot read rollouts: %w", err)
	}
	return list, nil
}

// completeRollouts reads the steps of rollouts and counts their hosts, with a statement for each.
func (db *Tasks) completeRollouts(ctx context.Context, list []store.Rollout) error {
	ids, of := make([]string, len(list)), make(map[string]*store.Rollout, len(list))
	for i := range list {
		ids[i], of[list[i].ID] = list[i].ID, &list[i]
		list[i].States = map[rollout.HostState]int{}
	}
	err := db.Query(ctx, func(rows *sql.Rows) error {
		var id string
		var s store.RolloutStep
		err := rows.Scan(&id, &s.Op, &s.Process.Namespace, &s.Process.Name, &s.Removes)
		of[id].Steps = append(of[id].Steps, s)
		return err
	}, `SELECT rollout, op, namespace, name, removes FROM rollout_steps
		WHERE rollout IN (SELECT j.value FROM texts(?1) j) ORDER BY rollout, place`, db.Dialect.Texts(ids))
	if err != nil {
		return err
	}
	return db.Query(ctx, func(rows *sql.Rows) error {
		var id string
		var state rollout.HostState
		var n int
		err := rows.Scan(&id, &state, &n)
		of[id].States[state] = n
		return err
	}, `SELECT rollout, state, count(*) FROM rollout_hosts
		WHERE rollout IN (SELECT j.value FROM texts(?1) j) GROUP BY rollout, state`, db.Dialect.Texts(ids))
}

// OpenRollouts returns the rollouts that need a driver now.
func (db *Tasks) OpenRollouts(ctx context.Context, now time.Time) (open []string, next time.Time, err error) {
	err = db.Query(ctx, func(rows *sql.Rows) error {
		var id string
		var begins int64
		if err := rows.Scan(&id, &begins); err != nil {
			return err
		}
		if at := kit.Moment(begins); !at.After(now) {
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
func (db *Tasks) ChangeRollout(ctx context.Context, id, app string, by store.RolloutChange,
	change func(*rollout.Rollout) error,
) (r *store.Rollout, err error) {
	_, err = db.events.WriteEvents(ctx, by.At, func(
		ctx context.Context, tx kit.Tx, events *events.Arrivals,
	) (err error) {
		r, err = db.changeRollout(ctx, tx, events, id, app, by, change)
		return err
	})
	return r, err
}

// changeRollout changes a rollout, and adds the event of the change.
func (db *Tasks) changeRollout(
	ctx context.Context, tx kit.Tx, events *events.Arrivals, id, app string, by store.RolloutChange,
	change func(*rollout.Rollout) error,
) (*store.Rollout, error) {
	fail := func(err error) (*store.Rollout, error) {
		return nil, fmt.Errorf("cannot change rollout %s: %w", id, err)
	}
	r, err := readRollout(ctx, tx.Query, selectRollouts+`WHERE id = ?1 AND (?2 = '' OR app = ?2)`+db.Dialect.Locked,
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
	if err := rolloutEvents(ctx, events, tx, r, before.State, by); err != nil {
		return fail(err)
	}
	return r, nil
}

// rolloutEvents adds the event of a rollout whose state differs from its state before.
func rolloutEvents(
	ctx context.Context, a *events.Arrivals, tx kit.Tx, r *store.Rollout, from rollout.State, by store.RolloutChange,
) error {
	if r.State == from || len(r.Hosts) == 0 {
		return nil
	}
	a.Agent = r.Hosts[0].Agent
	s, err := a.StreamOf(ctx, tx, store.RolloutStream(r.ID))
	if err != nil {
		return err
	}
	e, ok, err := r.Event(from, by, s.Seq+1)
	if err != nil || !ok {
		return err
	}
	return a.Add(ctx, tx, &e)
}

// storeRollout writes the columns and the hosts of a rollout that differ from before.
func storeRollout(ctx context.Context, tx kit.Tx, id string, before, r *rollout.Rollout) error {
	var places []int
	for i := range r.Hosts {
		if !reflect.DeepEqual(r.Hosts[i], before.Hosts[i]) {
			places = append(places, i)
		}
	}
	if len(places) > 0 { // two statements for any number of rows
		if err := tx.Exec(ctx, `DELETE FROM rollout_hosts WHERE rollout = ?1 AND place IN (SELECT j.value FROM numbers(?2) j)`,
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
		if err := tx.Exec(ctx, `UPDATE rollouts SET plan = ? WHERE id = ?`, string(plan), id); err != nil {
			return err
		}
	}
	approvals, err := json.Marshal(r.Approvals)
	if err != nil {
		return err
	}
	return tx.Exec(ctx, `UPDATE rollouts SET approvals = ?, state = ?, reason = ?, batch = ?, settled = ?, forgiven = ?
		WHERE id = ?`,
		string(approvals), string(r.State), r.Reason, r.Batch, kit.OptionalNanos(r.Settled), r.Forgiven, id)
}

// PruneRollouts removes old rollouts.
func (db *Tasks) PruneRollouts(ctx context.Context, before time.Time, limit int) (int, error) {
	var pruned int
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		old, err := kit.All(ctx, tx.Query, kit.Column[string], `SELECT id FROM rollouts WHERE created < ?
			AND state IN ('done', 'aborted') ORDER BY created LIMIT ?`, kit.Nanos(before), limit)
		if err != nil {
			return err
		}
		for _, id := range old {
			for _, table := range []string{
				"rollout_hosts WHERE rollout", "rollout_steps WHERE rollout", "rollouts WHERE id",
			} {
				if err := tx.Exec(ctx, `DELETE FROM `+table+` = ?`, id); err != nil {
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
