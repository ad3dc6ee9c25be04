package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"drover/internal/server/store/sqlstore"
)

// The files are named <version>_<what>.sql, are applied in order, and are never changed once released.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrate applies the migrations that the database has not had, each in a transaction of its own.
func migrate(ctx context.Context, db *sql.DB, log *slog.Logger) (err error) {
	all, err := sqlstore.ReadMigrations(migrations, "migrations")
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	err = locked(ctx, conn,
		`CREATE TABLE IF NOT EXISTS schema_version (one INTEGER PRIMARY KEY CHECK (one = 1),
			version INTEGER NOT NULL) STRICT;
		INSERT OR IGNORE INTO schema_version VALUES (1, 0)`, nil)
	if err != nil {
		return err
	}
	applied := false
	for i := range all {
		did, err := apply(ctx, conn, all, i)
		if err != nil {
			return err
		}
		applied = applied || did
	}
	if applied {
		log.InfoContext(ctx, "migrated schema", "version", all[len(all)-1].Version)
	}
	return nil
}

// apply brings the schema to the version of one of the migrations unless it is there. The version is read under the
// write lock, so that two programs which start at the same moment do not both migrate.
func apply(ctx context.Context, conn *sql.Conn, all []sqlstore.Migration, which int) (needed bool, err error) {
	m := all[which]
	err = locked(ctx, conn, m.Script+"; UPDATE schema_version SET version = "+strconv.Itoa(m.Version),
		func() (bool, error) {
			var have int
			if err := conn.QueryRowContext(ctx, "SELECT version FROM schema_version").Scan(&have); err != nil {
				return false, fmt.Errorf("cannot read schema version: %w", err)
			}
			_, err := sqlstore.Missing(all, have)
			needed = have < m.Version
			return needed, err
		})
	if err != nil {
		return false, fmt.Errorf("cannot apply migration %q: %w", m.Name, err)
	}
	return needed, nil
}

// locked runs a script under the write lock, unless wanted, which is asked under it too, says that it is not.
func locked(ctx context.Context, conn *sql.Conn, script string, wanted func() (bool, error)) (err error) {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, rollback := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, rollback)
		}
	}()
	run := true
	if wanted != nil {
		if run, err = wanted(); err != nil {
			return err
		}
	}
	if run {
		if _, err := conn.ExecContext(ctx, script); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}
