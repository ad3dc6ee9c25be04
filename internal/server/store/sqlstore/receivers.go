package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"drover/internal/server/store"
)

// CreateReceiver inserts a receiver.
func (db *Store) CreateReceiver(ctx context.Context, w store.Receiver, after int64) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		row, err := receiverRow(w)
		if err != nil {
			return err
		}
		return inserted(tx.affect(ctx,
			`INSERT INTO receivers (url, secret, namespaces, selector, local, note, changed, created, name, cursor)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, append(row, nanos(w.Created), w.Name, after)...))
	})
	if err != nil {
		return fmt.Errorf("cannot create receiver %q: %w", w.Name, err)
	}
	return nil
}

// receiverRow returns the columns of a receiver that may change: url, secret, namespaces, selector, local, note,
// changed.
func receiverRow(w store.Receiver) ([]any, error) {
	namespaces, err := json.Marshal(w.Namespaces)
	if err != nil {
		return nil, fmt.Errorf("cannot encode namespaces: %w", err)
	}
	return []any{w.URL, w.Secret, string(namespaces), w.Selector, w.Local, w.Note, nanos(w.Changed)}, nil
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
				`UPDATE receivers SET url = ?, secret = ?, namespaces = ?, selector = ?, local = ?, note = ?, changed = ?
					WHERE name = ?`,
				append(row, name)...)
		})
	if err != nil {
		return store.Subscription{}, fmt.Errorf("cannot change receiver %q: %w", name, err)
	}
	return changed, nil
}

const selectReceivers = `SELECT name, url, secret, namespaces, selector, local, note, created, changed, cursor, failures,
		failing, error, next, delivered
	FROM receivers `

func scanReceiver(rows *sql.Rows) (store.Subscription, error) {
	var s store.Subscription
	var namespaces []byte
	var created, changed, failing, next, delivered int64
	w, d := &s.Receiver, &s.Delivery
	if err := rows.Scan(&w.Name, &w.URL, &w.Secret, &namespaces, &w.Selector, &w.Local, &w.Note, &created, &changed,
		&d.Cursor, &d.Failures, &failing, &d.Error, &next, &delivered); err != nil {
		return store.Subscription{}, err
	}
	w.Created, w.Changed = moment(created), moment(changed)
	d.Failing, d.Next, d.Delivered = moment(failing), moment(next), moment(delivered)
	if err := json.Unmarshal(namespaces, &w.Namespaces); err != nil {
		return store.Subscription{}, fmt.Errorf("cannot decode receiver %q: %w", w.Name, err)
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

// DeleteReceiver removes a receiver.
func (db *Store) DeleteReceiver(ctx context.Context, name string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return affected(tx.affect(ctx, `DELETE FROM receivers WHERE name = ?`, name))
	})
	if err != nil {
		return fmt.Errorf("cannot delete receiver %q: %w", name, err)
	}
	return nil
}

// PutDelivery stores the progress of a receiver.
func (db *Store) PutDelivery(ctx context.Context, name string, created time.Time, d store.Delivery) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return tx.exec(ctx,
			`UPDATE receivers SET cursor = ?, failures = ?, failing = ?, error = ?, next = ?, delivered = ?
			WHERE name = ? AND created = ?`,
			d.Cursor, d.Failures, nanos(d.Failing), d.Error, nanos(d.Next), nanos(d.Delivered), name, nanos(created))
	})
	if err != nil {
		return fmt.Errorf("cannot store the delivery of receiver %q: %w", name, err)
	}
	return nil
}
