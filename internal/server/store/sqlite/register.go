package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/store"
)

// PutAgent inserts or replaces an agent.
func (db *DB) PutAgent(ctx context.Context, a store.Agent) error {
	err := db.writer.write(ctx, func(ctx context.Context, tx *tx) error {
		return tx.exec(ctx, `INSERT INTO agents (key, cloud, ip, id, build, created) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
			SET cloud = excluded.cloud, ip = excluded.ip, id = excluded.id, build = excluded.build, created = excluded.created`,
			a.Key, a.Cloud, a.IP, a.ID, a.Build, nanos(a.Created))
	})
	if err != nil {
		return fmt.Errorf("cannot store agent %s: %w", a.Key, err)
	}
	return nil
}

// ListAgents returns all agents.
func (db *DB) ListAgents(ctx context.Context) ([]store.Agent, error) {
	var agents []store.Agent
	err := db.query(ctx, func(rows *sql.Rows) error {
		var a store.Agent
		var created int64
		err := rows.Scan(&a.Key, &a.Cloud, &a.IP, &a.ID, &a.Build, &created)
		a.Created = moment(created)
		agents = append(agents, a)
		return err
	}, `SELECT key, cloud, ip, id, build, created FROM agents ORDER BY cloud, ip, key`)
	if err != nil {
		return nil, fmt.Errorf("cannot list agents: %w", err)
	}
	return agents, nil
}

// PutApp inserts or replaces an app.
func (db *DB) PutApp(ctx context.Context, a store.App) error {
	err := db.writer.write(ctx, func(ctx context.Context, tx *tx) error {
		return tx.exec(ctx, `INSERT INTO apps (code, secret_hash, may_name_users, created) VALUES (?, ?, ?, ?) ON CONFLICT (code) DO UPDATE
			SET secret_hash = excluded.secret_hash, may_name_users = excluded.may_name_users, created = excluded.created`,
			a.Code, a.SecretHash, a.MayNameUsers, nanos(a.Created))
	})
	if err != nil {
		return fmt.Errorf("cannot store app %q: %w", a.Code, err)
	}
	return nil
}

// GetApp returns one app.
func (db *DB) GetApp(ctx context.Context, code string) (store.App, error) {
	a, found := store.App{Code: code}, false
	err := db.query(ctx, func(rows *sql.Rows) error {
		var created int64
		err := rows.Scan(&a.SecretHash, &a.MayNameUsers, &created)
		a.Created, found = moment(created), true
		return err
	}, `SELECT secret_hash, may_name_users, created FROM apps WHERE code = ?`, code)
	switch {
	case err != nil:
		return store.App{}, fmt.Errorf("cannot read app %q: %w", code, err)
	case !found:
		return store.App{}, fmt.Errorf("app %q: %w", code, store.ErrNotFound)
	}
	return a, nil
}

// CountApps returns how many apps there are.
func (db *DB) CountApps(ctx context.Context) (int, error) {
	var n int
	if err := db.query(ctx, func(rows *sql.Rows) error { return rows.Scan(&n) }, `SELECT count(*) FROM apps`); err != nil {
		return 0, fmt.Errorf("cannot count apps: %w", err)
	}
	return n, nil
}

// PutAudit appends rows.
func (db *DB) PutAudit(ctx context.Context, rows ...store.AuditRow) error {
	err := db.writer.write(ctx, func(ctx context.Context, tx *tx) error {
		var errs []error
		for _, row := range rows {
			errs = append(errs, insertAudit(ctx, tx, row))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("cannot store audit rows: %w", err)
	}
	return nil
}

func insertAudit(ctx context.Context, tx *tx, r store.AuditRow) error {
	detail := sql.NullString{String: string(r.Detail), Valid: r.Detail != nil}
	return tx.exec(ctx, `INSERT INTO audit (at, app, user, remote, request_id, action, target, targets, allowed, code, message, detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		nanos(r.At), r.App, r.User, r.Remote, r.RequestID, r.Action, r.Target, r.Targets, r.Allowed, r.Code, r.Message, detail)
}

// ListAudit returns the newest rows first.
func (db *DB) ListAudit(ctx context.Context, limit int) ([]store.AuditRow, error) {
	var rows []store.AuditRow
	err := db.query(ctx, func(r *sql.Rows) error {
		var row store.AuditRow
		var at int64
		err := r.Scan(&at, &row.App, &row.User, &row.Remote, &row.RequestID, &row.Action, &row.Target, &row.Targets,
			&row.Allowed, &row.Code, &row.Message, (*[]byte)(&row.Detail))
		row.At = moment(at)
		rows = append(rows, row)
		return err
	}, `SELECT at, app, user, remote, request_id, action, target, targets, allowed, code, message, detail FROM audit
		ORDER BY num DESC LIMIT ?`, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list audit rows: %w", err)
	}
	return rows, nil
}

// PruneAudit looks only at the oldest rows: they are appended in the order of their times, but for moments.
func (db *DB) PruneAudit(ctx context.Context, before time.Time, limit int) (int, error) {
	var pruned int
	err := db.writer.write(ctx, func(ctx context.Context, tx *tx) (err error) {
		pruned, err = tx.affect(ctx, `DELETE FROM audit WHERE at < ? AND num IN (SELECT num FROM audit ORDER BY num LIMIT ?)`,
			nanos(before), max(limit, 0))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune audit rows: %w", err)
	}
	return pruned, nil
}
