package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"drover/internal/server/store"
)

// Shared reports whether other servers may have the database open at the same time.
func (db *Store) Shared() bool { return db.dialect.Clock != "" }

// Clock returns the time of the database.
func (db *Store) Clock(ctx context.Context) (time.Time, error) {
	now, err := db.clock(ctx, db.backend.Query)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read the clock of the database: %w", err)
	}
	return now, nil
}

// clock returns the time of the database. If only this process has the database open, it returns the time of this
// process.
func (db *Store) clock(ctx context.Context, query queryFunc) (time.Time, error) {
	if db.dialect.Clock == "" {
		return time.Now(), nil
	}
	now, err := one(ctx, query, column[int64], db.dialect.Clock)
	return moment(now), err
}

// TakeLease gives a lease to the holder, unless another holder has it.
func (db *Store) TakeLease(ctx context.Context, name, holder string, hold time.Duration) (taken bool, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		now, err := db.clock(ctx, tx.query)
		if err != nil {
			return err
		}
		n, err := tx.affect(ctx, `INSERT INTO leases (name, holder, until) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE
			SET holder = excluded.holder, until = excluded.until WHERE leases.holder = excluded.holder
				OR leases.until <= ?`,
			name, holder, nanos(now.Add(hold)), nanos(now))
		taken = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("cannot take lease %q: %w", name, err)
	}
	return taken, nil
}

// DropLease returns a lease.
func (db *Store) DropLease(ctx context.Context, name, holder string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, `DELETE FROM leases WHERE name = ? AND holder = ?`, name, holder)
	})
	if err != nil {
		return fmt.Errorf("cannot drop lease %q: %w", name, err)
	}
	return nil
}

// serversKept is how long the store remembers a server that no longer reports that it is online.
const serversKept = 7 * 24 * time.Hour

// BeatServer records that a server is online, and returns all servers that are online.
func (db *Store) BeatServer(ctx context.Context, s store.Server,
	within time.Duration,
) (there []store.Server, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		there = nil
		now, err := db.clock(ctx, tx.query)
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
		if err := tx.exec(ctx, `DELETE FROM servers WHERE beat < ?`, nanos(now.Add(-serversKept))); err != nil {
			return err
		}
		if err := tx.exec(ctx,
			`INSERT INTO servers (id, name, started, beat, ended, keys, agents) VALUES (?, ?, ?, ?, 0, ?, ?) ON CONFLICT (id)
				DO UPDATE
			SET beat = excluded.beat, keys = excluded.keys, agents = excluded.agents`,
			s.ID, s.Name, nanos(s.Started), nanos(now), string(keys),
			optional(string(agents), s.Agents != nil)); err != nil {
			return err
		}
		there, err = all(ctx, tx.query, scanServer,
			selectServers+`WHERE beat > ? AND ended = 0 ORDER BY started, id`,
			nanos(now.Add(-within)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot register this server: %w", err)
	}
	return there, nil
}

const selectServers = `SELECT id, name, started, beat, keys, agents FROM servers `

// ListServers returns the servers of the last days.
func (db *Store) ListServers(ctx context.Context) ([]store.Server, error) {
	list, err := all(ctx, db.query, scanServer, selectServers+`ORDER BY started, id`)
	if err != nil {
		return nil, fmt.Errorf("cannot list the servers: %w", err)
	}
	return list, nil
}

// ShareHubs records addresses by which proxies reach a server, and returns those of all servers.
func (db *Store) ShareHubs(ctx context.Context, own []string, within time.Duration) (shared []string, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		now, err := db.clock(ctx, tx.query)
		if err != nil {
			return err
		}
		since := nanos(now.Add(-within))
		if err := tx.exec(ctx, `DELETE FROM hubs WHERE seen < ?`, since); err != nil {
			return err
		}
		for _, address := range own {
			if err := tx.exec(ctx, `INSERT INTO hubs (address, seen) VALUES (?, ?) ON CONFLICT (address) DO UPDATE
				SET seen = excluded.seen`, address, nanos(now)); err != nil {
				return err
			}
		}
		shared, err = all(ctx, tx.query, column[string], `SELECT address FROM hubs WHERE seen >= ?`, since)
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
	s.Started, s.Beat = moment(started), moment(beat)
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
func (db *Store) DropServer(ctx context.Context, id string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, `UPDATE servers SET ended = 1 WHERE id = ?`, id)
	})
	if err != nil {
		return fmt.Errorf("cannot forget server %s: %w", id, err)
	}
	return nil
}

// Identify stores the facts that are not stored yet, and returns all facts. It writes only if a fact is missing,
// because servers call it again and again.
func (db *Store) Identify(ctx context.Context, facts map[string]string) (map[string]string, error) {
	stored, err := readFacts(ctx, db.query)
	if err == nil && !holds(stored, facts) {
		err = db.write(ctx, func(ctx context.Context, tx tx) error {
			for key, value := range facts {
				if err := tx.exec(ctx, `INSERT INTO fleet (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING`, key,
					value); err != nil {
					return err
				}
			}
			stored, err = readFacts(ctx, tx.query)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("cannot identify the fleet: %w", err)
	}
	return stored, nil
}

func readFacts(ctx context.Context, query queryFunc) (map[string]string, error) {
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
func (db *Store) Origin(ctx context.Context) (origin, run string, err error) {
	origin, run, err = db.dialect.Origin(ctx, db.backend)
	if err != nil {
		return "", "", fmt.Errorf("cannot tell the database from its copies: %w", failed(err))
	}
	return origin, run, nil
}

// SwapFact replaces a fact that still has the value before.
func (db *Store) SwapFact(ctx context.Context, key, before, value string) (swapped bool, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		n, err := tx.affect(ctx, `UPDATE fleet SET value = ? WHERE key = ? AND value = ?`, value, key, before)
		swapped = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("cannot store the %s of the fleet: %w", key, err)
	}
	return swapped, nil
}

// SetFact replaces a fact about the fleet.
func (db *Store) SetFact(ctx context.Context, key, value string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return tx.exec(ctx,
			`INSERT INTO fleet (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key,
			value)
	})
	if err != nil {
		return fmt.Errorf("cannot store the %s of the fleet: %w", key, err)
	}
	return nil
}
