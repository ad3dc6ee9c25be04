package sqlite

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore"
)

// TestAppsOfTheFirstSchema: an app from before there were rights keeps its secret and can do what it could: everything.
func TestAppsOfTheFirstSchema(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler)
	created := time.Date(2026, 11, 20, 10, 30, 0, 123456789, time.UTC)
	atVersion(t, path, "0001_init.sql", `INSERT INTO apps (code, secret_hash, may_name_users, created) VALUES ('a', 'hash "quoted"', 1, ?)`, created.UnixNano())

	db, err := Open(t.Context(), path, log)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got, err := db.GetApp(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	want := store.App{
		Code: "a", MayNameUsers: true, Admin: true, Created: created, Changed: created,
		Secrets: []store.Secret{{ID: "first", Hash: `hash "quoted"`, Created: created.Truncate(time.Second)}},
	}
	want.Grants = got.Grants // none, in whatever form
	if len(got.Grants) != 0 {
		t.Errorf("grants are %v", got.Grants)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("app (-want +got):\n%s", d)
	}
}

// atVersion makes a database whose last migration is the named one, and runs a statement in it.
func atVersion(t *testing.T, path, last, statement string, args ...any) {
	t.Helper()
	ctx := context.Background()
	conns, err := open(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer conns.Close()
	conn, err := conns.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all, err := sqlstore.ReadMigrations(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(ctx, "CREATE TABLE schema_version (one INTEGER PRIMARY KEY, version INTEGER NOT NULL) STRICT; INSERT INTO schema_version VALUES (1, 0)"); err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		if m.Name > last {
			break
		}
		if err := apply(ctx, conn, all, i, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.ExecContext(ctx, statement, args...); err != nil {
		t.Fatal(err)
	}
}
