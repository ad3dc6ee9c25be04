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

// CreateUser inserts a user.
func (db *People) CreateUser(ctx context.Context, u store.User) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		row, err := userRow(u)
		if err != nil {
			return err
		}
		return kit.Inserted(tx.Affect(ctx,
			`INSERT INTO users (note, disabled, admin, grants, groups, created, name) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, append(row, kit.Nanos(u.Created), u.Name)...))
	})
	if err != nil {
		return fmt.Errorf("cannot create user %q: %w", u.Name, err)
	}
	return nil
}

// userRow returns the columns of a user that may change: note, disabled, admin, grants, groups.
func userRow(u store.User) ([]any, error) {
	grants, err := json.Marshal(u.Grants)
	if err != nil {
		return nil, fmt.Errorf("cannot encode grants: %w", err)
	}
	groups, err := json.Marshal(u.Groups)
	if err != nil {
		return nil, fmt.Errorf("cannot encode groups: %w", err)
	}
	return []any{u.Note, u.Disabled, u.Admin, string(grants), string(groups)}, nil
}

// ChangeUser changes a user in one transaction.
func (db *People) ChangeUser(ctx context.Context, name string, change func(*store.User) error) (store.User, error) {
	changed, err := kit.Altered(ctx, db.DB, scanUser, selectUsers+`WHERE u.name = ?`, name,
		func(ctx context.Context, tx kit.Tx, u *store.User) error {
			created, was := u.Created, u.Disabled
			if err := change(u); err != nil {
				return err
			}
			u.Name, u.Created = name, created
			row, err := userRow(*u)
			if err != nil {
				return err
			}
			if u.Disabled != was {
				err := tx.Exec(ctx, `DELETE FROM tokens WHERE "user" = ? AND (? = 1 OR kind <> ?)`, name,
					kit.Flag(u.Disabled), store.APIToken)
				if err != nil {
					return err
				}
			}
			return tx.Exec(ctx,
				`UPDATE users SET note = ?, disabled = ?, admin = ?, grants = ?, groups = ? WHERE name = ?`,
				append(row, name)...)
		})
	if err != nil {
		return store.User{}, fmt.Errorf("cannot change user %q: %w", name, err)
	}
	return changed, nil
}

// userColumns are the columns of readUser.
const userColumns = `u.name, u.note, u.disabled, u.admin, u.grants, u.groups, u.created`

const selectUsers = `SELECT ` + userColumns + ` FROM users u `

func scanUser(rows *sql.Rows) (store.User, error) { return readUser(rows.Scan) }

// readUser reads the userColumns, and what follows them into more.
func readUser(scan func(...any) error, more ...any) (store.User, error) {
	var u store.User
	var created int64
	var grants, groups []byte
	columns := []any{&u.Name, &u.Note, &u.Disabled, &u.Admin, &grants, &groups, &created}
	if err := scan(append(columns, more...)...); err != nil {
		return store.User{}, err
	}
	u.Created = kit.Moment(created)
	// Unreadable rights must not count as no rights or as all rights.
	if err := errors.Join(json.Unmarshal(grants, &u.Grants), json.Unmarshal(groups, &u.Groups)); err != nil {
		return store.User{}, fmt.Errorf("cannot decode user %q: %w", u.Name, err)
	}
	return u, nil
}

// GetUser returns one user.
func (db *People) GetUser(ctx context.Context, name string) (store.User, error) {
	u, err := kit.One(ctx, db.Query, scanUser, selectUsers+`WHERE u.name = ?`, name)
	if err != nil {
		return store.User{}, fmt.Errorf("cannot read user %q: %w", name, err)
	}
	return u, nil
}

// ListUsers returns a page of users.
func (db *People) ListUsers(ctx context.Context, after string, limit int) ([]store.User, error) {
	users, err := kit.All(ctx, db.Query, scanUser, selectUsers+`WHERE u.name > ? ORDER BY u.name LIMIT ?`, after,
		max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list users: %w", err)
	}
	return users, nil
}
