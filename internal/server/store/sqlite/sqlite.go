// Package sqlite keeps the server's state in one SQLite file. It owns the file, its schema and the batching of
// writes; package sqlstore owns the statements. All writes use one connection, and writes that wait at the same time
// share a transaction and a sync to disk. Reads have their own connections and never wait for writes.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
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

	"drover/internal/durable"
	"drover/internal/reserve"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore"
	"drover/internal/server/store/sqlstore/kit"
)

//go:embed migrations/*.sql
var migrations embed.FS

// reserveSize is how many bytes the writer keeps beside the file for urgent writes on a full disk.
const reserveSize = 4 << 20

// busyTimeout is how long a write waits for another program that holds the file, such as a backup.
const busyTimeout = 5 * time.Second

// DB is an open database: the store, in a file. While one of its reads runs, SQLite cannot fold the write-ahead log
// back into the file.
type DB struct {
	*sqlstore.Store
	backend *backend
}

// Option changes how a database is opened.
type Option func(*options)

type options struct{ watch kit.Watch }

// WatchedBy reports what is stored to w.
func WatchedBy(w kit.Watch) Option { return func(o *options) { o.watch = w } }

// Open opens the database file and brings its schema up to date. If the file does not exist, Open creates it, readable
// by its owner only. It fails on a schema newer than its own. The caller must call Close.
func Open(ctx context.Context, path string, log *slog.Logger, chosen ...Option) (*DB, error) {
	db, err := openAll(ctx, path, log, chosen)
	if err != nil {
		return nil, advised(err)
	}
	return db, nil
}

// advised adds advice to the error of an unusable file.
func advised(err error) error {
	broken, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	switch broken.Code() & 0xff { // the other bits are details of the code
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w; restore a copy, or move the file away to start without it", err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w; free space on the disk", err)
	}
	return err
}

func migrate(ctx context.Context, db *sql.DB, log *slog.Logger) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return sqldb.Migrate(ctx, conn, "BEGIN IMMEDIATE", migrations, "migrations", log)
}

func openAll(ctx context.Context, path string, log *slog.Logger, chosen []Option) (*DB, error) {
	if err := private(path); err != nil {
		return nil, fmt.Errorf("cannot open database: %w", err)
	}
	if err := checkComplete(path); err != nil {
		return nil, fmt.Errorf("cannot open database %s: %w", path, err)
	}
	conns, err := open(path, 1, writerCache, fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages))
	if err != nil {
		return nil, fmt.Errorf("cannot open database: %w", err)
	}
	if err := useLog(ctx, conns); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", path, err), conns.Close())
	}
	if err := migrate(ctx, conns, log.With("database", path)); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", path, err), conns.Close())
	}
	reader, err := open(path, max(4, 2*runtime.GOMAXPROCS(0)), readerCache, "query_only(1)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database: %w", err), conns.Close())
	}
	var wanted options
	for _, o := range chosen {
		o(&wanted)
	}
	b := &backend{reader: reader, dialect: dialect()}
	b.dialect.Origin = origin(path)
	b.writer, err = newWriter(ctx, conns, b.dialect, wanted.watch, reserve.Keep(path+".reserve", reserveSize), log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", path, err), reader.Close(), conns.Close())
	}
	b.close = sync.OnceValue(b.closeAll)
	if b.writer.file, err = durable.Hold(path); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database: %w", err), b.close())
	}
	db := &DB{Store: sqlstore.New(b, wanted.watch), backend: b}
	if err := db.EndLeases(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", path, err), db.Close())
	}
	return db, nil
}

// private creates the file if it is missing, and removes the access of all other users. SQLite gives its companion
// files (-wal, -shm) the same mode.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// useLog switches the file to a write-ahead log permanently. SQLite does not wait for other programs when it switches,
// so useLog waits, as long as a write would.
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

// writerCache and readerCache are how many KiB of the database a connection keeps in memory. A reader drops its pages
// when the writer has committed, and reads them again from the page cache of the kernel.
const (
	writerCache = 32 << 10
	readerCache = 2 << 10
)

// open returns a pool of at most n connections, each with a cache of so many KiB.
func open(path string, n, cache int, pragmas ...string) (*sql.DB, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"synchronous(FULL)",
		"foreign_keys(1)",
		"journal_size_limit(67108864)",
		// Keep the statement journals and temporary tables in memory.
		"temp_store(MEMORY)",
		fmt.Sprintf("cache_size(-%d)", cache),
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
