// Package storeopen opens the database of a server by its name: the URL of a PostgreSQL database, or the path of a
// SQLite file. It owns the choice between them, and the wait for a database that is not available yet. The packages
// of the databases own everything else.
package storeopen

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/postgres"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlite"
	"drover/internal/server/store/sqlstore/kit"
)

// Shown returns a name without a password, for people.
func Shown(name string) string {
	if postgres.Is(name) {
		return postgres.WithoutPassword(name)
	}
	return name
}

// Open opens a database and brings its schema up to date. If watch is not nil, it receives notices of what is stored.
// If the error is store.ErrAway, a later attempt may succeed.
func Open(ctx context.Context, name string, watch kit.Watch, log *slog.Logger) (store.Store, error) {
	if postgres.Is(name) {
		db, err := postgres.Open(ctx, name, log, postgres.WatchedBy(watch))
		if err != nil {
			return nil, err // a nil *postgres.DB would be a non-nil store.Store
		}
		return db, nil
	}
	db, err := sqlite.Open(ctx, name, log, sqlite.WatchedBy(watch))
	if err != nil {
		return nil, err
	}
	return db, nil
}

// Wait retries after firstWait, and then after twice as long each time, up to longestWait.
const (
	firstWait   = 250 * time.Millisecond
	longestWait = 5 * time.Second
)

// Wait is Open, and retries while the database is not available. It passes each such error to unavailable. The log
// shows the first error and the end of the wait.
func Wait(ctx context.Context, name string, watch kit.Watch, log *slog.Logger,
	unavailable func(error),
) (store.Store, error) {
	begun := time.Now()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		s, err := Open(ctx, name, watch, log)
		switch {
		case err == nil && wait > firstWait:
			log.InfoContext(ctx, "database became available", "database", Shown(name),
				"after", time.Since(begun).Round(time.Millisecond))
			return s, nil
		case err == nil || !errors.Is(err, store.ErrAway):
			return s, err
		case wait == firstWait:
			log.WarnContext(ctx, "cannot open database, retrying", "database", Shown(name), "error", err)
		}
		unavailable(err)
		// Jitter: servers that wait for the same database must not retry at the same moment.
		again := time.NewTimer(wait/2 + rand.N(wait/2)) //nolint:gosec // no secret
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// Shareable reports whether several servers can share the database with this name.
func Shareable(name string) bool { return postgres.Is(name) }

// Backup writes a copy of the SQLite database at path to a new file, while a server may have it open.
func Backup(ctx context.Context, path, to string) error {
	if postgres.Is(path) {
		return errors.New("cannot back up a PostgreSQL database: use pg_dump")
	}
	return sqlite.Backup(ctx, path, to)
}

// Copy copies the SQLite database at path, which no server may have open, into the empty PostgreSQL database of a URL.
// It returns the number of rows of each table.
func Copy(ctx context.Context, path, url string, log *slog.Logger) (filled []postgres.Filled, err error) {
	err = sqlite.Read(ctx, path, log, func(from sqldb.Source) (err error) {
		filled, err = postgres.Fill(ctx, url, from, log)
		return err
	})
	return filled, err
}
