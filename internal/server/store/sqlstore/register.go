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
	return tx.exec(ctx,
		`INSERT INTO agents (key, cloud, ip, id, assigned, build, created, token, labels, business, name, place)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
		SET cloud = excluded.cloud, ip = excluded.ip, id = excluded.id, assigned = excluded.assigned,
			build = excluded.build,
		created = excluded.created, token = excluded.token, labels = excluded.labels, business = excluded.business,
		name = excluded.name, place = excluded.place`,
		a.Key, a.Cloud, a.IP, a.ID, a.Assigned, a.Build, nanos(a.Created), a.Token, labels, a.Business, a.Name, a.Place)
}

// ChangeAgent replaces a known agent.
func (db *Store) ChangeAgent(ctx context.Context, a store.Agent) error {
	labels, err := encodeLabels(a.Labels)
	if err != nil {
		return fmt.Errorf("cannot change agent %s: %w", a.Key, err)
	}
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		err := affected(tx.affect(ctx,
			`UPDATE agents SET cloud = ?, ip = ?, id = ?, assigned = ?, build = ?, created = ?, token = ?, labels = ?,
				business = ?,
			name = ?, place = ? WHERE key = ?`,
			a.Cloud, a.IP, a.ID, a.Assigned, a.Build, nanos(a.Created), a.Token, labels, a.Business, a.Name, a.Place,
			a.Key))
		if err != nil {
			return err
		}
		return inheritGroups(ctx, tx, a)
	})
	if err != nil {
		return fmt.Errorf("cannot change agent %s: %w", a.Key, err)
	}
	return nil
}

const selectAgents = `SELECT key, cloud, ip, id, assigned, build, created, token, labels, business, name, place
		FROM agents `

func scanAgent(rows *sql.Rows) (store.Agent, error) {
	var a store.Agent
	var created int64
	var labels sql.RawBytes
	err := rows.Scan(&a.Key, &a.Cloud, &a.IP, &a.ID, &a.Assigned, &a.Build, &created, &a.Token, &labels, &a.Business,
		&a.Name, &a.Place)
	if err == nil {
		a.Labels, err = decodeLabels(labels)
	}
	a.Created = moment(created)
	return a, err
}

// ListAgents returns all agents.
func (db *Store) ListAgents(ctx context.Context) ([]store.Agent, error) {
	agents, err := all(ctx, db.query, scanAgent, selectAgents+`ORDER BY cloud, ip, key`)
	if err != nil {
		return nil, fmt.Errorf("cannot list agents: %w", err)
	}
	return agents, nil
}

// GetAgents returns agents by their keys.
func (db *Store) GetAgents(ctx context.Context, keys []string) ([]store.Agent, error) {
	list, err := db.dialect.list(keys)
	if err != nil {
		return nil, fmt.Errorf("cannot read agents: %w", err)
	}
	agents, err := all(ctx, db.query, scanAgent, selectAgents+`WHERE key IN (SELECT value FROM texts(?) j)`, list)
	if err != nil {
		return nil, fmt.Errorf("cannot read agents: %w", err)
	}
	return agents, nil
}
