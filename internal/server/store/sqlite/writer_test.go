//nolint:thelper // what runs in a bubble is the test itself
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"drover/internal/server/store/storetest"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
)

// bubble runs fn with a new database inside synctest, where "everybody waits" is a moment that a test can wait for.
func bubble(t *testing.T, fn func(*testing.T, *DB)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drover.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		fn(t, db)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// together lets the writes wait behind another one until all are there, and returns their errors.
func together(t *testing.T, db *DB, writes ...func(context.Context) error) []error {
	t.Helper()
	release := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := db.backend.writer.write(t.Context(), func(context.Context, sqldb.Session) error {
			<-release
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	errs := make([]error, len(writes))
	for i, write := range writes {
		wg.Go(func() { errs[i] = write(t.Context()) })
	}
	synctest.Wait()
	close(release)
	wg.Wait()
	return errs
}

func exec(ctx context.Context, tx sqldb.Session, statement string, args ...any) error {
	_, err := tx.Exec(ctx, statement, args...)
	return err
}

func limitPages(t *testing.T, db *DB, spare int) {
	t.Helper()
	err := db.backend.writer.write(t.Context(), func(ctx context.Context, tx sqldb.Session) error {
		var pages, limit int
		value := func(dest *int, statement string) error {
			return tx.Query(ctx, func(rows *sql.Rows) error { return rows.Scan(dest) }, statement)
		}
		if err := value(&pages, `PRAGMA page_count`); err != nil {
			return err
		}
		return value(&limit, fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+spare))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func bigTask(id string) *store.Task {
	task := &store.Task{ID: id}
	for i := range 2000 {
		task.Requests = append(task.Requests, store.Request{
			Op: process.Start, Process: process.ID{Name: fmt.Sprint(id, i)},
			Targets: []store.Target{{ItemKey: fmt.Sprint(i), Agent: "x"}},
		})
	}
	return task
}

func TestFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T, db *DB) {
		limitPages(t, db, 2)
		create := func(id string) error { return storetest.Create(t.Context(), db, bigTask(id), store.AuditRow{}) }
		if err := create("big"); err == nil {
			t.Fatal("a full disk took a task")
		}
		if err := db.TaskItems(t.Context(), "big", "", nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a part of the task is there: %v", err)
		}
		errs := together(t, db,
			db.Ping,
			func(context.Context) error { return create("big") },
			func(ctx context.Context) error { return db.CreateApp(ctx, store.App{Code: "a"}) },
		)
		if errs[0] != nil || errs[1] == nil || errs[2] != nil {
			t.Errorf("only the task should have failed: %v", errs)
		}
		limitPages(t, db, 100_000)
		if err := create("big"); err != nil {
			t.Errorf("once there is room: %v", err)
		}
	})
}

func TestFailedWriteTakesNobodyWithIt(t *testing.T) {
	bubble(t, func(t *testing.T, db *DB) {
		begun := 0
		errs := together(t, db,
			func(ctx context.Context) error { return db.CreateApp(ctx, store.App{Code: "a"}) },
			func(ctx context.Context) error {
				return db.backend.writer.write(ctx, func(ctx context.Context, tx sqldb.Session) error {
					begun++
					return errors.Join(exec(ctx, tx, `DELETE FROM apps`),
						exec(ctx, tx, `INSERT INTO apps (code) VALUES (NULL)`))
				})
			},
			func(ctx context.Context) error { return db.CreateApp(ctx, store.App{Code: "b"}) },
			func(ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return db.CreateApp(ctx, store.App{Code: "c"})
			},
		)
		if errs[0] != nil || errs[1] == nil || errs[2] != nil || !errors.Is(errs[3], context.Canceled) {
			t.Errorf("errors are %v", errs)
		}
		if n, err := db.CountApps(t.Context()); n != 2 || err != nil {
			t.Errorf("%d apps were stored, want 2; error %v", n, err)
		}
		if begun != 1 {
			t.Errorf("the failing write ran %d times, want once: its failure broke the shared transaction", begun)
		}
	})
}

// TestWritesShareATransaction looks from outside while the writes run: what the first has written is not to be seen yet
// when the last one runs.
func TestWritesShareATransaction(t *testing.T) {
	bubble(t, func(t *testing.T, db *DB) {
		seen, ran := 0, 0
		var writes []func(context.Context) error
		for i := range 20 {
			writes = append(writes, func(ctx context.Context) error {
				return db.backend.writer.write(ctx, func(ctx context.Context, tx sqldb.Session) error {
					ran++
					n, err := db.CountApps(ctx)
					seen = max(seen, n)
					return errors.Join(err,
						exec(ctx, tx, `INSERT INTO apps (code, may_name_users, created) VALUES (?, 0, 0)`,
							fmt.Sprint(i)))
				})
			})
		}
		if err := errors.Join(together(t, db, writes...)...); err != nil {
			t.Fatal(err)
		}
		if ran != 20 || seen != 0 {
			t.Errorf("%d writes ran, and one saw %d others committed", ran, seen)
		}
	})
}

// TestTransactionThatEndsUnderAWrite: some errors make SQLite end the whole transaction, and with it what others wrote
// in it.
func TestTransactionThatEndsUnderAWrite(t *testing.T) {
	bubble(t, func(t *testing.T, db *DB) {
		broken := errors.New("broken")
		errs := together(t, db,
			func(ctx context.Context) error { return db.CreateApp(ctx, store.App{Code: "a"}) },
			func(ctx context.Context) error {
				return db.backend.writer.write(ctx, func(ctx context.Context, tx sqldb.Session) error {
					return errors.Join(broken,
						exec(ctx, tx, `INSERT INTO apps (code, may_name_users, created) VALUES ('x', 0, 0)`),
						exec(ctx, tx, "ROLLBACK"))
				})
			},
			func(ctx context.Context) error { return db.CreateApp(ctx, store.App{Code: "b"}) },
		)
		if errs[0] != nil || !errors.Is(errs[1], broken) || errs[2] != nil {
			t.Errorf("errors are %v", errs)
		}
		if n, err := db.CountApps(t.Context()); n != 2 || err != nil {
			t.Errorf("%d apps were stored, want 2; error %v", n, err)
		}
	})
}

func TestClosedWhileWritesWait(t *testing.T) {
	bubble(t, func(t *testing.T, db *DB) {
		release := make(chan struct{})
		var wg sync.WaitGroup
		errs := make([]error, 5)
		for i := range errs {
			wg.Go(func() {
				errs[i] = db.backend.writer.write(t.Context(), func(context.Context, sqldb.Session) error {
					<-release
					return nil
				})
			})
		}
		synctest.Wait()
		var closing error
		wg.Go(func() { closing = db.Close() })
		synctest.Wait()
		close(release)
		wg.Wait()
		if closing != nil {
			t.Error(closing)
		}
		stored := 0
		for _, err := range errs {
			switch {
			case err == nil:
				stored++
			case !errors.Is(err, errClosed):
				t.Error(err)
			}
		}
		if stored == 0 {
			t.Error("the write that had begun was lost")
		}
	})
}
