package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/events"
	"drover/internal/server/store/sqlstore/kit"
)

// CreateJoinToken inserts a token.
func (db *Fleet) CreateJoinToken(ctx context.Context, t store.JoinToken) error {
	labels, err := encodeLabels(t.Labels)
	if err == nil {
		err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
			if err := tx.Exec(ctx, `DELETE FROM join_tokens WHERE expires < ?`,
				kit.Nanos(t.Created.Add(-store.KeepJoinTokens))); err != nil {
				return err
			}
			return kit.Inserted(tx.Affect(ctx,
				`INSERT INTO join_tokens (id, hash, role, cloud, labels, business, note, uses, used, created, expires,
					revoked, replaces)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
				t.ID, t.Hash, string(t.Role), t.Cloud, labels, t.Business, t.Note, t.Uses, t.Used, kit.Nanos(t.Created),
				kit.Nanos(t.Expires), kit.Nanos(t.Revoked), t.Replaces))
		})
	}
	if err != nil {
		return fmt.Errorf("cannot create token %q: %w", t.ID, err)
	}
	return nil
}

const selectJoinTokens = `SELECT id, hash, role, cloud, labels, business, note, uses, used, created, expires, revoked,
		replaces FROM join_tokens `

func scanJoinToken(rows *sql.Rows) (store.JoinToken, error) {
	var t store.JoinToken
	var labels []byte
	var created, expires, revoked int64
	if err := rows.Scan(&t.ID, &t.Hash, &t.Role, &t.Cloud, &labels, &t.Business, &t.Note, &t.Uses, &t.Used, &created,
		&expires, &revoked, &t.Replaces); err != nil {
		return store.JoinToken{}, err
	}
	t.Created, t.Expires, t.Revoked = kit.Moment(created), kit.Moment(expires), kit.Moment(revoked)
	var err error
	t.Labels, err = decodeLabels[string](labels)
	return t, err
}

// encodeLabels returns labels as a JSON object; no labels are {}.
func encodeLabels[V string | *string](labels map[string]V) (string, error) {
	if len(labels) == 0 {
		return "{}", nil
	}
	text, err := json.Marshal(labels)
	if err != nil {
		return "", fmt.Errorf("cannot encode labels: %w", err)
	}
	return string(text), nil
}

func decodeLabels[V string | *string](text []byte) (map[string]V, error) {
	if string(text) == "{}" {
		return nil, nil
	}
	var labels map[string]V
	if err := json.Unmarshal(text, &labels); err != nil {
		return nil, fmt.Errorf("cannot decode labels: %w", err)
	}
	return labels, nil
}

// GetJoinToken returns one token.
func (db *Fleet) GetJoinToken(ctx context.Context, id string) (store.JoinToken, error) {
	t, err := kit.One(ctx, db.Query, scanJoinToken, selectJoinTokens+`WHERE id = ?`, id)
	if err != nil {
		return store.JoinToken{}, fmt.Errorf("cannot read token %q: %w", id, err)
	}
	return t, nil
}

// ListJoinTokens returns a page of tokens.
func (db *Fleet) ListJoinTokens(ctx context.Context, before string, limit int) ([]store.JoinToken, error) {
	if before == "" {
		before = "~" // after every id
	}
	list, err := kit.All(ctx, db.Query, scanJoinToken, selectJoinTokens+`WHERE id < ? ORDER BY id DESC LIMIT ?`, before,
		max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list tokens: %w", err)
	}
	return list, nil
}

// RevokeJoinToken revokes a token.
func (db *Fleet) RevokeJoinToken(ctx context.Context, id string, at time.Time) (store.JoinToken, error) {
	revoked, err := kit.Altered(ctx, db.DB, scanJoinToken, selectJoinTokens+`WHERE id = ?`, id,
		func(ctx context.Context, tx kit.Tx, t *store.JoinToken) error {
			if !t.Revoked.IsZero() {
				return nil
			}
			t.Revoked = kit.Moment(kit.Nanos(at))
			return tx.Exec(ctx, `UPDATE join_tokens SET revoked = ? WHERE id = ?`, kit.Nanos(at), id)
		})
	if err != nil {
		return store.JoinToken{}, fmt.Errorf("cannot revoke token %q: %w", id, err)
	}
	return revoked, nil
}

// UseJoinToken joins an agent.
func (db *Fleet) UseJoinToken(ctx context.Context, a store.Agent,
	check func(t store.JoinToken, again bool) error,
) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		// An agent that comes again under another name did not lose an answer: it wants to be another host.
		err := db.countUse(ctx, tx, a.Token, check,
			`SELECT EXISTS (SELECT 1 FROM agents WHERE key = ? AND token = ? AND ip = ? AND id = ?)`,
			a.Key, a.Token, a.IP, a.ID)
		if err != nil {
			return err
		}
		if err := events.KeepNames(ctx, tx, &a, a.Created); err != nil {
			return err
		}
		err = restore(ctx, tx, a.Key, `SELECT EXISTS (SELECT 1 FROM proxies WHERE key = ?1)
			OR EXISTS (SELECT 1 FROM removed_agents WHERE key = ?1 AND role <> 'agent')`, a.Key)
		if err != nil {
			return err
		}
		if a.Replaces == "" {
			return putAgent(ctx, tx, a)
		}
		// The labels of people belong to the host, which is the same.
		set, err := kit.One(ctx, tx.Query, kit.Column[[]byte], `SELECT set_labels FROM agents WHERE key = ?`,
			a.Replaces)
		if err != nil {
			return err
		}
		if a.SetLabels, err = decodeLabels[*string](set); err != nil {
			return err
		}
		if err := replaceAgent(ctx, tx, a.Replaces, a.Key, a.Created); err != nil {
			return err
		}
		return putAgent(ctx, tx, a)
	})
	if err != nil {
		return fmt.Errorf("cannot use token %q: %w", a.Token, err)
	}
	return nil
}

// countUse counts a use of a token, unless the query finds that the key has joined with the token before.
func (db *Fleet) countUse(
	ctx context.Context, tx kit.Tx, token string, check func(t store.JoinToken, again bool) error, known string,
	args ...any,
) error {
	t, err := kit.One(ctx, tx.Query, scanJoinToken, selectJoinTokens+`WHERE id = ?`+db.Dialect.Locked, token)
	if err != nil {
		return err
	}
	again, err := kit.One(ctx, tx.Query, kit.Column[bool], known, args...)
	if err != nil {
		return err
	}
	if err := check(t, again); err != nil || again {
		return err
	}
	return tx.Exec(ctx, `UPDATE join_tokens SET used = used + 1 WHERE id = ?`, t.ID)
}

// restore deletes the removal of a key, and keeps the stay before it. It fails if the query finds that the key is or
// was in use for another purpose.
func restore(ctx context.Context, tx kit.Tx, key, others string, args ...any) error {
	used, err := kit.One(ctx, tx.Query, kit.Column[bool], others, args...)
	if err != nil {
		return err
	}
	if used {
		return store.ErrKeyUsed
	}
	err = tx.Exec(ctx, `INSERT INTO stays (agent, joined, removed)
		SELECT key, created, at FROM removed_agents WHERE key = ? AND role = 'agent' ON CONFLICT DO NOTHING`, key)
	if err != nil {
		return err
	}
	return tx.Exec(ctx, `DELETE FROM removed_agents WHERE key = ?`, key)
}
