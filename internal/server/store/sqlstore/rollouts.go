package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
)

// CreateRollout inserts a rollout.
func (db *Store) CreateRollout(ctx context.Context, r *store.Rollout, row store.AuditRow) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := db.checkRollouts(ctx, tx, r.ID, r.Processes); err != nil {
			return err
		}
		plan, err := json.Marshal(r.Plan)
		if err != nil {
			return err
		}
		err = inserted(tx.affect(ctx,
			`INSERT INTO rollouts (num, id, app, "user", request_id, created, op, host_timeout, selector, total, sort, plan, state,
				reason, batch, settled, forgiven)
			VALUES ((SELECT coalesce(max(num), 0) + 1 FROM rollouts), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO NOTHING`,
			r.ID, r.App, r.User, r.RequestID, nanos(r.Created), string(r.Op), int64(r.HostTimeout), r.Selector,
			len(r.Hosts), r.Order, string(plan), string(r.State), r.Reason, r.Batch, settled(&r.Rollout), r.Forgiven))
		if err != nil {
			return err
		}
		for _, id := range r.Processes {
			if err := tx.exec(ctx, `INSERT INTO rollout_processes (rollout, namespace, name) VALUES (?, ?, ?)`, r.ID,
				id.Namespace, id.Name); err != nil {
				return err
			}
		}
		for i := range r.Hosts {
			h := &r.Hosts[i]
			list, err := json.Marshal(h.Processes)
			if err != nil {
				return err
			}
			err = tx.exec(ctx, `INSERT INTO rollout_hosts (rollout, place, agent, name, processes, batch, state, begun, cause,
				text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				r.ID, i, h.Agent, h.Name, string(list), h.Batch, string(h.State), 0, h.Cause, h.Text)
			if err != nil {
				return err
			}
		}
		return insertAudit(ctx, tx, &row)
	})
	if err != nil {
		return fmt.Errorf("cannot create rollout %s: %w", r.ID, err)
	}
	db.watch.Audited(1)
	return nil
}

// checkRollouts fails if another active rollout has one of the processes. It keeps other transactions from adding one
// until this transaction ends.
func (db *Store) checkRollouts(ctx context.Context, tx tx, id string, processes []process.ID) error {
	if err := db.lockLanes(ctx, tx, func(yield func(string) bool) { yield("") }); err != nil {
		return err
	}
	pairs := make([][2]string, len(processes))
	for i, p := range processes {
		pairs[i] = [2]string{p.Namespace, p.Name}
	}
	busy, err := all(ctx, tx.query, func(rows *sql.Rows) (e store.RolloutBusyError, err error) {
		err = rows.Scan(&e.ID, &e.Process.Namespace, &e.Process.Name)
		return e, err
	}, `SELECT r.id, p.namespace, p.name FROM names(?1) j
		CROSS JOIN rollout_processes p ON p.namespace = j.a AND p.name = j.b
		CROSS JOIN rollouts r ON r.id = p.rollout
		WHERE r.state IN ('running', 'paused') AND r.id <> ?2 ORDER BY r.num LIMIT 1`, sqldb.Array(pairs), id)
	if err == nil && len(busy) > 0 {
		return &busy[0]
	}
	return err
}

func settled(r *rollout.Rollout) int64 {
	if r.Settled.IsZero() {
		return 0
	}
	return nanos(r.Settled)
}

// optionalMoment reads a time that may be 0.
func optionalMoment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return moment(n)
}

const selectRollouts = `SELECT num, id, app, "user", request_id, created, op, host_timeout, selector, total, sort, plan, state,
	reason, batch, settled, forgiven FROM rollouts `

func scanRollout(rows *sql.Rows) (store.Rollout, error) {
	var r store.Rollout
	var created, timeout, settled int64
	var plan string
	err := rows.Scan(&r.Number, &r.ID, &r.App, &r.User, &r.RequestID, &created, &r.Op, &timeout, &r.Selector, &r.Total,
		&r.Order, &plan, &r.State, &r.Reason, &r.Batch, &settled, &r.Forgiven)
	if err == nil {
		err = json.Unmarshal([]byte(plan), &r.Plan)
	}
	r.Created, r.HostTimeout, r.Settled = moment(created), time.Duration(timeout), optionalMoment(settled)
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
	if r.Processes, err = processesOf(ctx, query, id); err != nil {
		return nil, err
	}
	r.Hosts, err = all(ctx, query, func(rows *sql.Rows) (h rollout.Host, err error) {
		var list string
		var begun int64
		err = rows.Scan(&h.Agent, &h.Name, &list, &h.Batch, &h.State, &begun, &h.Cause, &h.Text)
		if err == nil {
			err = json.Unmarshal([]byte(list), &h.Processes)
		}
		h.Begun = optionalMoment(begun)
		return h, err
	}, `SELECT agent, name, processes, batch, state, begun, cause, text FROM rollout_hosts WHERE rollout = ? ORDER BY place`,
		id)
	return &r, err
}

func processesOf(ctx context.Context, query queryFunc, id string) ([]process.ID, error) {
	return all(ctx, query, func(rows *sql.Rows) (p process.ID, err error) {
		err = rows.Scan(&p.Namespace, &p.Name)
		return p, err
	}, `SELECT namespace, name FROM rollout_processes WHERE rollout = ? ORDER BY namespace, name`, id)
}

// ListRollouts lists rollouts, newest first.
func (db *Store) ListRollouts(ctx context.Context, f store.RolloutFilter, after int64,
	limit int,
) ([]store.Rollout, error) {
	w := where{dialect: db.dialect, text: []string{"1 = 1"}}
	w.when(f.App != "", "app = ?", f.App)
	w.when(f.State != "", "state = ?", string(f.State))
	w.when(after != 0, "num < ?", after)
	list, err := all(ctx, db.query, scanRollout, selectRollouts+`WHERE `+w.all()+` ORDER BY num DESC LIMIT ?`,
		append(w.args, limit)...)
	for i := range list {
		if err == nil {
			list[i].Processes, err = processesOf(ctx, db.query, list[i].ID)
		}
		if err == nil {
			list[i].States = map[rollout.HostState]int{}
			err = db.query(ctx, func(rows *sql.Rows) error {
				var state rollout.HostState
				var n int
				err := rows.Scan(&state, &n)
				list[i].States[state] = n
				return err
			}, `SELECT state, count(*) FROM rollout_hosts WHERE rollout = ? GROUP BY state`, list[i].ID)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list rollouts: %w", err)
	}
	return list, nil
}

// OpenRollouts returns the rollouts that need a driver.
func (db *Store) OpenRollouts(ctx context.Context) ([]string, error) {
	ids, err := all(ctx, db.query, column[string], `SELECT id FROM rollouts WHERE state IN ('running', 'paused')
		UNION SELECT rollout FROM rollout_hosts WHERE state IN ('begun', 'baking')`)
	if err != nil {
		return nil, fmt.Errorf("cannot list open rollouts: %w", err)
	}
	return ids, nil
}

// ChangeRollout changes a rollout in one transaction.
func (db *Store) ChangeRollout(ctx context.Context, id, app string, change func(*rollout.Rollout) error,
) (r *store.Rollout, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		r, err = readRollout(ctx, tx.query, selectRollouts+`WHERE id = ?1 AND (?2 = '' OR app = ?2)`+db.dialect.Locked,
			id, app)
		if err != nil {
			return err
		}
		before := r.Rollout
		before.Hosts = slices.Clone(r.Hosts)
		if err := change(&r.Rollout); err != nil {
			return err
		}
		if r.State.Active() && !before.State.Active() {
			if err := db.checkRollouts(ctx, tx, id, r.Processes); err != nil {
				return err
			}
		}
		return storeRollout(ctx, tx, id, &before, &r.Rollout)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot change rollout %s: %w", id, err)
	}
	return r, nil
}

// storeRollout writes what differs.
func storeRollout(ctx context.Context, tx tx, id string, before, r *rollout.Rollout) error {
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if reflect.DeepEqual(*h, before.Hosts[i]) {
			continue
		}
		begun := int64(0)
		if !h.Begun.IsZero() {
			begun = nanos(h.Begun)
		}
		err := tx.exec(ctx, `UPDATE rollout_hosts SET batch = ?, state = ?, begun = ?, cause = ?, text = ?
			WHERE rollout = ? AND place = ?`, h.Batch, string(h.State), begun, h.Cause, h.Text, id, i)
		if err != nil {
			return err
		}
	}
	return tx.exec(ctx, `UPDATE rollouts SET state = ?, reason = ?, batch = ?, settled = ?, forgiven = ? WHERE id = ?`,
		string(r.State), r.Reason, r.Batch, settled(r), r.Forgiven, id)
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
				"rollout_hosts WHERE rollout", "rollout_processes WHERE rollout", "rollouts WHERE id",
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
