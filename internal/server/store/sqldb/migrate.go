package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"strings"
)

// Migrate brings the schema of a database to the latest version, all in one transaction, or returns an error and
// changes nothing. The files in the directory are named <version>_<what>.sql; they are applied in order and never
// change once released. begin is the statement that begins the transaction and waits until no other program migrates.
// A schema that is newer than all files is an error.
func Migrate(
	ctx context.Context, conn *sql.Conn, begin string, files fs.FS, dir string, log *slog.Logger,
) (err error) {
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, rollback := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, rollback)
		}
	}()
	_, err = conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_version
		(one smallint PRIMARY KEY CHECK (one = 1), version bigint NOT NULL);
		INSERT INTO schema_version VALUES (1, 0) ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}
	var have int
	if err := conn.QueryRowContext(ctx, `SELECT version FROM schema_version`).Scan(&have); err != nil {
		return fmt.Errorf("cannot read schema version: %w", err)
	}
	newest, err := apply(ctx, conn, files, dir, have)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return err
	}
	if newest > have {
		log.InfoContext(ctx, "migrated schema", "version", newest)
	}
	return nil
}

// apply runs the scripts that a schema of the given version lacks, and returns the newest version.
func apply(ctx context.Context, conn *sql.Conn, files fs.FS, dir string, have int) (newest int, err error) {
	entries, err := fs.ReadDir(files, dir) // sorted
	if err != nil {
		return 0, fmt.Errorf("cannot read migrations: %w", err)
	}
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		if newest, err = strconv.Atoi(number); err != nil {
			return 0, fmt.Errorf("migration %q has no number: %w", e.Name(), err)
		}
		if newest <= have {
			continue
		}
		script, err := fs.ReadFile(files, path.Join(dir, e.Name()))
		if err != nil {
			return 0, fmt.Errorf("cannot read migration: %w", err)
		}
		_, err = conn.ExecContext(ctx, string(script)+"; UPDATE schema_version SET version = "+strconv.Itoa(newest))
		if err != nil {
			return 0, fmt.Errorf("cannot apply migration %q: %w", e.Name(), err)
		}
	}
	if have > newest {
		return 0, fmt.Errorf("its schema is version %d, but this build knows versions up to %d: run a newer drover",
			have, newest)
	}
	return newest, nil
}
