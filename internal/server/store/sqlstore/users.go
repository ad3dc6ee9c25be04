package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"drover/internal/server/store"
)

// CreateUser inserts a user.
func (db *Store) CreateUser(ctx context.Context, u store.User) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return inserted(tx.affect(ctx,
			`INSERT INTO users (name, note, disabled, created) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			u.Name, u.Note, u.Disabled, nanos(u.Created)))
	})
	if err != nil {
		return fmt.Errorf("cannot create user %q: %w", u.Name, err)
	}
	return nil
}

// ChangeUser changes a user in one transaction.
func (db *Store) ChangeUser(ctx context.Context, name string, change func(*store.User) error) (store.User, error) {
	changed, err := altered(ctx, db, scanUser, selectUsers+`WHERE name = ?`, name,
		func(ctx context.Context, tx tx, u *store.User) error {
			created := u.Created
			if err := change(u); err != nil {
				return err
			}
			u.Name, u.Created = name, created
			return tx.exec(ctx, `UPDATE users SET note = ?, disabled = ? WHERE name = ?`, u.Note, u.Disabled, name)
		})
	if err != nil {
		return store.User{}, fmt.Errorf("cannot change user %q: %w", name, err)
	}
	return changed, nil
}

const selectUsers = `SELECT name, note, disabled, created FROM users `

func scanUser(rows *sql.Rows) (store.User, error) {
	var u store.User
	var created int64
	err := rows.Scan(&u.Name, &u.Note, &u.Disabled, &created)
	u.Created = moment(created)
	return u, err
}

// GetUser returns one user.
func (db *Store) GetUser(ctx context.Context, name string) (store.User, error) {
	u, err := one(ctx, db.query, scanUser, selectUsers+`WHERE name = ?`, name)
	if err != nil {
		return store.User{}, fmt.Errorf("cannot read user %q: %w", name, err)
	}
	return u, nil
}

// ListUsers returns a page of users.
func (db *Store) ListUsers(ctx context.Context, after string, limit int) ([]store.User, error) {
	users, err := all(ctx, db.query, scanUser, selectUsers+`WHERE name > ? ORDER BY name LIMIT ?`, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list users: %w", err)
	}
	return users, nil
}

// CreateToken inserts a token.
func (db *Store) CreateToken(ctx context.Context, t store.Token) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		var users int
		if err := tx.value(ctx, &users, `SELECT count(*) FROM users WHERE name = ?`, t.User); err != nil {
			return err
		}
		if users == 0 {
			return store.ErrNotFound
		}
		return inserted(tx.affect(ctx,
			`INSERT INTO tokens (id, "user", hash, note, created, expires) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT
				DO NOTHING`,
			t.ID, t.User, t.Hash, t.Note, nanos(t.Created), nanos(t.Expires)))
	})
	if err != nil {
		return fmt.Errorf("cannot create token of user %q: %w", t.User, err)
	}
	return nil
}

// FindToken returns the token with a hash.
func (db *Store) FindToken(ctx context.Context, hash string) (store.Token, store.User, error) {
	t, u, found := store.Token{Hash: hash}, store.User{}, false
	err := db.query(ctx, func(rows *sql.Rows) error {
		var created, expires, userCreated int64
		err := rows.Scan(&t.ID, &t.User, &t.Note, &created, &expires, &u.Note, &u.Disabled, &userCreated)
		t.Created, t.Expires = moment(created), moment(expires)
		u.Name, u.Created = t.User, moment(userCreated)
		found = true
		return err
	},
		`SELECT t.id, t."user", t.note, t.created, t.expires, u.note, u.disabled, u.created FROM tokens t JOIN users u
			ON u.name = t."user"
		WHERE t.hash = ?`, hash)
	switch {
	case err != nil:
		return store.Token{}, store.User{}, fmt.Errorf("cannot read token: %w", err)
	case !found:
		return store.Token{}, store.User{}, fmt.Errorf("token: %w", store.ErrNotFound)
	}
	return t, u, nil
}

// ListTokens returns the tokens of a user.
func (db *Store) ListTokens(ctx context.Context, user string) ([]store.Token, error) {
	tokens, err := all(ctx, db.query, func(rows *sql.Rows) (store.Token, error) {
		var t store.Token
		var created, expires int64
		err := rows.Scan(&t.ID, &t.User, &t.Hash, &t.Note, &created, &expires)
		t.Created, t.Expires = moment(created), moment(expires)
		return t, err
	}, `SELECT id, "user", hash, note, created, expires FROM tokens WHERE "user" = ? ORDER BY created, id`, user)
	if err != nil {
		return nil, fmt.Errorf("cannot list tokens of user %q: %w", user, err)
	}
	return tokens, nil
}

// DeleteToken removes a token.
func (db *Store) DeleteToken(ctx context.Context, user, id string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return affected(tx.affect(ctx, `DELETE FROM tokens WHERE "user" = ? AND id = ?`, user, id))
	})
	if err != nil {
		return fmt.Errorf("cannot remove token %q of user %q: %w", id, user, err)
	}
	return nil
}
