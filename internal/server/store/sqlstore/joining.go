package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"drover/internal/server/store"
)

// CreateJoinToken inserts a token.
func (db *Store) CreateJoinToken(ctx context.Context, t store.JoinToken) error {
	labels, err := encodeLabels(t.Labels)
	if err == nil {
		err = db.write(ctx, func(ctx context.Context, tx tx) error {
			if err := tx.exec(ctx, `DELETE FROM join_tokens WHERE expires < ?`,
				nanos(t.Created.Add(-store.KeepJoinTokens))); err != nil {
				return err
			}
			return inserted(tx.affect(ctx,
				`INSERT INTO join_tokens (id, hash, role, cloud, labels, business, note, uses, used, created, expires,
					revoked, replaces)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
				t.ID, t.Hash, string(t.Role), t.Cloud, labels, t.Business, t.Note, t.Uses, t.Used, nanos(t.Created),
				nanos(t.Expires), nanos(t.Revoked), t.Replaces))
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
	t.Created, t.Expires, t.Revoked = moment(created), moment(expires), moment(revoked)
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
func (db *Store) GetJoinToken(ctx context.Context, id string) (store.JoinToken, error) {
	t, err := one(ctx, db.query, scanJoinToken, selectJoinTokens+`WHERE id = ?`, id)
	if err != nil {
		return store.JoinToken{}, fmt.Errorf("cannot read token %q: %w", id, err)
	}
	return t, nil
}

// ListJoinTokens returns a page of tokens.
func (db *Store) ListJoinTokens(ctx context.Context, before string, limit int) ([]store.JoinToken, error) {
	if before == "" {
		before = "~" // after every id
	}
	list, err := all(ctx, db.query, scanJoinToken, selectJoinTokens+`WHERE id < ? ORDER BY id DESC LIMIT ?`, before,
		max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list tokens: %w", err)
	}
	return list, nil
}

// RevokeJoinToken revokes a token.
func (db *Store) RevokeJoinToken(ctx context.Context, id string, at time.Time) (store.JoinToken, error) {
	revoked, err := altered(ctx, db, scanJoinToken, selectJoinTokens+`WHERE id = ?`, id,
		func(ctx context.Context, tx tx, t *store.JoinToken) error {
			if !t.Revoked.IsZero() {
				return nil
			}
			t.Revoked = moment(nanos(at))
			return tx.exec(ctx, `UPDATE join_tokens SET revoked = ? WHERE id = ?`, nanos(at), id)
		})
	if err != nil {
		return store.JoinToken{}, fmt.Errorf("cannot revoke token %q: %w", id, err)
	}
	return revoked, nil
}

// UseJoinToken joins an agent.
func (db *Store) UseJoinToken(ctx context.Context, a store.Agent,
	check func(t store.JoinToken, again bool) error,
) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		// An agent that comes again under another name did not lose an answer: it wants to be another host.
		err := db.countUse(ctx, tx, a.Token, check,
			`SELECT EXISTS (SELECT 1 FROM agents WHERE key = ? AND token = ? AND ip = ? AND id = ?)`,
			a.Key, a.Token, a.IP, a.ID)
		if err != nil {
			return err
		}
		if err := keepNames(ctx, tx, &a, a.Created); err != nil {
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
		set, err := one(ctx, tx.query, column[[]byte], `SELECT set_labels FROM agents WHERE key = ?`, a.Replaces)
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

// replaceAgent gives the confirmed records, process groups and events of the old agent to the new one, and removes the
// old agent. It drops the observations, because they describe a disk that is gone.
func replaceAgent(ctx context.Context, tx tx, old, key string, at time.Time) error {
	for _, statement := range []string{
		`UPDATE confirmed SET agent = ?1 WHERE agent = ?2 AND NOT EXISTS (SELECT 1 FROM confirmed WHERE agent = ?1)`,
		`UPDATE groups SET agent = ?1 WHERE agent = ?2 AND NOT EXISTS (SELECT 1 FROM groups WHERE agent = ?1)`,
		`UPDATE events SET agent = ?1 WHERE agent = ?2`,
		`UPDATE event_streams SET agent = ?1 WHERE agent = ?2`,
	} {
		if err := tx.exec(ctx, statement, key, old); err != nil {
			return err
		}
	}
	return forgetAgent(ctx, tx, old, at)
}

// countUse counts a use of a token, unless the query finds that the key has joined with the token before.
func (db *Store) countUse(
	ctx context.Context, tx tx, token string, check func(t store.JoinToken, again bool) error, known string,
	args ...any,
) error {
	t, err := one(ctx, tx.query, scanJoinToken, selectJoinTokens+`WHERE id = ?`+db.dialect.Locked, token)
	if err != nil {
		return err
	}
	again, err := one(ctx, tx.query, column[bool], known, args...)
	if err != nil {
		return err
	}
	if err := check(t, again); err != nil || again {
		return err
	}
	return tx.exec(ctx, `UPDATE join_tokens SET used = used + 1 WHERE id = ?`, t.ID)
}

// restore deletes the removal of a key, and keeps the stay before it. It fails if the query finds that the key is or
// was in use for another purpose.
func restore(ctx context.Context, tx tx, key, others string, args ...any) error {
	used, err := one(ctx, tx.query, column[bool], others, args...)
	if err != nil {
		return err
	}
	if used {
		return store.ErrKeyUsed
	}
	err = tx.exec(ctx, `INSERT INTO stays (agent, joined, removed)
		SELECT key, created, at FROM removed_agents WHERE key = ? AND role = 'agent' ON CONFLICT DO NOTHING`, key)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `DELETE FROM removed_agents WHERE key = ?`, key)
}

// RemoveAgent deletes an agent.
func (db *Store) RemoveAgent(ctx context.Context, key string, at time.Time, last []store.NewEvent) error {
	_, err := db.writeEvents(ctx, at, func(ctx context.Context, tx tx, events *arrivals) error {
		events.agent = key
		for i := range last {
			if err := events.add(ctx, tx, &last[i]); err != nil {
				return err
			}
		}
		return forgetAgent(ctx, tx, key, at)
	})
	if err != nil {
		return fmt.Errorf("cannot remove agent %s: %w", key, err)
	}
	return nil
}

func forgetAgent(ctx context.Context, tx tx, key string, at time.Time) error {
	err := tx.exec(ctx,
		`INSERT INTO removed_agents (key, at, role, area, ip, id, assigned, created, labels, set_labels)
			SELECT key, ?, 'agent', cloud, ip, id, assigned, created, labels, set_labels FROM agents WHERE key = ?
			ON CONFLICT DO NOTHING`,
		nanos(at), key)
	if err != nil {
		return err
	}
	if err := affected(tx.affect(ctx, `DELETE FROM agents WHERE key = ?`, key)); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM observed WHERE agent = ?`,
		`DELETE FROM confirmed WHERE agent = ?`,
		`DELETE FROM groups WHERE agent = ?`,
		`DELETE FROM agent_reports WHERE agent = ?`,
		`DELETE FROM upkeep WHERE agent = ?`,
	} {
		if err := tx.exec(ctx, statement, key); err != nil {
			return err
		}
	}
	return nil
}

// ListFormer returns removed agents.
func (db *Store) ListFormer(ctx context.Context, limit int) ([]store.FormerAgent, error) {
	list, err := all(ctx, db.query, func(rows *sql.Rows) (a store.FormerAgent, err error) {
		var created, removed int64
		var labels, set sql.RawBytes
		err = rows.Scan(&a.Key, &removed, &a.Cloud, &a.IP, &a.ID, &a.Assigned, &created, &labels, &set)
		a.Created, a.Removed = moment(created), moment(removed)
		if err == nil {
			a.Labels, err = decodeLabels[string](labels)
		}
		if err == nil {
			a.SetLabels, err = decodeLabels[*string](set)
		}
		return a, err
	}, `SELECT key, at, area, ip, id, assigned, created, labels, set_labels FROM removed_agents
		WHERE role = 'agent' ORDER BY at DESC LIMIT ?`, limit)
	if err != nil {
		return nil, fmt.Errorf("cannot list removed agents: %w", err)
	}
	return list, nil
}

// ListRemoved returns the keys of removed agents.
func (db *Store) ListRemoved(ctx context.Context) ([]string, error) {
	keys, err := all(ctx, db.query, column[string], `SELECT key FROM removed_agents ORDER BY key`)
	if err != nil {
		return nil, fmt.Errorf("cannot list removed agents: %w", err)
	}
	return keys, nil
}
