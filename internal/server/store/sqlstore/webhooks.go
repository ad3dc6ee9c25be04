package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"drover/internal/server/store"
)

// CreateWebhook inserts a webhook.
func (db *Store) CreateWebhook(ctx context.Context, w store.Webhook, after int64) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		row, err := webhookRow(w)
		if err != nil {
			return err
		}
		return inserted(tx.affect(ctx,
			`INSERT INTO webhooks (url, secret, namespaces, selector, local, note, changed, created, name, cursor)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, append(row, nanos(w.Created), w.Name, after)...))
	})
	if err != nil {
		return fmt.Errorf("cannot create webhook %q: %w", w.Name, err)
	}
	return nil
}

// webhookRow returns the columns of a webhook that may change: url, secret, namespaces, selector, local, note,
// changed.
func webhookRow(w store.Webhook) ([]any, error) {
	namespaces, err := json.Marshal(w.Namespaces)
	if err != nil {
		return nil, fmt.Errorf("cannot encode namespaces: %w", err)
	}
	return []any{w.URL, w.Secret, string(namespaces), w.Selector, w.Local, w.Note, nanos(w.Changed)}, nil
}

// ChangeWebhook changes a webhook in one transaction.
func (db *Store) ChangeWebhook(ctx context.Context, name string,
	change func(*store.Webhook) error,
) (store.Subscription, error) {
	changed, err := altered(ctx, db, scanWebhook, selectWebhooks+`WHERE name = ?`, name,
		func(ctx context.Context, tx tx, s *store.Subscription) error {
			created := s.Webhook.Created
			if err := change(&s.Webhook); err != nil {
				return err
			}
			s.Webhook.Name, s.Webhook.Created = name, created
			row, err := webhookRow(s.Webhook)
			if err != nil {
				return err
			}
			return tx.exec(ctx,
				`UPDATE webhooks SET url = ?, secret = ?, namespaces = ?, selector = ?, local = ?, note = ?, changed = ?
					WHERE name = ?`,
				append(row, name)...)
		})
	if err != nil {
		return store.Subscription{}, fmt.Errorf("cannot change webhook %q: %w", name, err)
	}
	return changed, nil
}

const selectWebhooks = `SELECT name, url, secret, namespaces, selector, local, note, created, changed, cursor, failures,
		failing, error, next, delivered
	FROM webhooks `

func scanWebhook(rows *sql.Rows) (store.Subscription, error) {
	var s store.Subscription
	var namespaces []byte
	var created, changed, failing, next, delivered int64
	w, d := &s.Webhook, &s.Delivery
	if err := rows.Scan(&w.Name, &w.URL, &w.Secret, &namespaces, &w.Selector, &w.Local, &w.Note, &created, &changed,
		&d.Cursor, &d.Failures, &failing, &d.Error, &next, &delivered); err != nil {
		return store.Subscription{}, err
	}
	w.Created, w.Changed = moment(created), moment(changed)
	d.Failing, d.Next, d.Delivered = moment(failing), moment(next), moment(delivered)
	if err := json.Unmarshal(namespaces, &w.Namespaces); err != nil {
		return store.Subscription{}, fmt.Errorf("cannot decode webhook %q: %w", w.Name, err)
	}
	return s, nil
}

// GetWebhook returns one webhook.
func (db *Store) GetWebhook(ctx context.Context, name string) (store.Subscription, error) {
	s, err := one(ctx, db.query, scanWebhook, selectWebhooks+`WHERE name = ?`, name)
	if err != nil {
		return store.Subscription{}, fmt.Errorf("cannot read webhook %q: %w", name, err)
	}
	return s, nil
}

// ListWebhooks returns all webhooks.
func (db *Store) ListWebhooks(ctx context.Context) ([]store.Subscription, error) {
	list, err := all(ctx, db.query, scanWebhook, selectWebhooks+`ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("cannot list webhooks: %w", err)
	}
	return list, nil
}

// DeleteWebhook removes a webhook.
func (db *Store) DeleteWebhook(ctx context.Context, name string) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return affected(tx.affect(ctx, `DELETE FROM webhooks WHERE name = ?`, name))
	})
	if err != nil {
		return fmt.Errorf("cannot delete webhook %q: %w", name, err)
	}
	return nil
}

// PutDelivery stores the progress of a webhook.
func (db *Store) PutDelivery(ctx context.Context, name string, created time.Time, d store.Delivery) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return tx.exec(ctx,
			`UPDATE webhooks SET cursor = ?, failures = ?, failing = ?, error = ?, next = ?, delivered = ?
			WHERE name = ? AND created = ?`,
			d.Cursor, d.Failures, nanos(d.Failing), d.Error, nanos(d.Next), nanos(d.Delivered), name, nanos(created))
	})
	if err != nil {
		return fmt.Errorf("cannot store the delivery of webhook %q: %w", name, err)
	}
	return nil
}
