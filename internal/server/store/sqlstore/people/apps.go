// Package people keeps those who call: apps, users, their tokens and sign-ins, their views of the console, and the
// audit log.
package people

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// People are the tables of callers.
type People struct{ *kit.DB }

// New returns the tables of callers.
func New(db *kit.DB) *People { return &People{db} }

// CreateApp inserts an app.
func (db *People) CreateApp(ctx context.Context, a store.App) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		row, err := appRow(a)
		if err != nil {
			return err
		}
		return kit.Inserted(tx.Affect(ctx,
			`INSERT INTO apps (note, secrets, may_name_users, admin, disabled, grants, limits, changed, created, code)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			append(row, kit.Nanos(a.Created), a.Code)...))
	})
	if err != nil {
		return fmt.Errorf("cannot create app %q: %w", a.Code, err)
	}
	return nil
}

// appRow returns the columns of an app that may change: note, secrets, may_name_users, admin, disabled, grants, limits,
// changed.
func appRow(a store.App) ([]any, error) {
	secrets, err := json.Marshal(a.Secrets)
	if err != nil {
		return nil, fmt.Errorf("cannot encode secrets: %w", err)
	}
	grants, err := json.Marshal(a.Grants)
	if err != nil {
		return nil, fmt.Errorf("cannot encode grants: %w", err)
	}
	limits, err := json.Marshal(a.Limits)
	if err != nil {
		return nil, fmt.Errorf("cannot encode limits: %w", err)
	}
	return []any{
		a.Note, string(secrets), a.MayNameUsers, a.Admin, a.Disabled, string(grants), string(limits),
		kit.Nanos(a.Changed),
	}, nil
}

// ChangeApp alters an app in one transaction.
func (db *People) ChangeApp(ctx context.Context, code string, change func(*store.App) error) (store.App, error) {
	changed, err := kit.Altered(ctx, db.DB, scanApp, selectApps+`WHERE code = ?`, code,
		func(ctx context.Context, tx kit.Tx, a *store.App) error {
			created := a.Created
			if err := change(a); err != nil {
				return err
			}
			a.Code, a.Created = code, created
			row, err := appRow(*a)
			if err != nil {
				return err
			}
			return tx.Exec(ctx,
				`UPDATE apps SET note = ?, secrets = ?, may_name_users = ?, admin = ?, disabled = ?, grants = ?,
					limits = ?, changed = ?
			WHERE code = ?`, append(row, code)...)
		})
	if err != nil {
		return store.App{}, fmt.Errorf("cannot change app %q: %w", code, err)
	}
	return changed, nil
}

const selectApps = `SELECT code, note, secrets, may_name_users, admin, disabled, grants, limits, created, changed
		FROM apps `

func scanApp(rows *sql.Rows) (store.App, error) {
	var a store.App
	var created, changed int64
	var secrets, grants, limits []byte
	if err := rows.Scan(&a.Code, &a.Note, &secrets, &a.MayNameUsers, &a.Admin, &a.Disabled, &grants, &limits, &created,
		&changed); err != nil {
		return store.App{}, err
	}
	a.Created, a.Changed = kit.Moment(created), kit.Moment(changed)
	// Unreadable rights must not count as no rights or as all rights.
	if err := errors.Join(json.Unmarshal(secrets, &a.Secrets), json.Unmarshal(grants, &a.Grants),
		json.Unmarshal(limits, &a.Limits)); err != nil {
		return store.App{}, fmt.Errorf("cannot decode app %q: %w", a.Code, err)
	}
	return a, nil
}

// GetApp returns one app.
func (db *People) GetApp(ctx context.Context, code string) (store.App, error) {
	a, err := kit.One(ctx, db.Query, scanApp, selectApps+`WHERE code = ?`, code)
	if err != nil {
		return store.App{}, fmt.Errorf("cannot read app %q: %w", code, err)
	}
	return a, nil
}

// ListApps returns a page of apps.
func (db *People) ListApps(ctx context.Context, after string, limit int) ([]store.App, error) {
	apps, err := kit.All(ctx, db.Query, scanApp, selectApps+`WHERE code > ? ORDER BY code LIMIT ?`,
		after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list apps: %w", err)
	}
	return apps, nil
}

// CountApps returns the number of apps.
func (db *People) CountApps(ctx context.Context) (int, error) {
	n, err := kit.One(ctx, db.Query, kit.Column[int], `SELECT count(*) FROM apps`)
	if err != nil {
		return 0, fmt.Errorf("cannot count apps: %w", err)
	}
	return n, nil
}
