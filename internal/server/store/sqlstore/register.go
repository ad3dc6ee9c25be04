package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

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
	agents, err := all(ctx, db.query, scanAgent, selectAgents+`WHERE key IN (SELECT value FROM texts(?) j)`,
		db.dialect.Texts(keys))
	if err != nil {
		return nil, fmt.Errorf("cannot read agents: %w", err)
	}
	return agents, nil
}

// UseProxyToken joins a proxy.
func (db *Store) UseProxyToken(ctx context.Context, p store.Proxy,
	check func(t store.JoinToken, again bool) error,
) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		err := db.countUse(ctx, tx, p.Token, check, `SELECT EXISTS (SELECT 1 FROM proxies WHERE key = ? AND token = ?)`,
			p.Key, p.Token)
		if err != nil {
			return err
		}
		err = restore(ctx, tx, p.Key,
			`SELECT EXISTS (SELECT 1 FROM agents WHERE key = ?1) OR EXISTS (SELECT 1 FROM proxies WHERE key = ?1
				AND area <> ?2)
			OR EXISTS (SELECT 1 FROM removed_agents WHERE key = ?1 AND (role <> 'proxy' OR area <> ?2))`, p.Key, p.Area)
		if err != nil {
			return err
		}
		if err := tx.exec(ctx, `DELETE FROM proxies WHERE key = ?`, p.Key); err != nil {
			return err
		}
		return inserted(tx.affect(ctx,
			`INSERT INTO proxies (key, area, name, advertise, build, token, created) VALUES (?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT DO NOTHING`,
			p.Key, p.Area, p.Name, p.Advertise, p.Build, p.Token, nanos(p.Created)))
	})
	if err != nil {
		return fmt.Errorf("cannot use token %q: %w", p.Token, err)
	}
	return nil
}

// ListProxies returns all proxies.
func (db *Store) ListProxies(ctx context.Context) ([]store.Proxy, error) {
	list, err := all(ctx, db.query, func(rows *sql.Rows) (store.Proxy, error) {
		var p store.Proxy
		var created int64
		err := rows.Scan(&p.Key, &p.Area, &p.Name, &p.Advertise, &p.Build, &p.Token, &created)
		p.Created = moment(created)
		return p, err
	}, `SELECT key, area, name, advertise, build, token, created FROM proxies ORDER BY area, name`)
	if err != nil {
		return nil, fmt.Errorf("cannot list proxies: %w", err)
	}
	return list, nil
}

// RemoveProxy deletes a proxy.
func (db *Store) RemoveProxy(ctx context.Context, key string, at time.Time) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		err := tx.exec(ctx,
			`INSERT INTO removed_agents (key, at, role, area) SELECT key, ?, 'proxy', area FROM proxies WHERE key = ?
			ON CONFLICT (key) DO UPDATE SET role = excluded.role, area = excluded.area`, nanos(at), key)
		if err != nil {
			return err
		}
		return affected(tx.affect(ctx, `DELETE FROM proxies WHERE key = ?`, key))
	})
	if err != nil {
		return fmt.Errorf("cannot remove proxy %s: %w", key, err)
	}
	return nil
}
