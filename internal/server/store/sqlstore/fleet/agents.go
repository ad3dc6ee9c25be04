// Package fleet keeps the hosts and what they need: agents and proxies, join tokens, process groups, packages, and the
// servers of the fleet with their leases and facts.
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

// Fleet are the tables of hosts and servers.
type Fleet struct {
	*kit.DB
	events *events.Events
}

// New returns the tables of hosts and servers.
func New(db *kit.DB, e *events.Events) *Fleet { return &Fleet{DB: db, events: e} }

// replaceAgent gives the confirmed records, process groups and events of the old agent to the new one, and removes the
// old agent. It drops the observations, because they describe a disk that is gone.
func replaceAgent(ctx context.Context, tx kit.Tx, old, key string, at time.Time) error {
	for _, statement := range []string{
		`UPDATE confirmed SET agent = ?1 WHERE agent = ?2 AND NOT EXISTS (SELECT 1 FROM confirmed WHERE agent = ?1)`,
		`UPDATE groups SET agent = ?1 WHERE agent = ?2 AND NOT EXISTS (SELECT 1 FROM groups WHERE agent = ?1)`,
		`UPDATE events SET agent = ?1 WHERE agent = ?2`,
		`UPDATE event_streams SET agent = ?1 WHERE agent = ?2`,
	} {
		if err := tx.Exec(ctx, statement, key, old); err != nil {
			return err
		}
	}
	return forgetAgent(ctx, tx, old, at)
}

// RemoveAgent deletes an agent.
func (db *Fleet) RemoveAgent(ctx context.Context, key string, at time.Time, last []store.NewEvent) error {
	_, err := db.events.WriteEvents(ctx, at, func(ctx context.Context, tx kit.Tx, events *events.Arrivals) error {
		events.Agent = key
		for i := range last {
			if err := events.Add(ctx, tx, &last[i]); err != nil {
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

func forgetAgent(ctx context.Context, tx kit.Tx, key string, at time.Time) error {
	err := tx.Exec(ctx,
		`INSERT INTO removed_agents (key, at, role, area, ip, id, assigned, created, labels, set_labels)
			SELECT key, ?, 'agent', cloud, ip, id, assigned, created, labels, set_labels FROM agents WHERE key = ?
			ON CONFLICT DO NOTHING`,
		kit.Nanos(at), key)
	if err != nil {
		return err
	}
	if err := kit.Affected(tx.Affect(ctx, `DELETE FROM agents WHERE key = ?`, key)); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM observed WHERE agent = ?`,
		`DELETE FROM confirmed WHERE agent = ?`,
		`DELETE FROM groups WHERE agent = ?`,
		`DELETE FROM agent_reports WHERE agent = ?`,
		`DELETE FROM upkeep WHERE agent = ?`,
	} {
		if err := tx.Exec(ctx, statement, key); err != nil {
			return err
		}
	}
	return nil
}

// ListFormer returns removed agents.
func (db *Fleet) ListFormer(ctx context.Context, limit int) ([]store.FormerAgent, error) {
	list, err := kit.All(ctx, db.Query, func(rows *sql.Rows) (a store.FormerAgent, err error) {
		var created, removed int64
		var labels, set sql.RawBytes
		err = rows.Scan(&a.Key, &removed, &a.Cloud, &a.IP, &a.ID, &a.Assigned, &created, &labels, &set)
		a.Created, a.Removed = kit.Moment(created), kit.Moment(removed)
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
func (db *Fleet) ListRemoved(ctx context.Context) ([]string, error) {
	keys, err := kit.All(ctx, db.Query, kit.Column[string], `SELECT key FROM removed_agents ORDER BY key`)
	if err != nil {
		return nil, fmt.Errorf("cannot list removed agents: %w", err)
	}
	return keys, nil
}

// PutAgent inserts or replaces an agent.
func (db *Fleet) PutAgent(ctx context.Context, a store.Agent) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return putAgent(ctx, tx, a)
	})
	if err != nil {
		return fmt.Errorf("cannot store agent %s: %w", a.Key, err)
	}
	return nil
}

func putAgent(ctx context.Context, tx kit.Tx, a store.Agent) error {
	if err := inheritGroups(ctx, tx, a); err != nil {
		return err
	}
	c, err := encodeAgent(&a)
	if err != nil {
		return err
	}
	return tx.Exec(ctx,
		`INSERT INTO agents (key, cloud, ip, id, assigned, build, created, token, labels, business, name, place, host,
			set_labels, sealing, told)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
		SET cloud = excluded.cloud, ip = excluded.ip, id = excluded.id, assigned = excluded.assigned,
			build = excluded.build,
		created = excluded.created, token = excluded.token, labels = excluded.labels, business = excluded.business,
		name = excluded.name, place = excluded.place, host = excluded.host, sealing = excluded.sealing`,
		a.Key, a.Cloud, a.IP, a.ID, a.Assigned, a.Build, kit.Nanos(a.Created), a.Token, c.labels, a.Business, a.Name,
		a.Place, c.host, c.set, a.Sealing, a.SyncedIncarnation)
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
func (db *Fleet) ChangeAgent(ctx context.Context, a store.Agent, at time.Time) error {
	c, err := encodeAgent(&a)
	if err != nil {
		return fmt.Errorf("cannot change agent %s: %w", a.Key, err)
	}
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		if err := events.KeepNames(ctx, tx, &a, at); err != nil {
			return err
		}
		err := kit.Affected(tx.Affect(ctx,
			`UPDATE agents SET cloud = ?, ip = ?, id = ?, assigned = ?, build = ?, created = ?, token = ?, labels = ?,
				business = ?,
			name = ?, place = ?, host = ?, sealing = ? WHERE key = ?`,
			a.Cloud, a.IP, a.ID, a.Assigned, a.Build, kit.Nanos(a.Created), a.Token, c.labels, a.Business, a.Name,
			a.Place,
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

// SetSyncedIncarnation notes to which incarnation an agent has told all.
func (db *Fleet) SetSyncedIncarnation(ctx context.Context, key, incarnation string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return kit.Affected(tx.Affect(ctx, `UPDATE agents SET told = ? WHERE key = ?`, incarnation, key))
	})
	if err != nil {
		return fmt.Errorf("cannot note what agent %s has told: %w", key, err)
	}
	return nil
}

// LabelAgents changes the labels that people have set.
func (db *Fleet) LabelAgents(ctx context.Context, keys []string,
	change func(store.Agent) (map[string]*string, error),
) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		agents, err := kit.All(ctx, tx.Query, scanAgent,
			selectAgents+`WHERE key IN (SELECT value FROM texts(?) j) ORDER BY key`+db.Dialect.Locked,
			db.Dialect.Texts(keys))
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
			if err := tx.Exec(ctx, `UPDATE agents SET set_labels = ? WHERE key = ?`, text, a.Key); err != nil {
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
		&a.Name, &a.Place, &host, &set, &a.Sealing, &a.SyncedIncarnation)
	a.Created = kit.Moment(created)
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
func (db *Fleet) ListAgents(ctx context.Context) ([]store.Agent, error) {
	agents, err := kit.All(ctx, db.Query, scanAgent, selectAgents+`ORDER BY cloud, ip, key`)
	if err != nil {
		return nil, fmt.Errorf("cannot list agents: %w", err)
	}
	return agents, nil
}

// GetAgents returns agents by their keys.
func (db *Fleet) GetAgents(ctx context.Context, keys []string) ([]store.Agent, error) {
	agents, err := kit.All(ctx, db.Query, scanAgent, selectAgents+`WHERE key IN (SELECT value FROM texts(?) j)`,
		db.Dialect.Texts(keys))
	if err != nil {
		return nil, fmt.Errorf("cannot read agents: %w", err)
	}
	return agents, nil
}
