package people

import (
	"context"
	"database/sql"
	"fmt"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// CreateDevice inserts a device.
func (db *People) CreateDevice(ctx context.Context, d store.Device) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		if err := tx.Exec(ctx, `DELETE FROM devices WHERE expires < ?`, kit.Nanos(d.Created)); err != nil {
			return err
		}
		waiting, err := kit.One(ctx, tx.Query, func(rows *sql.Rows) (n int, err error) {
			err = rows.Scan(&n)
			return n, err
		}, `SELECT count(*) FROM devices WHERE expires >= ?`, kit.Nanos(d.Created))
		if err != nil {
			return err
		}
		if waiting >= store.MostDevices {
			return store.ErrTooManyDevices
		}
		return kit.Inserted(tx.Affect(ctx,
			`INSERT INTO devices (hash, code, name, remote, created, expires) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`,
			d.Hash, d.Code, d.Name, d.Remote, kit.Nanos(d.Created), kit.Nanos(d.Expires)))
	})
	if err != nil {
		return fmt.Errorf("cannot create device: %w", err)
	}
	return nil
}

// FindDevice returns a device by one of its hashes.
func (db *People) FindDevice(ctx context.Context, hash string) (store.Device, error) {
	d, err := kit.One(ctx, db.Query, func(rows *sql.Rows) (d store.Device, err error) {
		var created, expires int64
		err = rows.Scan(&d.Hash, &d.Code, &d.Name, &d.Remote, &created, &expires)
		d.Created, d.Expires = kit.Moment(created), kit.Moment(expires)
		return d, err
	}, `SELECT hash, code, name, remote, created, expires FROM devices WHERE hash = ? OR code = ?`, hash, hash)
	if err != nil {
		return store.Device{}, fmt.Errorf("cannot read device: %w", err)
	}
	return d, nil
}

// SignInDevice turns a device into a token.
func (db *People) SignInDevice(ctx context.Context, t store.Token) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		if err := kit.Affected(tx.Affect(ctx, `DELETE FROM devices WHERE hash = ?`, t.Hash)); err != nil {
			return err
		}
		return db.insertToken(ctx, tx, t)
	})
	if err != nil {
		return fmt.Errorf("cannot sign in a device: %w", err)
	}
	return nil
}

// RemoveDevice removes a device.
func (db *People) RemoveDevice(ctx context.Context, hash string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return kit.Affected(tx.Affect(ctx, `DELETE FROM devices WHERE hash = ?`, hash))
	})
	if err != nil {
		return fmt.Errorf("cannot remove device: %w", err)
	}
	return nil
}
