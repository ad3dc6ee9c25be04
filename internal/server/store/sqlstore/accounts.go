package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"drover/internal/server/store"
)

// CreateApp inserts an app.
func (db *Store) CreateApp(ctx context.Context, a store.App) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		row, err := appRow(a)
		if err != nil {
			return err
		}
		return inserted(tx.affect(ctx,
			`INSERT INTO apps (note, secrets, may_name_users, admin, disabled, grants, limits, changed, created, code)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, append(row, nanos(a.Created), a.Code)...))
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
		nanos(a.Changed),
	}, nil
}

// ChangeApp alters an app in one transaction.
func (db *Store) ChangeApp(ctx context.Context, code string, change func(*store.App) error) (store.App, error) {
	changed, err := altered(ctx, db, scanApp, selectApps+`WHERE code = ?`, code,
		func(ctx context.Context, tx tx, a *store.App) error {
			created := a.Created
			if err := change(a); err != nil {
				return err
			}
			a.Code, a.Created = code, created
			row, err := appRow(*a)
			if err != nil {
				return err
			}
			return tx.exec(ctx,
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
	a.Created, a.Changed = moment(created), moment(changed)
	// Unreadable rights must not count as no rights or as all rights.
	if err := errors.Join(json.Unmarshal(secrets, &a.Secrets), json.Unmarshal(grants, &a.Grants),
		json.Unmarshal(limits, &a.Limits)); err != nil {
		return store.App{}, fmt.Errorf("cannot decode app %q: %w", a.Code, err)
	}
	return a, nil
}

// GetApp returns one app.
func (db *Store) GetApp(ctx context.Context, code string) (store.App, error) {
	a, err := one(ctx, db.query, scanApp, selectApps+`WHERE code = ?`, code)
	if err != nil {
		return store.App{}, fmt.Errorf("cannot read app %q: %w", code, err)
	}
	return a, nil
}

// ListApps returns a page of apps.
func (db *Store) ListApps(ctx context.Context, after string, limit int) ([]store.App, error) {
	apps, err := all(ctx, db.query, scanApp, selectApps+`WHERE code > ? ORDER BY code LIMIT ?`, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list apps: %w", err)
	}
	return apps, nil
}

// CountApps returns the number of apps.
func (db *Store) CountApps(ctx context.Context) (int, error) {
	n, err := one(ctx, db.query, column[int], `SELECT count(*) FROM apps`)
	if err != nil {
		return 0, fmt.Errorf("cannot count apps: %w", err)
	}
	return n, nil
}

// CreateUser inserts a user.
func (db *Store) CreateUser(ctx context.Context, u store.User) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		row, err := userRow(u)
		if err != nil {
			return err
		}
		return inserted(tx.affect(ctx,
			`INSERT INTO users (note, disabled, admin, grants, groups, created, name) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, append(row, nanos(u.Created), u.Name)...))
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
func (db *Store) ChangeUser(ctx context.Context, name string, change func(*store.User) error) (store.User, error) {
	changed, err := altered(ctx, db, scanUser, selectUsers+`WHERE u.name = ?`, name,
		func(ctx context.Context, tx tx, u *store.User) error {
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
				err := tx.exec(ctx, `DELETE FROM tokens WHERE "user" = ? AND (? = 1 OR kind <> ?)`, name,
					flag(u.Disabled), store.APIToken)
				if err != nil {
					return err
				}
			}
			return tx.exec(ctx,
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
	u.Created = moment(created)
	// Unreadable rights must not count as no rights or as all rights.
	if err := errors.Join(json.Unmarshal(grants, &u.Grants), json.Unmarshal(groups, &u.Groups)); err != nil {
		return store.User{}, fmt.Errorf("cannot decode user %q: %w", u.Name, err)
	}
	return u, nil
}

// GetUser returns one user.
func (db *Store) GetUser(ctx context.Context, name string) (store.User, error) {
	u, err := one(ctx, db.query, scanUser, selectUsers+`WHERE u.name = ?`, name)
	if err != nil {
		return store.User{}, fmt.Errorf("cannot read user %q: %w", name, err)
	}
	return u, nil
}

// ListUsers returns a page of users.
func (db *Store) ListUsers(ctx context.Context, after string, limit int) ([]store.User, error) {
	users, err := all(ctx, db.query, scanUser, selectUsers+`WHERE u.name > ? ORDER BY u.name LIMIT ?`, after,
		max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list users: %w", err)
	}
	return users, nil
}

// CreateToken inserts a token.
func (db *Store) CreateToken(ctx context.Context, t store.Token) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error { return db.insertToken(ctx, tx, t) })
	if err != nil {
		return fmt.Errorf("cannot create token of user %q: %w", t.User, err)
	}
	return nil
}

func (db *Store) insertToken(ctx context.Context, tx tx, t store.Token) error {
	if _, err := one(ctx, tx.query, scanUser, selectUsers+`WHERE u.name = ?`, t.User); err != nil {
		return err
	}
	if n := len(t.Via); n > 0 {
		// DeleteToken waits for the lock, and then sees the new token.
		if _, err := one(ctx, tx.query, column[string], `SELECT id FROM tokens WHERE id = ?`+db.dialect.Locked,
			t.Via[n-1]); err != nil {
			return err
		}
	}
	if err := tx.exec(ctx, `DELETE FROM tokens WHERE "user" = ? AND kind <> ? AND expires < ?`, t.User,
		store.APIToken, nanos(t.Created)); err != nil {
		return err
	}
	return inserted(tx.affect(ctx,
		`INSERT INTO tokens (id, kind, "user", hash, note, created, seen, proved, expires, via)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		t.ID, t.Kind, t.User, t.Hash, t.Note, nanos(t.Created), nanos(t.Seen), nanos(t.Proved), nanos(t.Expires),
		viaText(t.Via)))
}

// viaText is how ids are stored: each has a blank on both sides, so that DeleteToken finds one.
func viaText(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return " " + strings.Join(ids, " ") + " "
}

// tokenColumns are the columns that a tokenRow takes.
const tokenColumns = `t.id, t.kind, t."user", t.hash, t.note, t.created, t.seen, t.proved, t.expires, t.via`

// tokenRow is a token on its way out of the database.
type tokenRow struct {
	store.Token
	created, seen, proved, expires int64
	via                            string
}

func (r *tokenRow) columns() []any {
	return []any{&r.ID, &r.Kind, &r.User, &r.Hash, &r.Note, &r.created, &r.seen, &r.proved, &r.expires, &r.via}
}

func (r *tokenRow) token() store.Token {
	t := r.Token
	t.Created, t.Seen, t.Proved, t.Expires = moment(r.created), moment(r.seen), moment(r.proved), moment(r.expires)
	if r.via != "" {
		t.Via = strings.Fields(r.via)
	}
	return t
}

func scanToken(rows *sql.Rows) (store.Token, error) {
	var r tokenRow
	err := rows.Scan(r.columns()...)
	return r.token(), err
}

// FindToken returns the token with a hash.
func (db *Store) FindToken(ctx context.Context, hash string) (store.Token, store.User, error) {
	var r tokenRow
	u, err := one(ctx, db.query, func(rows *sql.Rows) (store.User, error) {
		return readUser(rows.Scan, r.columns()...)
	}, `SELECT `+userColumns+`, `+tokenColumns+` FROM tokens t JOIN users u ON u.name = t."user" WHERE t.hash = ?`,
		hash)
	if err != nil {
		return store.Token{}, store.User{}, fmt.Errorf("cannot read token: %w", err)
	}
	return r.token(), u, nil
}

// TakeToken removes or replaces a token and returns it.
func (db *Store) TakeToken(ctx context.Context, hash string, next *store.Token) (t store.Token, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		if t, err = one(ctx, tx.query, scanToken, `SELECT `+tokenColumns+` FROM tokens t WHERE t.hash = ?`,
			hash); err != nil {
			return err
		}
		if next == nil {
			return affected(tx.affect(ctx, `DELETE FROM tokens WHERE hash = ?`, hash))
		}
		// An update, because a concurrent DeleteToken then finds the new token, too.
		return affected(tx.affect(ctx, `UPDATE tokens SET id = ?, kind = ?, hash = ?, note = ?, created = ?, seen = ?,
			proved = ?, expires = ? WHERE hash = ?`, next.ID, next.Kind, next.Hash, next.Note, nanos(next.Created),
			nanos(next.Seen), nanos(next.Proved), nanos(next.Expires), hash))
	})
	if err != nil {
		return store.Token{}, fmt.Errorf("cannot take token: %w", err)
	}
	return t, nil
}

// SeeToken stores the time of the last use of a token.
func (db *Store) SeeToken(ctx context.Context, hash string, at time.Time) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, `UPDATE tokens SET seen = ? WHERE hash = ?`, nanos(at), hash)
	})
	if err != nil {
		return fmt.Errorf("cannot store the use of a token: %w", err)
	}
	return nil
}

// ListTokens returns the tokens of a user.
func (db *Store) ListTokens(ctx context.Context, user string) ([]store.Token, error) {
	tokens, err := all(ctx, db.query, scanToken,
		`SELECT `+tokenColumns+` FROM tokens t WHERE t."user" = ? ORDER BY t.created, t.id`, user)
	if err != nil {
		return nil, fmt.Errorf("cannot list tokens of user %q: %w", user, err)
	}
	return tokens, nil
}

// DeleteToken removes a token and what was made with it.
func (db *Store) DeleteToken(ctx context.Context, user, id string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		err := affected(tx.affect(ctx, `DELETE FROM tokens WHERE "user" = ? AND id = ?`, user, id))
		if err != nil {
			return err
		}
		return tx.exec(ctx, `DELETE FROM tokens WHERE via LIKE ?`, "% "+id+" %")
	})
	if err != nil {
		return fmt.Errorf("cannot remove token %q of user %q: %w", id, user, err)
	}
	return nil
}

// PutAudit appends rows.
func (db *Store) PutAudit(ctx context.Context, rows ...store.AuditRow) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		var errs []error
		for i := range rows {
			errs = append(errs, insertAudit(ctx, tx, &rows[i]))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("cannot store audit rows: %w", err)
	}
	db.watch.Audited(len(rows))
	return nil
}

func insertAudit(ctx context.Context, tx tx, r *store.AuditRow) error {
	detail := sql.NullString{String: string(r.Detail), Valid: r.Detail != nil}
	return tx.exec(ctx,
		`INSERT INTO audit (at, app, "user", remote, request_id, action, target, targets, allowed, code, message,
			detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		nanos(r.At), r.App, r.User, r.Remote, r.RequestID, r.Action, r.Target, r.Targets, r.Allowed, r.Code, r.Message,
		detail)
}

// ListAudit returns the rows that match the filter, newest first.
func (db *Store) ListAudit(ctx context.Context, f store.AuditFilter) ([]store.AuditRow, error) {
	w := where{dialect: db.dialect}
	w.when(!f.Since.IsZero(), "at >= ?", nanos(f.Since))
	w.when(!f.Until.IsZero(), "at < ?", nanos(f.Until))
	w.when(f.App != "", "app = ?", f.App)
	w.when(f.User != "", `"user" = ?`, f.User)
	w.when(f.Action != "", "action = ?", f.Action)
	for _, action := range f.Without {
		w.add("action <> ?", action)
	}
	w.when(f.RequestID != "", "request_id = ?", f.RequestID)
	w.when(f.Remote != "", "remote = ?", f.Remote)
	if f.Allowed != nil {
		w.add("allowed = ?", *f.Allowed)
	}
	w.when(f.Before != store.AuditMark{}, "(at, num) < (?, ?)", nanos(f.Before.At), f.Before.Num)
	conditions := ""
	if len(w.text) > 0 {
		conditions = "WHERE " + w.all()
	}
	rows, err := all(ctx, db.query, func(r *sql.Rows) (row store.AuditRow, err error) {
		var at int64
		err = r.Scan(&row.Num, &at, &row.App, &row.User, &row.Remote, &row.RequestID, &row.Action, &row.Target,
			&row.Targets,
			&row.Allowed, &row.Code, &row.Message, (*[]byte)(&row.Detail))
		row.At = moment(at)
		return row, err
	},
		`SELECT num, at, app, "user", remote, request_id, action, target, targets, allowed, code, message, detail
			FROM audit
		`+conditions+` ORDER BY at DESC, num DESC LIMIT ?`, append(w.args, max(f.Limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot list audit rows: %w", err)
	}
	return rows, nil
}

// PruneAudit removes the oldest rows.
func (db *Store) PruneAudit(ctx context.Context, before time.Time, limit int) (int, error) {
	var pruned int
	err := db.write(ctx, func(ctx context.Context, tx tx) (err error) {
		pruned, err = tx.affect(ctx,
			`DELETE FROM audit WHERE num IN (SELECT num FROM audit WHERE at < ? ORDER BY at LIMIT ?)`,
			nanos(before), max(limit, 0))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune audit rows: %w", err)
	}
	return pruned, nil
}

// CreateDevice inserts a device.
func (db *Store) CreateDevice(ctx context.Context, d store.Device) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := tx.exec(ctx, `DELETE FROM devices WHERE expires < ?`, nanos(d.Created)); err != nil {
			return err
		}
		waiting, err := one(ctx, tx.query, func(rows *sql.Rows) (n int, err error) {
			err = rows.Scan(&n)
			return n, err
		}, `SELECT count(*) FROM devices WHERE expires >= ?`, nanos(d.Created))
		if err != nil {
			return err
		}
		if waiting >= store.MostDevices {
			return store.ErrTooManyDevices
		}
		return inserted(tx.affect(ctx,
			`INSERT INTO devices (hash, code, name, remote, created, expires) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`,
			d.Hash, d.Code, d.Name, d.Remote, nanos(d.Created), nanos(d.Expires)))
	})
	if err != nil {
		return fmt.Errorf("cannot create device: %w", err)
	}
	return nil
}

// FindDevice returns a device by one of its hashes.
func (db *Store) FindDevice(ctx context.Context, hash string) (store.Device, error) {
	d, err := one(ctx, db.query, func(rows *sql.Rows) (d store.Device, err error) {
		var created, expires int64
		err = rows.Scan(&d.Hash, &d.Code, &d.Name, &d.Remote, &created, &expires)
		d.Created, d.Expires = moment(created), moment(expires)
		return d, err
	}, `SELECT hash, code, name, remote, created, expires FROM devices WHERE hash = ? OR code = ?`, hash, hash)
	if err != nil {
		return store.Device{}, fmt.Errorf("cannot read device: %w", err)
	}
	return d, nil
}

// SignInDevice turns a device into a token.
func (db *Store) SignInDevice(ctx context.Context, t store.Token) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := affected(tx.affect(ctx, `DELETE FROM devices WHERE hash = ?`, t.Hash)); err != nil {
			return err
		}
		return db.insertToken(ctx, tx, t)
	})
	if err != nil {
		return fmt.Errorf("cannot sign in a device: %w", err)
	}
	return nil
}

// RemoveDevice removes a device.
func (db *Store) RemoveDevice(ctx context.Context, hash string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return affected(tx.affect(ctx, `DELETE FROM devices WHERE hash = ?`, hash))
	})
	if err != nil {
		return fmt.Errorf("cannot remove device: %w", err)
	}
	return nil
}

// SaveView inserts a view.
func (db *Store) SaveView(ctx context.Context, v store.SavedView) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		have, err := one(ctx, tx.query, column[int], `SELECT count(*) FROM views WHERE "user" = ?`, v.User)
		if err != nil {
			return err
		}
		if have >= store.MostViews {
			return store.ErrTooManyViews
		}
		return inserted(tx.affect(ctx,
			`INSERT INTO views (id, "user", namespace, name, query, created) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			v.ID, v.User, v.Namespace, v.Name, v.Query, nanos(v.Created)))
	})
	if err != nil {
		return fmt.Errorf("cannot save view %q of user %q: %w", v.Name, v.User, err)
	}
	return nil
}

// ListViews returns the views of a user, and the shared ones.
func (db *Store) ListViews(ctx context.Context, user string) ([]store.SavedView, error) {
	list, err := all(ctx, db.query, func(rows *sql.Rows) (v store.SavedView, err error) {
		var created int64
		err = rows.Scan(&v.ID, &v.User, &v.Namespace, &v.Name, &v.Query, &created)
		v.Created = moment(created)
		return v, err
	}, `SELECT id, "user", namespace, name, query, created FROM views WHERE "user" = ? OR namespace > ''
		ORDER BY name, id`, user)
	if err != nil {
		return nil, fmt.Errorf("cannot list the views of user %q: %w", user, err)
	}
	return list, nil
}

// RemoveView removes a view.
func (db *Store) RemoveView(ctx context.Context, id string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return affected(tx.affect(ctx, `DELETE FROM views WHERE id = ?`, id))
	})
	if err != nil {
		return fmt.Errorf("cannot remove view %q: %w", id, err)
	}
	return nil
}
