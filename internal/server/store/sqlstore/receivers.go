package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// CreateReceiver inserts a receiver.
func (db *Store) CreateReceiver(ctx context.Context, r store.Receiver, after int64) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		row, err := receiverRow(r)
		if err != nil {
			return err
		}
		return inserted(tx.affect(ctx,
			`INSERT INTO receivers (kind, url, secret, wanted, mail, subject, body, local, note, changed,
				created, name, cursor)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			append(row, nanos(r.Created), r.Name, after)...))
	})
	if err != nil {
		return fmt.Errorf("cannot create receiver %q: %w", r.Name, err)
	}
	return nil
}

// receiverRow returns the columns of a receiver that may change: kind, url, secret, wanted, mail, subject,
// body, local, note, changed.
func receiverRow(r store.Receiver) ([]any, error) {
	match, err := json.Marshal(r.Match)
	if err != nil {
		return nil, fmt.Errorf("cannot encode match: %w", err)
	}
	mail, err := json.Marshal(r.Mail)
	if err != nil {
		return nil, fmt.Errorf("cannot encode mail: %w", err)
	}
	return []any{
		string(r.Kind), r.URL, r.Secret, string(match), string(mail), r.Subject, r.Body, r.Local,
		r.Note, nanos(r.Changed),
	}, nil
}

// ChangeReceiver changes a receiver in one transaction.
func (db *Store) ChangeReceiver(ctx context.Context, name string,
	change func(*store.Receiver) error,
) (store.Subscription, error) {
	changed, err := altered(ctx, db, scanReceiver, selectReceivers+`WHERE name = ?`, name,
		func(ctx context.Context, tx tx, s *store.Subscription) error {
			created := s.Receiver.Created
			if err := change(&s.Receiver); err != nil {
				return err
			}
			s.Receiver.Name, s.Receiver.Created = name, created
			row, err := receiverRow(s.Receiver)
			if err != nil {
				return err
			}
			return tx.exec(ctx,
				`UPDATE receivers SET kind = ?, url = ?, secret = ?, wanted = ?, mail = ?, subject = ?, body = ?,
						local = ?, note = ?, changed = ?
					WHERE name = ?`,
				append(row, name)...)
		})
	if err != nil {
		return store.Subscription{}, fmt.Errorf("cannot change receiver %q: %w", name, err)
	}
	return changed, nil
}

const selectReceivers = `SELECT name, kind, url, secret, wanted, mail, subject, body, local, note, created, changed, cursor,
		failures, failing, error, next, delivered
	FROM receivers `

func scanReceiver(rows *sql.Rows) (store.Subscription, error) {
	var s store.Subscription
	var match, mail []byte
	var created, changed, failing, next, delivered int64
	r, d := &s.Receiver, &s.Delivery
	if err := rows.Scan(&r.Name, &r.Kind, &r.URL, &r.Secret, &match, &mail, &r.Subject, &r.Body, &r.Local, &r.Note,
		&created, &changed, &d.Cursor, &d.Failures, &failing, &d.Error, &next, &delivered); err != nil {
		return store.Subscription{}, err
	}
	r.Created, r.Changed = moment(created), moment(changed)
	d.Failing, d.Next, d.Delivered = moment(failing), moment(next), moment(delivered)
	err := json.Unmarshal(match, &r.Match)
	if err == nil {
		err = json.Unmarshal(mail, &r.Mail)
	}
	if err != nil {
		return store.Subscription{}, fmt.Errorf("cannot decode receiver %q: %w", r.Name, err)
	}
	return s, nil
}

// GetReceiver returns one receiver.
func (db *Store) GetReceiver(ctx context.Context, name string) (store.Subscription, error) {
	s, err := one(ctx, db.query, scanReceiver, selectReceivers+`WHERE name = ?`, name)
	if err != nil {
		return store.Subscription{}, fmt.Errorf("cannot read receiver %q: %w", name, err)
	}
	return s, nil
}

// ListReceivers returns all receivers.
func (db *Store) ListReceivers(ctx context.Context) ([]store.Subscription, error) {
	list, err := all(ctx, db.query, scanReceiver, selectReceivers+`ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("cannot list receivers: %w", err)
	}
	return list, nil
}

// DeleteReceiver removes a receiver and its withheld alarms.
func (db *Store) DeleteReceiver(ctx context.Context, name string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := affected(tx.affect(ctx, `DELETE FROM receivers WHERE name = ?`, name)); err != nil {
			return err
		}
		return tx.exec(ctx, `DELETE FROM withheld_alarms WHERE receiver = ?`, name)
	})
	if err != nil {
		return fmt.Errorf("cannot delete receiver %q: %w", name, err)
	}
	return nil
}

// PutDelivery stores the progress of a receiver and its withheld alarms.
func (db *Store) PutDelivery(ctx context.Context, name string, created time.Time, d store.Delivery,
	w store.Withheld,
) error {
	added, err := withheldRows(name, w.Added)
	if err != nil {
		return err
	}
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		n, err := tx.affect(ctx,
			`UPDATE receivers SET cursor = ?, failures = ?, failing = ?, error = ?, next = ?, delivered = ?
			WHERE name = ? AND created = ?`,
			d.Cursor, d.Failures, nanos(d.Failing), d.Error, nanos(d.Next), nanos(d.Delivered), name, nanos(created))
		if err != nil || n == 0 {
			return err
		}
		for _, k := range w.Dropped {
			err := tx.exec(ctx, `DELETE FROM withheld_alarms
				WHERE receiver = ? AND agent = ? AND namespace = ? AND name = ? AND kind = ? AND schedule = ?`,
				name, k.Agent, k.Process.Namespace, k.Process.Name, string(k.Kind), k.Schedule)
			if err != nil {
				return err
			}
		}
		for id, n := range w.Counts {
			if err := tx.exec(ctx, `UPDATE silences SET withheld = withheld + ? WHERE id = ?`, n, id); err != nil {
				return err
			}
		}
		for _, row := range added {
			err := tx.exec(ctx, `INSERT INTO withheld_alarms (receiver, agent, namespace, name, kind, schedule, cursor, received,
					body)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (receiver, agent, namespace, name, kind, schedule) DO UPDATE SET cursor = excluded.cursor,
					received = excluded.received, body = excluded.body`, row...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot store the delivery of receiver %q: %w", name, err)
	}
	return nil
}

// withheldRows returns the columns of withheld alarms.
func withheldRows(receiver string, events []store.StoredEvent) ([][]any, error) {
	rows := make([][]any, len(events))
	for i := range events {
		e := &events[i]
		body, err := json.Marshal(e.Event)
		if err != nil {
			return nil, fmt.Errorf("cannot encode a withheld alarm: %w", err)
		}
		rows[i] = []any{
			receiver, e.Agent, e.Event.Process.Namespace, e.Event.Process.Name, string(e.Event.Kind), e.Event.Schedule,
			e.Cursor, nanos(e.Received), string(body),
		}
	}
	return rows, nil
}

// ListWithheld returns the withheld alarms of a receiver.
func (db *Store) ListWithheld(ctx context.Context, receiver string) ([]store.StoredEvent, error) {
	list, err := all(ctx, db.query, func(rows *sql.Rows) (e store.StoredEvent, err error) {
		var received int64
		var body []byte
		if err := rows.Scan(&e.Agent, &e.Cursor, &received, &body); err != nil {
			return e, err
		}
		e.Received = moment(received)
		return e, json.Unmarshal(body, &e.Event)
	}, `SELECT agent, cursor, received, body FROM withheld_alarms WHERE receiver = ? ORDER BY cursor`, receiver)
	if err != nil {
		return nil, fmt.Errorf("cannot list the withheld alarms of receiver %q: %w", receiver, err)
	}
	return list, nil
}

// CreateSilence inserts a silence.
func (db *Store) CreateSilence(ctx context.Context, s store.Silence) error {
	processes, err := json.Marshal(s.Processes)
	hosts, err2 := json.Marshal(s.Hosts)
	if err = errors.Join(err, err2); err == nil {
		err = db.write(ctx, func(ctx context.Context, tx tx) error {
			return inserted(tx.affect(ctx, `INSERT INTO silences (id, processes, hosts, selector, labels, begins, ends, cron,
				zone, length, message, app, "user", created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT DO NOTHING`,
				s.ID, string(processes), string(hosts), s.Selector, s.Labels, nanos(s.From), nanos(s.Until),
				s.Cron, s.Zone, int64(s.Length), s.Message, s.App, s.User, nanos(s.Created)))
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
	s.From, s.Until, s.Created, s.Removed = moment(begins), moment(ends), moment(created), moment(removed)
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
func (db *Store) ListSilences(ctx context.Context, after time.Time) ([]store.Silence, error) {
	list, err := all(ctx, db.query, scanSilence, selectSilences+`WHERE `+silenceEnds+` > ? ORDER BY begins, id`,
		nanos(after))
	if err != nil {
		return nil, fmt.Errorf("cannot list silences: %w", err)
	}
	return list, nil
}

// RemoveSilence ends a silence.
func (db *Store) RemoveSilence(ctx context.Context, id string, at time.Time) (store.Silence, error) {
	s, err := altered(ctx, db, scanSilence, selectSilences+`WHERE id = ?`, id,
		func(ctx context.Context, tx tx, s *store.Silence) error {
			if !at.Before(s.End()) {
				return nil
			}
			s.Removed = at
			return tx.exec(ctx, `UPDATE silences SET removed = ? WHERE id = ?`, nanos(at), id)
		})
	if err != nil {
		return store.Silence{}, fmt.Errorf("cannot remove silence %q: %w", id, err)
	}
	return s, nil
}

// PruneSilences removes silences that ended long ago.
func (db *Store) PruneSilences(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		n, err = tx.affect(ctx, `DELETE FROM silences WHERE id IN (
			SELECT id FROM silences WHERE `+silenceEnds+` < ? LIMIT ?)`, nanos(before), max(limit, 0))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune silences: %w", err)
	}
	return n, nil
}

// OpenBreaker stores an open breaker.
func (db *Store) OpenBreaker(ctx context.Context, b store.Breaker, instead time.Time) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return inserted(tx.affect(ctx, `INSERT INTO breakers (namespace, name, revision, cause, failed, hosts, agent, opened,
				until)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (namespace, name) DO UPDATE SET revision = excluded.revision, cause = excluded.cause,
				failed = excluded.failed, hosts = excluded.hosts, agent = excluded.agent, opened = excluded.opened,
				until = excluded.until, closed = 0, closed_by = '', told = 0
			WHERE breakers.closed > 0 OR breakers.opened = ?`,
			b.Process.Namespace, b.Process.Name, b.Revision, string(b.Cause), b.Failed, b.Hosts, b.Agent,
			nanos(b.Opened), nanos(b.Until), nanos(instead)))
	})
	if err != nil {
		return fmt.Errorf("cannot open the breaker of %s: %w", b.Process, err)
	}
	return nil
}

const selectBreakers = `SELECT namespace, name, revision, cause, failed, hosts, agent, opened, until, closed, closed_by,
		told
	FROM breakers `

func scanBreaker(rows *sql.Rows) (b store.Breaker, err error) {
	var opened, until, closed, told int64
	err = rows.Scan(&b.Process.Namespace, &b.Process.Name, &b.Revision, &b.Cause, &b.Failed, &b.Hosts, &b.Agent,
		&opened, &until, &closed, &b.ClosedBy, &told)
	b.Opened, b.Until, b.Closed, b.Told = moment(opened), moment(until), moment(closed), told != 0
	return b, err
}

// CloseBreaker closes a breaker.
func (db *Store) CloseBreaker(ctx context.Context, id process.ID, at time.Time,
	by string,
) (b store.Breaker, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		b, err = one(ctx, tx.query, scanBreaker, selectBreakers+`WHERE namespace = ? AND name = ?`+db.dialect.Locked,
			id.Namespace, id.Name)
		if err != nil || !b.Closed.IsZero() {
			return err
		}
		b.Closed, b.ClosedBy = at, by
		return tx.exec(ctx, `UPDATE breakers SET closed = ?, closed_by = ? WHERE namespace = ? AND name = ?`, nanos(at), by,
			id.Namespace, id.Name)
	})
	if err != nil {
		return store.Breaker{}, fmt.Errorf("cannot close the breaker of %s: %w", id, err)
	}
	return b, nil
}

// BreakerTold notes that a closing is known.
func (db *Store) BreakerTold(ctx context.Context, id process.ID, opened time.Time) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, `UPDATE breakers SET told = 1 WHERE namespace = ? AND name = ? AND opened = ? AND closed > 0`,
			id.Namespace, id.Name, nanos(opened))
	})
	if err != nil {
		return fmt.Errorf("cannot store the breaker of %s: %w", id, err)
	}
	return nil
}

// ListBreakers returns all breakers.
func (db *Store) ListBreakers(ctx context.Context) ([]store.Breaker, error) {
	list, err := all(ctx, db.query, scanBreaker, selectBreakers+`ORDER BY namespace, name`)
	if err != nil {
		return nil, fmt.Errorf("cannot list breakers: %w", err)
	}
	return list, nil
}
