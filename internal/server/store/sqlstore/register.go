package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
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
	c, err := encodeAgent(&a)
	if err != nil {
		return err
	}
	return tx.exec(ctx,
		`INSERT INTO agents (key, cloud, ip, id, assigned, build, created, token, labels, business, name, place, host,
			set_labels, sealing, told)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
		SET cloud = excluded.cloud, ip = excluded.ip, id = excluded.id, assigned = excluded.assigned,
			build = excluded.build,
		created = excluded.created, token = excluded.token, labels = excluded.labels, business = excluded.business,
		name = excluded.name, place = excluded.place, host = excluded.host, sealing = excluded.sealing`,
		a.Key, a.Cloud, a.IP, a.ID, a.Assigned, a.Build, nanos(a.Created), a.Token, c.labels, a.Business, a.Name,
		a.Place, c.host, c.set, a.Sealing, a.Told)
}

// agentColumns are the columns of an agent that hold JSON.
type agentColumns struct{ labels, host, set string }

func encodeAgent(a *store.Agent) (c agentColumns, err error) {
	if c.labels, err = encodeLabels(a.Labels); err != nil {
		return c, err
	}
	if c.set, err = encodeLabels(a.SetLabels); err != nil {
		return c, err
	}
	host, err := json.Marshal(a.Host)
	if err != nil {
		return c, fmt.Errorf("cannot encode host: %w", err)
	}
	c.host = string(host)
	return c, nil
}

// ChangeAgent replaces a known agent.
func (db *Store) ChangeAgent(ctx context.Context, a store.Agent, at time.Time) error {
	c, err := encodeAgent(&a)
	if err != nil {
		return fmt.Errorf("cannot change agent %s: %w", a.Key, err)
	}
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := keepNames(ctx, tx, &a, at); err != nil {
			return err
		}
		err := affected(tx.affect(ctx,
			`UPDATE agents SET cloud = ?, ip = ?, id = ?, assigned = ?, build = ?, created = ?, token = ?, labels = ?,
				business = ?,
			name = ?, place = ?, host = ?, sealing = ? WHERE key = ?`,
			a.Cloud, a.IP, a.ID, a.Assigned, a.Build, nanos(a.Created), a.Token, c.labels, a.Business, a.Name, a.Place,
			c.host, a.Sealing, a.Key))
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

// AgentTold notes to which incarnation an agent has told all.
func (db *Store) AgentTold(ctx context.Context, key, incarnation string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return affected(tx.affect(ctx, `UPDATE agents SET told = ? WHERE key = ?`, incarnation, key))
	})
	if err != nil {
		return fmt.Errorf("cannot note what agent %s has told: %w", key, err)
	}
	return nil
}

// LabelAgents changes the labels that people have set.
func (db *Store) LabelAgents(ctx context.Context, keys []string,
	change func(store.Agent) (map[string]*string, error),
) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		agents, err := all(ctx, tx.query, scanAgent,
			selectAgents+`WHERE key IN (SELECT value FROM texts(?) j) ORDER BY key`+db.dialect.Locked,
			db.dialect.Texts(keys))
		if err != nil {
			return err
		}
		if len(agents) != len(keys) {
			return store.ErrNotFound
		}
		for _, a := range agents {
			labels, err := change(a)
			if err != nil {
				return err
			}
			text, err := encodeLabels(labels)
			if err != nil {
				return err
			}
			if err := tx.exec(ctx, `UPDATE agents SET set_labels = ? WHERE key = ?`, text, a.Key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot label agents: %w", err)
	}
	return nil
}

const selectAgents = `SELECT key, cloud, ip, id, assigned, build, created, token, labels, business, name, place, host,
		set_labels, sealing, told FROM agents `

func scanAgent(rows *sql.Rows) (store.Agent, error) {
	var a store.Agent
	var created int64
	var labels, host, set sql.RawBytes
	err := rows.Scan(&a.Key, &a.Cloud, &a.IP, &a.ID, &a.Assigned, &a.Build, &created, &a.Token, &labels, &a.Business,
		&a.Name, &a.Place, &host, &set, &a.Sealing, &a.Told)
	a.Created = moment(created)
	if err != nil {
		return a, err
	}
	if a.Labels, err = decodeLabels[string](labels); err != nil {
		return a, err
	}
	if a.SetLabels, err = decodeLabels[*string](set); err != nil {
		return a, err
	}
	if err = json.Unmarshal(host, &a.Host); err != nil {
		return a, fmt.Errorf("cannot decode host of agent %s: %w", a.Key, err)
	}
	return a, nil
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
			`INSERT INTO proxies (key, area, name, advertise, build, token, created, sealing)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT DO NOTHING`,
			p.Key, p.Area, p.Name, p.Advertise, p.Build, p.Token, nanos(p.Created), p.Sealing))
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
		err := rows.Scan(&p.Key, &p.Area, &p.Name, &p.Advertise, &p.Build, &p.Token, &created, &p.Sealing)
		p.Created = moment(created)
		return p, err
	}, `SELECT key, area, name, advertise, build, token, created, sealing FROM proxies ORDER BY area, name`)
	if err != nil {
		return nil, fmt.Errorf("cannot list proxies: %w", err)
	}
	return list, nil
}

// ResealProxy stores the sealing keys of a proxy.
func (db *Store) ResealProxy(ctx context.Context, key, before, after string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return affected(tx.affect(ctx, `UPDATE proxies SET sealing = ? WHERE key = ? AND sealing = ?`, after, key, before))
	})
	if err != nil {
		return fmt.Errorf("cannot store the sealing keys of proxy %s: %w", key, err)
	}
	return nil
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
