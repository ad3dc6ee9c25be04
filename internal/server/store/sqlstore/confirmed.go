package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

const (
	putConfirmed = `
	INSERT INTO confirmed (agent, namespace, name, revision, gone, hosted, want, registered, spec)
		VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?)
	ON CONFLICT (agent, namespace, name) DO UPDATE SET revision = excluded.revision, gone = 0, hosted = excluded.hosted,
	want = excluded.want, registered = excluded.registered, spec = excluded.spec
		WHERE excluded.revision > confirmed.revision`
	putRemoved = `
	INSERT INTO confirmed (agent, namespace, name, revision, gone) VALUES (?, ?, ?, ?, ?)
	ON CONFLICT (agent, namespace, name) DO UPDATE SET revision = excluded.revision, gone = excluded.gone, hosted = 0,
		want = '',
	registered = 0, spec = NULL WHERE excluded.revision > confirmed.revision
		OR (excluded.revision = confirmed.revision AND confirmed.gone = 0)`
)

// confirm stores the confirmed record that a row of observations contains. spec is the encoded spec.
func confirm(ctx context.Context, tx tx, o *store.Observed, spec sql.NullString) error {
	s := &o.Status
	if !spec.Valid || s.Revision == 0 {
		return nil
	}
	return tx.exec(ctx, putConfirmed, o.Agent, o.Process.Namespace, o.Process.Name, s.Revision, s.Hosted, s.Want,
		s.RegisteredAt, spec)
}

// confirmRemoval records that an agent has removed a process.
func confirmRemoval(ctx context.Context, tx tx, r store.Removal) error {
	if r.Revision == 0 {
		return nil
	}
	return tx.exec(ctx, putRemoved, r.Agent, r.Process.Namespace, r.Process.Name, r.Revision, max(nanos(r.At), 1))
}

// AgentConfirmed returns all confirmed records of the agent.
func (db *Store) AgentConfirmed(ctx context.Context, agent string) ([]store.Confirmed, error) {
	list, err := all(ctx, db.query, func(rows *sql.Rows) (store.Confirmed, error) {
		var c store.Confirmed
		err := rows.Scan(&c.Process.Namespace, &c.Process.Name, &c.Revision, &c.Gone, &c.Hosted, &c.Want,
			&c.RegisteredAt)
		return c, err
	}, `SELECT namespace, name, revision, gone > 0, hosted, want, registered FROM confirmed WHERE agent = ?`, agent)
	if err != nil {
		return nil, fmt.Errorf("cannot read what agent %s has confirmed: %w", agent, err)
	}
	return list, nil
}

// GetConfirmed returns the confirmed records of some processes of the agent.
func (db *Store) GetConfirmed(ctx context.Context, agent string, ids []process.ID) ([]store.Confirmed, error) {
	list, err := all(ctx, db.query, func(rows *sql.Rows) (store.Confirmed, error) {
		var c store.Confirmed
		var place int
		var spec sql.RawBytes
		err := rows.Scan(&place, &c.Revision, &c.Gone, &c.Hosted, &c.Want, &c.RegisteredAt, &spec)
		if err == nil && spec != nil {
			c.Spec, err = decode[process.Spec](spec)
		}
		if err == nil {
			c.Process = ids[place]
		}
		return c, err
	}, `SELECT j.key, c.revision, c.gone > 0, c.hosted, c.want, c.registered, c.spec FROM names(?) j
		CROSS JOIN confirmed c ON c.agent = ? AND c.namespace = j.a AND c.name = j.b ORDER BY j.key`,
		db.dialect.Names(ids), agent)
	if err != nil {
		return nil, fmt.Errorf("cannot read what agent %s has confirmed: %w", agent, err)
	}
	return list, nil
}

// PruneConfirmed deletes old removals.
func (db *Store) PruneConfirmed(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) (err error) {
		removed, err = tx.affect(ctx, `DELETE FROM confirmed WHERE num IN
			(SELECT num FROM confirmed WHERE gone > 0 AND gone < ? ORDER BY gone LIMIT ?)`, nanos(before), limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune removals: %w", err)
	}
	return removed, nil
}
