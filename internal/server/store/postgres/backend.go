package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/kit"
)

// attempts bounds the attempts at an operation whose connection is lost or whose transaction conflicts with others.
// After a restart of the database, every connection of the pool may be lost.
const attempts = connections + 1

// backend runs the statements of the store over a pool of connections.
type backend struct {
	pool    *sql.DB
	dialect *sqldb.Dialect
	watch   kit.Watch // nil for none
	batcher *writeBatcher
	log     *slog.Logger
	// patience bounds a write, and each wait of a read for the database.
	patience time.Duration
	stalls   *stallDetector
}

func (b *backend) Dialect() *sqldb.Dialect { return b.dialect }

// Close waits for the open transactions.
func (b *backend) Close() error {
	if err := b.pool.Close(); err != nil {
		return fmt.Errorf("cannot close database: %w", err)
	}
	return nil
}

// Query runs a read. If the connection is lost before the first row, Query runs the read again. It ends a read that
// waits for the database longer than patience.
func (b *backend) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	limited, wait, done := b.startTimer(ctx)
	defer done()
	query := func() (*sql.Rows, error) { return b.pool.QueryContext(limited, b.dialect.Spell(statement), args...) }
	begun := false
	noted := func(rows *sql.Rows) error {
		begun = true
		return scan(rows)
	}
	var err error
	for range attempts {
		if err = wait.each(query, noted); err == nil || begun || !gone(err) || limited.Err() != nil {
			break
		}
	}
	return away(ctx, withStallCause(limited, err))
}

// Snapshot lets do read in one transaction. It ends the transaction as Query does if it waits too long.
func (b *backend) Snapshot(ctx context.Context, do func(context.Context, sqldb.Session) error) (err error) {
	limited, wait, done := b.startTimer(ctx)
	defer func() {
		err = away(ctx, withStallCause(limited, err))
		done()
	}()
	var tx *sql.Tx
	for range attempts {
		tx, err = b.pool.BeginTx(limited, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
		if err == nil || !gone(err) || limited.Err() != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	wait.rest()
	defer func() {
		wait.begin()
		// A read has nothing to commit, so it rolls back. If the context has ended, the transaction is already over.
		if end := tx.Rollback(); !errors.Is(end, sql.ErrTxDone) {
			err = errors.Join(err, end)
		}
	}()
	return do(limited, readSession{session{b, tx}, wait})
}

// Write runs do in a transaction. It runs do again after a conflict with other transactions, or if the connection was
// lost before the commit, because the database undoes such an attempt. If the connection is lost during the commit,
// Write returns an error, and the changes may be stored. All attempts together take no longer than patience.
func (b *backend) Write(ctx context.Context, do func(context.Context, sqldb.Session) error) error {
	begun := time.Now()
	end := begun.Add(b.patience)
	limited, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	var err error
	for attempt := range attempts {
		var again bool
		if again, err = b.once(limited, end, do); err == nil || !again || limited.Err() != nil {
			break
		}
		b.log.DebugContext(ctx, "rolled back transaction", "attempt", attempt+1, "error", err)
	}
	if lost(err) && limited.Err() != nil && ctx.Err() == nil {
		b.stalls.mark(begun)
		err = fmt.Errorf("%w: %w", errStalled, err)
	}
	if b.watch != nil {
		b.watch.Wrote(1, time.Since(begun), err)
	}
	return away(ctx, full(err))
}

// once runs do in a transaction that ends at end at the latest. It reports whether the caller may retry a failed one.
func (b *backend) once(ctx context.Context, end time.Time,
	do func(context.Context, sqldb.Session) error,
) (again bool, err error) {
	conn, err := b.pool.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		if lost(err) { // it may be open, to a server that is not the primary now
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close() // returns it to the pool, unless it is gone
	}()
	// The end of the caller's context interrupts the statements, but not a commit: the result of an interrupted commit
	// is unknown.
	whole, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	defer cancel()
	tx, err := conn.BeginTx(whole, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return gone(err), err
	}
	if err := do(ctx, session{b, tx}); err != nil {
		if undone := tx.Rollback(); undone != nil && !errors.Is(undone, sql.ErrTxDone) && !lost(undone) {
			err = errors.Join(err, undone)
		}
		return crossed(err) || gone(err), err
	}
	err = tx.Commit()
	return crossed(err), err
}

// WriteSerially is Write, but callers that wait for each other share a transaction and its sync to disk.
func (b *backend) WriteSerially(ctx context.Context, do func(context.Context, sqldb.Session) error) error {
	return b.batcher.run(ctx, do, b.Write)
}

// session is an open transaction.
type session struct {
	backend *backend
	tx      *sql.Tx
}

func (s session) Exec(ctx context.Context, statement string, args ...any) (int, error) {
	result, err := s.tx.ExecContext(ctx, s.backend.dialect.Spell(statement), args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

func (s session) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	return sqldb.Each(func() (*sql.Rows, error) {
		return s.tx.QueryContext(ctx, s.backend.dialect.Spell(statement), args...)
	}, scan)
}
