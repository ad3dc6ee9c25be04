package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"drover/internal/server/store/storetest"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"drover/internal/server/store"
	"drover/internal/server/store/postgres"
)

// freeze stops whoever serves a connection to the database, as a hung machine does: the kernel still takes what is sent
// to them.
func freeze(t *testing.T, url string) {
	t.Helper()
	for _, pid := range processes(t, url) {
		if pid <= 1 {
			t.Fatalf("the server has process %d", pid)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			err = unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0), unix.Close(fd)); err != nil {
				t.Error(err)
			}
		})
	}
}

// processes are those of the database that serve the store.
func processes(t *testing.T, url string) []int {
	t.Helper()
	rows, err := connect(t, url).Query(t.Context(),
		`SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'drover'`)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// spread has a store use several connections at once, so that they are in its pool. All of them wait in the middle of a
// read for what is given.
func spread(t *testing.T, db *postgres.DB, meanwhile func()) {
	t.Helper()
	const connections = 8
	var all, done sync.WaitGroup
	all.Add(connections)
	for i := range connections {
		done.Go(func() {
			arrive := sync.OnceFunc(all.Done)
			defer arrive() // nobody waits for one that fails
			err := db.TaskItems(t.Context(), "t", "app", func(store.ItemView) error {
				if i == 0 {
					meanwhile()
				}
				arrive()
				all.Wait()
				return nil
			})
			if err != nil {
				t.Errorf("a read: %v", err)
			}
		})
	}
	done.Wait()
}

// TestDatabaseStopsAnswering: what waits for it ends, and what comes then has connections that were made since. The
// caller may take as long as it likes over what it reads.
func TestDatabaseStopsAnswering(t *testing.T) {
	for name, use := range map[string]func(context.Context, *postgres.DB) error{
		"query": func(ctx context.Context, db *postgres.DB) error {
			_, err := db.ListAgents(ctx)
			return err
		},
		"snapshot": func(ctx context.Context, db *postgres.DB) error {
			return db.TaskItems(ctx, "t", "app", func(store.ItemView) error { return nil })
		},
		"write": func(ctx context.Context, db *postgres.DB) error { return db.Ping(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			url := fresh()(t)
			db := open(t, url, postgres.Patience(2*time.Second))
			if err := storetest.Create(t.Context(), db, taskFor("t", "p", "a"), store.AuditRow{}); err != nil {
				t.Fatal(err)
			}
			spread(t, db, func() {
				if name == "snapshot" {
					exec(t, url, "SELECT pg_sleep(2.5)")
				}
			})
			for len(processes(t, url)) < 4 { // reads that come one after the other share a connection
				spread(t, db, func() {})
			}
			freeze(t, url)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := use(ctx, db); !errors.Is(err, store.ErrAway) || ctx.Err() != nil || errors.Is(err, context.Canceled) {
				t.Errorf("a database that has stopped answering: %v", err)
			}
			if err := use(ctx, db); err != nil {
				t.Errorf("after the connections are known to be stale: %v", err)
			}
			spread(t, db, func() {})
		})
	}
}
