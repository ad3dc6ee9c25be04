// Package alarms keeps the receivers of alarms, silences and breakers.
package alarms

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// Alarms are the tables of receivers, silences and breakers.
type Alarms struct{ *kit.DB }

// New returns the tables of alarms.
func New(db *kit.DB) *Alarms { return &Alarms{db} }

// CreateReceiver inserts a receiver.
func (db *Alarms) CreateReceiver(ctx context.Context, r store.Receiver, after int64) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		row, err := receiverRow(r)
		if err != nil {
			return err
		}
		return kit.Inserted(tx.Affect(ctx,
			`INSERT INTO receivers (kind, url, secret, wanted, mail, subject, body, local, note, changed,
				created, name, cursor)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			append(row, kit.Nanos(r.Created), r.Name, after)...))
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
		r.Note, kit.Nanos(r.Changed),
	}, nil
}

// ChangeReceiver changes a receiver in one transaction.
func (db *Alarms) ChangeReceiver(ctx context.Context, name string,
	change func(*store.Receiver) error,
) (store.Subscription, error) {
	changed, err := kit.Altered(ctx, db.DB, scanReceiver, selectReceivers+`WHERE name = ?`, name,
		func(ctx context.Context, tx kit.Tx, s *store.Subscription) error {
			created := s.Receiver.Created
			if err := change(&s.Receiver); err != nil {
				return err
			}
			s.Receiver.Name, s.Receiver.Created = name, created
			row, err := receiverRow(s.Receiver)
			if err != nil {
				return err
			}
			return tx.Exec(ctx,
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
	r.Created, r.Changed = kit.Moment(created), kit.Moment(changed)
	d.Failing, d.Next, d.Delivered = kit.Moment(failing), kit.Moment(next), kit.Moment(delivered)
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
func (db *Alarms) GetReceiver(ctx context.Context, name string) (store.Subscription, error) {
	s, err := kit.One(ctx, db.Query, scanReceiver, selectReceivers+`WHERE name = ?`, name)
	if err != nil {
		return store.Subscription{}, fmt.Errorf("cannot read receiver %q: %w", name, err)
	}
	return s, nil
}

// ListReceivers returns all receivers.
func (db *Alarms) ListReceivers(ctx context.Context) ([]store.Subscription, error) {
	list, err := kit.All(ctx, db.Query, scanReceiver, selectReceivers+`ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("cannot list receivers: %w", err)
	}
	return list, nil
}

// DeleteReceiver removes a receiver and its withheld alarms.
func (db *Alarms) DeleteReceiver(ctx context.Context, name string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		if err := kit.Affected(tx.Affect(ctx, `DELETE FROM receivers WHERE name = ?`, name)); err != nil {
			return err
		}
		return tx.Exec(ctx, `DELETE FROM withheld_alarms WHERE receiver = ?`, name)
	})
	if err != nil {
		return fmt.Errorf("cannot delete receiver %q: %w", name, err)
	}
	return nil
}

// PutDelivery stores the progress of a receiver and its withheld alarms. If the receiver is gone or was created again,
// it stores nothing and returns no error.
func (db *Alarms) PutDelivery(ctx context.Context, name string, created time.Time, d store.Delivery,
	w store.Withheld,
) error {
	added, err := withheldRows(name, w.Added)
	if err != nil {
		return err
	}
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		n, err := tx.Affect(ctx,
			`UPDATE receivers SET cursor = ?, failures = ?, failing = ?, error = ?, next = ?, delivered = ?
			WHERE name = ? AND created = ?`,
			d.Cursor, d.Failures, kit.Nanos(d.Failing), d.Error, kit.Nanos(d.Next), kit.Nanos(d.Delivered), name,
			kit.Nanos(created))
		if err != nil || n == 0 {
			return err
		}
		for _, k := range w.Dropped {
			err := tx.Exec(ctx, `DELETE FROM withheld_alarms
				WHERE receiver = ? AND agent = ? AND namespace = ? AND name = ? AND kind = ? AND schedule = ?`,
				name, k.Agent, k.Process.Namespace, k.Process.Name, string(k.Kind), k.Schedule)
			if err != nil {
				return err
			}
		}
		for id, n := range w.Counts {
			if err := tx.Exec(ctx, `UPDATE silences SET withheld = withheld + ? WHERE id = ?`, n, id); err != nil {
				return err
			}
		}
		for _, row := range added {
			err := tx.Exec(ctx, `INSERT INTO withheld_alarms (receiver, agent, namespace, name, kind, schedule, cursor, received,
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
			e.Cursor, kit.Nanos(e.Received), string(body),
		}
	}
	return rows, nil
}

// ListWithheld returns the withheld alarms of a receiver.
func (db *Alarms) ListWithheld(ctx context.Context, receiver string) ([]store.StoredEvent, error) {
	list, err := kit.All(ctx, db.Query, func(rows *sql.Rows) (e store.StoredEvent, err error) {
		var received int64
		var body []byte
		if err := rows.Scan(&e.Agent, &e.Cursor, &received, &body); err != nil {
			return e, err
		}
		e.Received = kit.Moment(received)
		return e, json.Unmarshal(body, &e.Event)
	}, `SELECT agent, cursor, received, body FROM withheld_alarms WHERE receiver = ? ORDER BY cursor`, receiver)
	if err != nil {
		return nil, fmt.Errorf("cannot list the withheld alarms of receiver %q: %w", receiver, err)
	}
	return list, nil
}
