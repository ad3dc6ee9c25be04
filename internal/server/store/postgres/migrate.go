package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"drover/internal/server/store/sqlstore"
)

// The files are named <version>_<what>.sql, are applied in order, and are never changed once released.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrateLock is held by the one who migrates.
const migrateLock = 1819241

// migrate applies the migrations that the database has not had, each in a transaction of its own. Others who want to
// wait until it is done.
func migrate(ctx context.Context, conn *sql.Conn, log *slog.Logger) (err error) {
	all, err := sqlstore.ReadMigrations(migrations, "migrations")
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, migrateLock); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if _, end := conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, migrateLock); end != nil && !lost(end) {
			err = errors.Join(err, end)
		}
	}()
	_, err = conn.ExecContext(ctx,
		`CREATE TABLE IF NOT EXISTS schema_version (one smallint PRIMARY KEY CHECK (one = 1), version bigint NOT NULL)`)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, `INSERT INTO schema_version VALUES (1, 0) ON CONFLICT DO NOTHING`); err != nil {
		return err
	}
	var have int
	if err := conn.QueryRowContext(ctx, `SELECT version FROM schema_version`).Scan(&have); err != nil {
		return fmt.Errorf("cannot read schema version: %w", err)
	}
	missing, err := sqlstore.Missing(all, have)
	if err != nil {
		return err
	}
	for _, m := range missing {
		if err := apply(ctx, conn, m); err != nil {
			return fmt.Errorf("cannot apply migration %q: %w", m.Name, err)
		}
	}
	if len(missing) > 0 {
		log.InfoContext(ctx, "migrated schema", "version", all[len(all)-1].Version)
	}
	return nil
}

func apply(ctx context.Context, conn *sql.Conn, m sqlstore.Migration) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or what has failed is told
	if _, err := tx.ExecContext(ctx, m.Script); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE schema_version SET version = $1`, m.Version); err != nil {
		return err
	}
	return tx.Commit()
}
