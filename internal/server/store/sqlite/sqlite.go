// Package sqlite keeps the server's state in one SQLite file. It owns the file, its schema and how writes are batched; what
// the state means is said by package store and proven by storetest. All writes go through one connection, and those that wait
// for it at the same time share a transaction and a sync to disk; reads have connections of their own and never wait for writes.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"drover/internal/server/store"
)

// busyTimeout is how long a write waits for another program that holds the file, such as a backup.
const busyTimeout = 5 * time.Second

var _ store.Store = (*DB)(nil)

// DB is an open database. Its methods may be called from any goroutine.
//
// A write that has begun is not cut short by its context: it returns when the disk has it or has refused it. The functions that
// TaskItems and GetObserved call while they read must not call the DB, and must not wait for a slow peer: as long as they run, the
// write-ahead log cannot be folded back into the file.
type DB struct {
	writer *writer
	reader *sql.DB
	watch  Watch
	// queries holds the prepared reads (string → *sql.Stmt).
	queries sync.Map
	views   viewCache
	// close runs once, and later calls of Close return what it did.
	close func() error
}

// Open opens the database file, makes it (readable by its owner only) if it is not there, and brings its schema up to date. It
// fails on a schema newer than its own. Close must be called.
func Open(ctx context.Context, path string, log *slog.Logger, options ...Option) (*DB, error) {
	db, err := openAll(ctx, path, log, options)
	if err != nil {
		return nil, advised(err)
	}
	return db, nil
}

// advised adds what to do about a file that cannot be used.
func advised(err error) error {
	broken, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	switch broken.Code() & 0xff { // the rest says more of the same
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w; move the file away to begin without it, or restore a copy", err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w; make room on the disk", err)
	}
	return err
}

func openAll(ctx context.Context, path string, log *slog.Logger, options []Option) (*DB, error) {
	if err := private(path); err != nil {
		return nil, fmt.Errorf("cannot open database: %w", err)
	}
	if err := checkWhole(path); err != nil {
		return nil, fmt.Errorf("cannot open database %s: %w", path, err)
	}
	conns, err := open(path, 1, fmt.Sprintf("wal_autocheckpoint(%d)", foldAnyway))
	if err != nil {
		return nil, fmt.Errorf("cannot open database: %w", err)
	}
	if err := useLog(ctx, conns); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", path, err), conns.Close())
	}
	if err := migrate(ctx, conns, log.With("database", path)); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", path, err), conns.Close())
	}
	reader, err := open(path, max(4, 2*runtime.GOMAXPROCS(0)), "query_only(1)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database: %w", err), conns.Close())
	}
	db := &DB{reader: reader, watch: unwatched{}}
	for _, o := range options {
		o(db)
	}
	db.writer, err = newWriter(ctx, conns, db.watch, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", path, err), reader.Close(), conns.Close())
	}
	db.close = sync.OnceValue(db.closeAll)
	if err := db.endLeases(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", path, err), db.Close())
	}
	return db, nil
}

// private makes the file if it is missing and takes all rights to it from others. SQLite gives its companion files (-wal, -shm)
// the same mode.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// useLog makes the file use a write-ahead log, which it then does for good. SQLite does not wait for others when it changes that, so
// this does, for as long as a write would.
func useLog(ctx context.Context, conns *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		_, err := conns.ExecContext(ctx, `PRAGMA journal_mode = WAL`)
		var code interface{ Code() int }
		if err == nil || !errors.As(err, &code) || code.Code()&0xff != sqlite3.SQLITE_BUSY {
			return err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return err
		}
	}
}

// open returns a pool of at most n connections.
func open(path string, n int, pragmas ...string) (*sql.DB, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"synchronous(FULL)",
		"foreign_keys(1)",
		"journal_size_limit(67108864)",
		// What a statement needs for its own undoing stays in memory, and pages of a large task are not spilled before their commit.
		"temp_store(MEMORY)",
		"cache_size(-32768)",
	}, pragmas...)}
	name := url.URL{Scheme: "file", Path: absolute, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// Close waits for the writes that have begun and closes the file. Later calls of other methods fail.
func (db *DB) Close() error { return db.close() }

func (db *DB) closeAll() error {
	var errs []error
	db.queries.Range(func(_, s any) bool {
		errs = append(errs, s.(*sql.Stmt).Close())
		return true
	})
	errs = append(errs, db.reader.Close(), db.writer.close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot close database: %w", err)
	}
	return nil
}

// Ping writes a row, and fails when that does not reach the disk.
func (db *DB) Ping(ctx context.Context) error {
	err := db.writer.write(ctx, func(ctx context.Context, tx *tx) error {
		return tx.exec(ctx, `UPDATE ping SET at = ? WHERE num = 1`, nanos(time.Now()))
	})
	if err != nil {
		return fmt.Errorf("cannot write to database: %w", err)
	}
	return nil
}

// prepared returns the prepared form of a read; each distinct query is prepared once, and closed with the database.
func (db *DB) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := db.queries.Load(query); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := db.reader.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if earlier, ok := db.queries.LoadOrStore(query, s); ok {
		return earlier.(*sql.Stmt), s.Close() //nolint:sqlclosecheck // this one is not needed
	}
	return s, nil
}

// query runs a read and calls scan for each of its rows.
func (db *DB) query(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	s, err := db.prepared(ctx, query) //nolint:sqlclosecheck // kept, and closed with the database
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	return each(rows, scan)
}

// each calls scan for the rows and closes them.
func each(rows *sql.Rows, scan func(*sql.Rows) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// nanos and moment turn times into columns and back.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
