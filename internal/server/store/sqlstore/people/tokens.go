package people

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// CreateToken inserts a token.
func (db *People) CreateToken(ctx context.Context, t store.Token) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error { return db.insertToken(ctx, tx, t) })
	if err != nil {
		return fmt.Errorf("cannot create token of user %q: %w", t.User, err)
	}
	return nil
}

func (db *People) insertToken(ctx context.Context, tx kit.Tx, t store.Token) error {
	if _, err := kit.One(ctx, tx.Query, scanUser, selectUsers+`WHERE u.name = ?`, t.User); err != nil {
		return err
	}
	if n := len(t.Via); n > 0 {
		// DeleteToken waits for the lock, and then sees the new token.
		if _, err := kit.One(ctx, tx.Query, kit.Column[string], `SELECT id FROM tokens WHERE id = ?`+db.Dialect.Locked,
			t.Via[n-1]); err != nil {
			return err
		}
	}
	if err := tx.Exec(ctx, `DELETE FROM tokens WHERE "user" = ? AND kind <> ? AND expires < ?`, t.User,
		store.APIToken, kit.Nanos(t.Created)); err != nil {
		return err
	}
	return kit.Inserted(tx.Affect(ctx,
		`INSERT INTO tokens (id, kind, "user", hash, note, created, seen, proved, expires, via)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		t.ID, t.Kind, t.User, t.Hash, t.Note, kit.Nanos(t.Created), kit.Nanos(t.LastUse), kit.Nanos(t.Proved),
		kit.Nanos(t.Expires),
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
	t.Created, t.LastUse = kit.Moment(r.created), kit.Moment(r.seen)
	t.Proved, t.Expires = kit.Moment(r.proved), kit.Moment(r.expires)
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

// FindToken returns the token with a hash, and its user.
func (db *People) FindToken(ctx context.Context, hash string) (store.Token, store.User, error) {
	var r tokenRow
	u, err := kit.One(ctx, db.Query, func(rows *sql.Rows) (store.User, error) {
		return readUser(rows.Scan, r.columns()...)
	}, `SELECT `+userColumns+`, `+tokenColumns+` FROM tokens t JOIN users u ON u.name = t."user" WHERE t.hash = ?`,
		hash)
	if err != nil {
		return store.Token{}, store.User{}, fmt.Errorf("cannot read token: %w", err)
	}
	return r.token(), u, nil
}

// TakeToken removes or replaces a token and returns it.
func (db *People) TakeToken(ctx context.Context, hash string, next *store.Token) (t store.Token, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		if t, err = kit.One(ctx, tx.Query, scanToken, `SELECT `+tokenColumns+` FROM tokens t WHERE t.hash = ?`,
			hash); err != nil {
			return err
		}
		if next == nil {
			return kit.Affected(tx.Affect(ctx, `DELETE FROM tokens WHERE hash = ?`, hash))
		}
		// An update, because a concurrent DeleteToken then finds the new token, too.
		return kit.Affected(tx.Affect(ctx, `UPDATE tokens SET id = ?, kind = ?, hash = ?, note = ?, created = ?, seen = ?,
			proved = ?, expires = ? WHERE hash = ?`, next.ID, next.Kind, next.Hash, next.Note, kit.Nanos(next.Created),
			kit.Nanos(next.LastUse), kit.Nanos(next.Proved), kit.Nanos(next.Expires), hash))
	})
	if err != nil {
		return store.Token{}, fmt.Errorf("cannot take token: %w", err)
	}
	return t, nil
}

// SeeToken stores the time of the last use of a token.
func (db *People) SeeToken(ctx context.Context, hash string, at time.Time) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return tx.Exec(ctx, `UPDATE tokens SET seen = ? WHERE hash = ?`, kit.Nanos(at), hash)
	})
	if err != nil {
		return fmt.Errorf("cannot store the use of a token: %w", err)
	}
	return nil
}

// ListTokens returns the tokens of a user.
func (db *People) ListTokens(ctx context.Context, user string) ([]store.Token, error) {
	tokens, err := kit.All(ctx, db.Query, scanToken,
		`SELECT `+tokenColumns+` FROM tokens t WHERE t."user" = ? ORDER BY t.created, t.id`, user)
	if err != nil {
		return nil, fmt.Errorf("cannot list tokens of user %q: %w", user, err)
	}
	return tokens, nil
}

// DeleteToken removes a token and what was made with it.
func (db *People) DeleteToken(ctx context.Context, user, id string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		err := kit.Affected(tx.Affect(ctx, `DELETE FROM tokens WHERE "user" = ? AND id = ?`, user, id))
		if err != nil {
			return err
		}
		return tx.Exec(ctx, `DELETE FROM tokens WHERE via LIKE ?`, "% "+id+" %")
	})
	if err != nil {
		return fmt.Errorf("cannot remove token %q of user %q: %w", id, user, err)
	}
	return nil
}
