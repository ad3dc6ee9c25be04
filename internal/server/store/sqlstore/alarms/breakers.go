package alarms

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// OpenBreaker stores an open breaker.
func (db *Alarms) OpenBreaker(ctx context.Context, b store.Breaker, instead time.Time) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return kit.Inserted(tx.Affect(ctx, `INSERT INTO breakers (namespace, name, revision, cause, failed, hosts, agent, opened,
				until)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (namespace, name) DO UPDATE SET revision = excluded.revision, cause = excluded.cause,
				failed = excluded.failed, hosts = excluded.hosts, agent = excluded.agent, opened = excluded.opened,
				until = excluded.until, closed = 0, closed_by = '', told = 0
			WHERE breakers.closed > 0 OR breakers.opened = ?`,
			b.Process.Namespace, b.Process.Name, b.Revision, string(b.Cause), b.Failed, b.Hosts, b.Agent,
			kit.Nanos(b.Opened), kit.Nanos(b.Until), kit.Nanos(instead)))
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
	b.Opened, b.Until, b.Closed, b.Told = kit.Moment(opened), kit.Moment(until), kit.Moment(closed), told != 0
	return b, err
}

// CloseBreaker closes a breaker.
func (db *Alarms) CloseBreaker(ctx context.Context, id process.ID, at time.Time,
	by string,
) (b store.Breaker, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		b, err = kit.One(ctx, tx.Query, scanBreaker,
			selectBreakers+`WHERE namespace = ? AND name = ?`+db.Dialect.Locked,
			id.Namespace, id.Name)
		if err != nil || !b.Closed.IsZero() {
			return err
		}
		b.Closed, b.ClosedBy = at, by
		return tx.Exec(ctx, `UPDATE breakers SET closed = ?, closed_by = ? WHERE namespace = ? AND name = ?`, kit.Nanos(at), by,
			id.Namespace, id.Name)
	})
	if err != nil {
		return store.Breaker{}, fmt.Errorf("cannot close the breaker of %s: %w", id, err)
	}
	return b, nil
}

// BreakerTold sets Told of the closed breaker that opened at that time.
func (db *Alarms) BreakerTold(ctx context.Context, id process.ID, opened time.Time) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return tx.Exec(ctx, `UPDATE breakers SET told = 1 WHERE namespace = ? AND name = ? AND opened = ? AND closed > 0`,
			id.Namespace, id.Name, kit.Nanos(opened))
	})
	if err != nil {
		return fmt.Errorf("cannot store the breaker of %s: %w", id, err)
	}
	return nil
}

// ListBreakers returns all breakers.
func (db *Alarms) ListBreakers(ctx context.Context) ([]store.Breaker, error) {
	list, err := kit.All(ctx, db.Query, scanBreaker, selectBreakers+`ORDER BY namespace, name`)
	if err != nil {
		return nil, fmt.Errorf("cannot list breakers: %w", err)
	}
	return list, nil
}
