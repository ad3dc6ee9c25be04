package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// Shared reports whether other servers may have the database open at the same time.
func (db *Fleet) Shared() bool { return db.Dialect.Clock != "" }

// Clock returns the time of the database.
func (db *Fleet) Clock(ctx context.Context) (time.Time, error) {
	now, err := db.clock(ctx, db.Backend.Query)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read the clock of the database: %w", err)
	}
	return now, nil
}

// clock returns the time of the database. If only this process has the database open, it returns the time of this
// process.
func (db *Fleet) clock(ctx context.Context, query kit.QueryFunc) (time.Time, error) {
	if db.Dialect.Clock == "" {
		return time.Now(), nil
	}
	now, err := kit.One(ctx, query, kit.Column[int64], db.Dialect.Clock)
	return kit.Moment(now), err
}

// TakeLease gives a lease to the holder, unless another holder has it.
func (db *Fleet) TakeLease(ctx context.Context, name, holder string, hold time.Duration) (taken bool, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		now, err := db.clock(ctx, tx.Query)
		if err != nil {
			return err
		}
		n, err := tx.Affect(ctx, `INSERT INTO leases (name, holder, until) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE
			SET holder = excluded.holder, until = excluded.until WHERE leases.holder = excluded.holder
				OR leases.until <= ?`,
			name, holder, kit.Nanos(now.Add(hold)), kit.Nanos(now))
		taken = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("cannot take lease %q: %w", name, err)
	}
	return taken, nil
}

// DropLease deletes a lease if the holder has it. Otherwise it changes nothing, and returns no error.
func (db *Fleet) DropLease(ctx context.Context, name, holder string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return tx.Exec(ctx, `DELETE FROM leases WHERE name = ? AND holder = ?`, name, holder)
	})
	if err != nil {
		return fmt.Errorf("cannot drop lease %q: %w", name, err)
	}
	return nil
}

// serversKept is how long the store remembers a server that no longer reports that it is online.
const serversKept = 7 * 24 * time.Hour

// BeatServer records that a server is online, and returns all servers that are online.
func (db *Fleet) BeatServer(ctx context.Context, s store.Server,
	within time.Duration,
) (there []store.Server, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		there = nil
		now, err := db.clock(ctx, tx.Query)
		if err != nil {
			return err
		}
		keys, err := json.Marshal(s.Keys)
		if err != nil {
			return err
		}
		agents, err := json.Marshal(s.Agents)
		if err != nil {
			return err
		}
		if err := tx.Exec(ctx, `DELETE FROM servers WHERE beat < ?`, kit.Nanos(now.Add(-serversKept))); err != nil {
			return err
		}
		if err := tx.Exec(ctx,
			`INSERT INTO servers (id, name, started, beat, ended, keys, agents) VALUES (?, ?, ?, ?, 0, ?, ?) ON CONFLICT (id)
				DO UPDATE
			SET beat = excluded.beat, keys = excluded.keys, agents = excluded.agents`,
			s.ID, s.Name, kit.Nanos(s.Started), kit.Nanos(now), string(keys),
			kit.Optional(string(agents), s.Agents != nil)); err != nil {
			return err
		}
		there, err = kit.All(ctx, tx.Query, scanServer,
			selectServers+`WHERE beat > ? AND ended = 0 ORDER BY started, id`,
			kit.Nanos(now.Add(-within)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot register this server: %w", err)
	}
	return there, nil
}

const selectServers = `SELECT id, name, started, beat, keys, agents FROM servers `

// ListServers returns the servers of the last days.
func (db *Fleet) ListServers(ctx context.Context) ([]store.Server, error) {
	list, err := kit.All(ctx, db.Query, scanServer, selectServers+`ORDER BY started, id`)
	if err != nil {
		return nil, fmt.Errorf("cannot list the servers: %w", err)
	}
	return list, nil
}

// ShareHubs records addresses by which proxies reach a server, and returns those of all servers.
func (db *Fleet) ShareHubs(ctx context.Context, own []string, within time.Duration) (shared []string, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		now, err := db.clock(ctx, tx.Query)
		if err != nil {
			return err
		}
		since := kit.Nanos(now.Add(-within))
		if err := tx.Exec(ctx, `DELETE FROM hubs WHERE seen < ?`, since); err != nil {
			return err
		}
		for _, address := range own {
			if err := tx.Exec(ctx, `INSERT INTO hubs (address, seen) VALUES (?, ?) ON CONFLICT (address) DO UPDATE
				SET seen = excluded.seen`, address, kit.Nanos(now)); err != nil {
				return err
			}
		}
		shared, err = kit.All(ctx, tx.Query, kit.Column[string], `SELECT address FROM hubs WHERE seen >= ?`, since)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot share the addresses for proxies: %w", err)
	}
	slices.Sort(shared) // databases sort by their own languages
	return shared, nil
}

func scanServer(rows *sql.Rows) (s store.Server, err error) {
	var started, beat int64
	var keys, agents []byte
	if err := rows.Scan(&s.ID, &s.Name, &started, &beat, &keys, &agents); err != nil {
		return s, err
	}
	s.Started, s.Beat = kit.Moment(started), kit.Moment(beat)
	if err := json.Unmarshal(keys, &s.Keys); err != nil {
		return s, fmt.Errorf("cannot read the keys of server %s: %w", s.ID, err)
	}
	if agents == nil {
		return s, nil
	}
	if err := json.Unmarshal(agents, &s.Agents); err != nil {
		return s, fmt.Errorf("cannot read the agents of server %s: %w", s.ID, err)
	}
	return s, nil
}

// DropServer records that a server has ended.
func (db *Fleet) DropServer(ctx context.Context, id string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return tx.Exec(ctx, `UPDATE servers SET ended = 1 WHERE id = ?`, id)
	})
	if err != nil {
		return fmt.Errorf("cannot forget server %s: %w", id, err)
	}
	return nil
}

// Identify stores the facts that are not stored yet, and returns all facts. It writes only if a fact is missing,
// because servers call it again and again.
func (db *Fleet) Identify(ctx context.Context, facts map[string]string) (map[string]string, error) {
	stored, err := readFacts(ctx, db.Query)
	if err == nil && !holds(stored, facts) {
		err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
			for key, value := range facts {
				if err := tx.Exec(ctx, `INSERT INTO fleet (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING`, key,
					value); err != nil {
					return err
				}
			}
			stored, err = readFacts(ctx, tx.Query)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("cannot identify the fleet: %w", err)
	}
	return stored, nil
}

func readFacts(ctx context.Context, query kit.QueryFunc) (map[string]string, error) {
	facts := map[string]string{}
	err := query(ctx, func(rows *sql.Rows) error {
		var key, value string
		err := rows.Scan(&key, &value)
		facts[key] = value
		return err
	}, `SELECT key, value FROM fleet ORDER BY key`)
	return facts, err
}

// holds reports whether all facts are stored, with any values.
func holds(stored, facts map[string]string) bool {
	for key := range facts {
		if _, ok := stored[key]; !ok {
			return false
		}
	}
	return true
}

// Origin returns what tells the database from its copies.
func (db *Fleet) Origin(ctx context.Context) (origin, run string, err error) {
	origin, run, err = db.Dialect.Origin(ctx, db.Backend)
	if err != nil {
		return "", "", fmt.Errorf("cannot tell the database from its copies: %w", kit.Failed(err))
	}
	return origin, run, nil
}

// SwapFact replaces a fact that still has the value before.
func (db *Fleet) SwapFact(ctx context.Context, key, before, value string) (swapped bool, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		n, err := tx.Affect(ctx, `UPDATE fleet SET value = ? WHERE key = ? AND value = ?`, value, key, before)
		swapped = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("cannot store the %s of the fleet: %w", key, err)
	}
	return swapped, nil
}

// SetFact replaces a fact about the fleet.
func (db *Fleet) SetFact(ctx context.Context, key, value string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return tx.Exec(ctx,
			`INSERT INTO fleet (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key,
			value)
	})
	if err != nil {
		return fmt.Errorf("cannot store the %s of the fleet: %w", key, err)
	}
	return nil
}
