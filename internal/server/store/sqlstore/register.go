package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"drover/internal/server/store"
)

// PutAgent inserts or replaces an agent.
func (db *Store) PutAgent(ctx context.Context, a store.Agent) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return putAgent(ctx, tx, a)
	})
	if err != nil {
		return fmt.Errorf("cannot store agent %s: %w", a.Key, err)
	}
	return nil
}

func putAgent(ctx context.Context, tx tx, a store.Agent) error {
	if err := inheritGroups(ctx, tx, a); err != nil {
		return err
	}
	labels, err := encodeLabels(a.Labels)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `INSERT INTO agents (key, cloud, ip, id, assigned, build, created, token, labels, business)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
		SET cloud = excluded.cloud, ip = excluded.ip, id = excluded.id, assigned = excluded.assigned, build = excluded.build,
		created = excluded.created, token = excluded.token, labels = excluded.labels, business = excluded.business`,
		a.Key, a.Cloud, a.IP, a.ID, a.Assigned, a.Build, nanos(a.Created), a.Token, labels, a.Business)
}

// ListAgents returns all agents.
func (db *Store) ListAgents(ctx context.Context) ([]store.Agent, error) {
	var agents []store.Agent
	err := db.query(ctx, func(rows *sql.Rows) error {
		var a store.Agent
		var created int64
		var labels sql.RawBytes
		err := rows.Scan(&a.Key, &a.Cloud, &a.IP, &a.ID, &a.Assigned, &a.Build, &created, &a.Token, &labels, &a.Business)
		if err == nil {
			a.Labels, err = decodeLabels(labels)
		}
		a.Created = moment(created)
		agents = append(agents, a)
		return err
	}, `SELECT key, cloud, ip, id, assigned, build, created, token, labels, business FROM agents ORDER BY cloud, ip, key`)
	if err != nil {
		return nil, fmt.Errorf("cannot list agents: %w", err)
	}
	return agents, nil
}
