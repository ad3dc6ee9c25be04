package observed

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// putConfirmed returns the statement that stores the confirmed records of observations.
func putConfirmed() kit.RowValues {
	return kit.RowValues{
		Head: `INSERT INTO confirmed (agent, namespace, name, revision, gone, hosted, want, registered, spec) VALUES `,
		Row:  `(?, ?, ?, ?, 0, ?, ?, ?, ?)`,
		Tail: ` ON CONFLICT (agent, namespace, name) DO UPDATE SET revision = excluded.revision, gone = 0,
			hosted = excluded.hosted, want = excluded.want, registered = excluded.registered, spec = excluded.spec
		WHERE excluded.revision > confirmed.revision`,
	}
}

const putRemoved = `
	INSERT INTO confirmed (agent, namespace, name, revision, gone) VALUES (?, ?, ?, ?, ?)
	ON CONFLICT (agent, namespace, name) DO UPDATE SET revision = excluded.revision, gone = excluded.gone, hosted = 0,
		want = '',
	registered = 0, spec = NULL WHERE excluded.revision > confirmed.revision
		OR (excluded.revision = confirmed.revision AND confirmed.gone = 0)`

// confirmRemoval records that an agent has removed a process.
func confirmRemoval(ctx context.Context, tx kit.Tx, r store.Removal) error {
	if r.Revision == 0 {
		return nil
	}
	return tx.Exec(ctx, putRemoved, r.Agent, r.Process.Namespace, r.Process.Name, r.Revision, max(kit.Nanos(r.At), 1))
}

// AgentConfirmed returns all confirmed records of the agent.
func (db *Observed) AgentConfirmed(ctx context.Context, agent string) ([]store.Confirmed, error) {
	list, err := kit.All(ctx, db.Query, func(rows *sql.Rows) (store.Confirmed, error) {
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
func (db *Observed) GetConfirmed(ctx context.Context, agent string, ids []process.ID) ([]store.Confirmed, error) {
	list, err := kit.All(ctx, db.Query, func(rows *sql.Rows) (store.Confirmed, error) {
		var c store.Confirmed
		var place int
		var spec sql.RawBytes
		err := rows.Scan(&place, &c.Revision, &c.Gone, &c.Hosted, &c.Want, &c.RegisteredAt, &spec)
		if err == nil && spec != nil {
			c.Spec, err = kit.Decode[process.Spec](spec)
		}
		if err == nil {
			c.Process = ids[place]
		}
		return c, err
	}, `SELECT j.key, c.revision, c.gone > 0, c.hosted, c.want, c.registered, c.spec FROM names(?) j
		CROSS JOIN confirmed c ON c.agent = ? AND c.namespace = j.a AND c.name = j.b ORDER BY j.key`,
		db.Dialect.Names(ids), agent)
	if err != nil {
		return nil, fmt.Errorf("cannot read what agent %s has confirmed: %w", agent, err)
	}
	return list, nil
}

// PruneConfirmed deletes old removals.
func (db *Observed) PruneConfirmed(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) (err error) {
		removed, err = tx.Affect(ctx, `DELETE FROM confirmed WHERE num IN
			(SELECT num FROM confirmed WHERE gone > 0 AND gone < ? ORDER BY gone LIMIT ?)`, kit.Nanos(before), limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune removals: %w", err)
	}
	return removed, nil
}
