package alarms

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// CreateSilence inserts a silence.
func (db *Alarms) CreateSilence(ctx context.Context, s store.Silence) error {
	processes, err := json.Marshal(s.Processes)
	hosts, err2 := json.Marshal(s.Hosts)
	if err = errors.Join(err, err2); err == nil {
		err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
			return kit.Inserted(tx.Affect(ctx, `INSERT INTO silences (id, processes, hosts, selector, labels, begins, ends, cron,
				zone, length, message, app, "user", created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT DO NOTHING`,
				s.ID, string(processes), string(hosts), s.Selector, s.Labels, kit.Nanos(s.From), kit.Nanos(s.Until),
				s.Cron, s.Zone, int64(s.Length), s.Message, s.App, s.User, kit.Nanos(s.Created)))
		})
	}
	if err != nil {
		return fmt.Errorf("cannot create silence: %w", err)
	}
	return nil
}

const selectSilences = `SELECT id, processes, hosts, selector, labels, begins, ends, cron, zone, length, message, app, "user",
		created, removed, withheld
	FROM silences `

func scanSilence(rows *sql.Rows) (s store.Silence, err error) {
	var processes, hosts []byte
	var begins, ends, length, created, removed int64
	if err := rows.Scan(&s.ID, &processes, &hosts, &s.Selector, &s.Labels, &begins, &ends, &s.Cron, &s.Zone,
		&length, &s.Message, &s.App, &s.User, &created, &removed, &s.Withheld); err != nil {
		return s, err
	}
	s.From, s.Until = kit.Moment(begins), kit.Moment(ends)
	s.Created, s.Removed = kit.Moment(created), kit.Moment(removed)
	s.Length = time.Duration(length)
	err = errors.Join(json.Unmarshal(processes, &s.Processes), json.Unmarshal(hosts, &s.Hosts))
	if err != nil {
		return s, fmt.Errorf("cannot decode silence %q: %w", s.ID, err)
	}
	return s, nil
}

// silenceEnds is the end of a silence.
const silenceEnds = `(CASE WHEN removed > 0 AND removed < ends THEN removed ELSE ends END)`

// ListSilences returns the silences that end after a time.
func (db *Alarms) ListSilences(ctx context.Context, after time.Time) ([]store.Silence, error) {
	list, err := kit.All(ctx, db.Query, scanSilence, selectSilences+`WHERE `+silenceEnds+` > ? ORDER BY begins, id`,
		kit.Nanos(after))
	if err != nil {
		return nil, fmt.Errorf("cannot list silences: %w", err)
	}
	return list, nil
}

// RemoveSilence ends a silence.
func (db *Alarms) RemoveSilence(ctx context.Context, id string, at time.Time) (store.Silence, error) {
	s, err := kit.Altered(ctx, db.DB, scanSilence, selectSilences+`WHERE id = ?`, id,
		func(ctx context.Context, tx kit.Tx, s *store.Silence) error {
			if !at.Before(s.End()) {
				return nil
			}
			s.Removed = at
			return tx.Exec(ctx, `UPDATE silences SET removed = ? WHERE id = ?`, kit.Nanos(at), id)
		})
	if err != nil {
		return store.Silence{}, fmt.Errorf("cannot remove silence %q: %w", id, err)
	}
	return s, nil
}

// PruneSilences removes silences that ended long ago.
func (db *Alarms) PruneSilences(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		n, err = tx.Affect(ctx, `DELETE FROM silences WHERE id IN (
			SELECT id FROM silences WHERE `+silenceEnds+` < ? LIMIT ?)`, kit.Nanos(before), max(limit, 0))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune silences: %w", err)
	}
	return n, nil
}
