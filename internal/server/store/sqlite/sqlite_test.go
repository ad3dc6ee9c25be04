package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/server/store/storetest"
	"drover/internal/spec"
)

func open(tb testing.TB, path string) *sqlite.DB {
	tb.Helper()
	db, err := sqlite.Open(context.Background(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

// openFails returns why the database cannot be opened.
func openFails(t *testing.T, path string) error {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatal(path, "was opened", db.Close())
	}
	return err
}

func newTask(id string, targets int) *store.Task {
	r := store.Request{
		Op: process.Start, Process: process.ID{Namespace: "ns", Name: "nginx"},
		Spec: &process.Spec{ProcessName: "nginx", Directory: "/usr/sbin", User: "root", Compat: &spec.Compat{}},
	}
	for i := range targets {
		host := fmt.Sprintf("0:10.%d.%d.%d", i>>16, i>>8&255, i&255)
		agent := fmt.Sprintf("UA%054d", i)
		r.Targets = append(r.Targets, store.Target{ItemKey: host + ":ns:nginx", Spelling: host, Agent: agent})
	}
	return &store.Task{ID: id, App: "app", Created: time.Now(), Requests: []store.Request{r}}
}

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%3f?#.db") // the name is not part of a URL to be parsed
	db := open(t, path)
	if err := storetest.Create(t.Context(), db, newTask("t", 3), store.AuditRow{At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
	db = open(t, path)
	items, err := db.LeaseItems(t.Context(), time.Now(), time.Now(), 10)
	if err != nil || len(items) != 3 {
		t.Errorf("%d items are due after a restart, want 3; error %v", len(items), err)
	}
}

// TestReopenEndsLeases: what an earlier server had leased or postponed is due at once; what waits for an older item
// still does.
func TestReopenEndsLeases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	db := open(t, path)
	for _, id := range []string{"first", "second"} {
		if err := storetest.Create(t.Context(), db, newTask(id, 3), store.AuditRow{At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	far := time.Now().Add(24 * time.Hour)
	leased, err := db.LeaseItems(t.Context(), time.Now(), far, 10)
	if err != nil || len(leased) != 3 {
		t.Fatalf("%d items were leased, want 3; error %v", len(leased), err)
	}
	err = errors.Join(db.MarkSent(t.Context(), []string{leased[1].ID}, far),
		db.MarkAccepted(t.Context(), []string{leased[2].ID}, time.Time{}), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	again, err := open(t, path).LeaseItems(t.Context(), time.Now(), far, 10)
	if err != nil || len(again) != 2 || again[0].ID != leased[0].ID || again[1].ID != leased[1].ID {
		t.Errorf("%v are due after a restart, want the first two of %v; error %v", again, leased, err)
	}
}

func TestLooseModeIsTightened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // the fault that is to be mended
		t.Fatal(err)
	}
	db := open(t, path)
	if err := db.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("mode of %s is %v", filepath.Base(name), info.Mode())
		}
	}
}

func TestNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, path, "UPDATE schema_version SET version = 999")
	err := openFails(t, path)
	if !strings.Contains(err.Error(), "version 999") {
		t.Errorf("the error does not say why: %v", err)
	}
}

func TestNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, t.TempDir(), filepath.Join(t.TempDir(), "missing", "drover.db")} {
		if err := openFails(t, path); !strings.Contains(err.Error(), "cannot open database") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestOpenedByTwoAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			db, err := sqlite.Open(context.Background(), path, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			if err := storetest.Create(t.Context(), db, newTask(fmt.Sprint(i), 5),
				store.AuditRow{At: time.Now()}); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	db := open(t, path)
	rows, err := db.ListAudit(t.Context(), store.AuditFilter{Limit: 10})
	if err != nil || len(rows) != 4 {
		t.Errorf("%d tasks were stored, want 4; error %v", len(rows), err)
	}
}

func TestReadersDoNotWaitForAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	db := open(t, path)
	other := beside(t, path)
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ListAgents(t.Context()); err != nil {
		t.Errorf("while another program writes: %v", err)
	}
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("after another program wrote: %v", err)
	}
}

// beside opens the file as another program would, with one connection.
func beside(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// raw runs a statement beside the store.
func raw(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}
