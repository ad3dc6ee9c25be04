package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// The files are named <version>_<what>.sql, are applied in order, and are never changed once released.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrate applies the migrations that the database has not had, each in a transaction of its own.
func migrate(ctx context.Context, db *sql.DB, log *slog.Logger) (err error) {
	entries, err := migrations.ReadDir("migrations")
	if err != nil {
		return fmt.Errorf("cannot read migrations: %w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)

	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, name := range append([]string{""}, names...) {
		if err := apply(ctx, conn, name, len(names), log); err != nil {
			return err
		}
	}
	return nil
}

// apply brings the schema to the version of the named file unless it is there; an empty name is version 0. The version is read
// under the write lock, so that two programs which start at the same moment do not both migrate.
func apply(ctx context.Context, conn *sql.Conn, name string, newest int, log *slog.Logger) (err error) {
	version, script := 0, ""
	if name != "" {
		if version, err = strconv.Atoi(strings.SplitN(name, "_", 2)[0]); err != nil {
			return fmt.Errorf("migration %q has no number: %w", name, err)
		}
		text, err := migrations.ReadFile("migrations/" + name)
		if err != nil {
			return fmt.Errorf("cannot read migration: %w", err)
		}
		script = string(text) + "; UPDATE schema_version SET version = " + strconv.Itoa(version)
	} else {
		script = `CREATE TABLE IF NOT EXISTS schema_version (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT;
			INSERT OR IGNORE INTO schema_version VALUES (1, 0)`
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, rollback := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, rollback)
		}
	}()
	if name != "" {
		var have int
		if err := conn.QueryRowContext(ctx, "SELECT version FROM schema_version").Scan(&have); err != nil {
			return fmt.Errorf("cannot read schema version: %w", err)
		}
		switch {
		case have > newest:
			return fmt.Errorf("its schema is version %d and this build knows versions up to %d: run a newer drover", have, newest)
		case have >= version:
			script = ""
		}
	}
	if script != "" {
		if _, err := conn.ExecContext(ctx, script); err != nil {
			return fmt.Errorf("cannot apply migration %q: %w", name, err)
		}
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("cannot apply migration %q: %w", name, err)
	}
	if script != "" && name != "" {
		log.InfoContext(ctx, "schema was migrated", "version", version)
	}
	return nil
}
