package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"

	"drover/internal/server/store/sqldb"
)

// Backup writes a copy of the database at path, as of one moment, to a new file that only its owner can read. A server
// may have the database open, and continues meanwhile. The copy has no programs of agents: anybody who has the signed
// file can add them again. Backup removes a failed copy.
func Backup(ctx context.Context, path, to string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("cannot copy database: %w", err)
	}
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("cannot copy database: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(fmt.Errorf("cannot copy database %s to %s: %w", path, to, err), os.Remove(to))
		}
	}()
	conns, err := open(path, 1, readerCache)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conns.Close()) }()
	whole := to + ".part"
	defer func() { _ = os.Remove(whole) }()
	if _, err := conns.ExecContext(ctx, `VACUUM INTO ?`, whole); err != nil {
		return err
	}
	if err := leaveOutPrograms(ctx, whole, to); err != nil {
		return err
	}
	return f.Sync()
}

// leaveOutPrograms deletes the programs of agents from the copy at path, and writes what is left to another file. It
// needs no more memory for a large copy.
func leaveOutPrograms(ctx context.Context, path, to string) (err error) {
	conns, err := open(path, 1, readerCache, "journal_mode(OFF)") // who loses power has no copy
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conns.Close()) }()
	if _, err := conns.ExecContext(ctx, `DELETE FROM package_pieces`); err != nil {
		return err
	}
	_, err = conns.ExecContext(ctx, `VACUUM INTO ?`, to)
	return err
}

// Read brings the schema of the database at path up to date, and lets do read everything in it. No server may have the
// database open.
func Read(ctx context.Context, path string, log *slog.Logger, do func(sqldb.Source) error) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read database: %w", err) // Open would create the file
	}
	db, err := Open(ctx, path, log)
	if err != nil {
		return err
	}
	err = db.backend.Snapshot(ctx, func(_ context.Context, s sqldb.Session) error { return do(source{s}) })
	return errors.Join(err, db.Close())
}

// source is a database to copy.
type source struct{ session sqldb.Session }

// Tables returns all tables except those that belong to the file.
func (s source) Tables(ctx context.Context) ([]sqldb.Table, error) {
	var tables []sqldb.Table
	err := s.session.Query(ctx, func(rows *sql.Rows) error {
		var name, column string
		if err := rows.Scan(&name, &column); err != nil {
			return err
		}
		if n := len(tables); n == 0 || tables[n-1].Name != name {
			tables = append(tables, sqldb.Table{Name: name})
		}
		last := &tables[len(tables)-1]
		last.Columns = append(last.Columns, column)
		return nil
	}, `SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\'
			AND t.name NOT IN ('schema_version', 'ping', 'leases', 'servers', 'hubs')
		ORDER BY t.name, c.cid`)
	if err != nil {
		return nil, fmt.Errorf("cannot read the schema: %w", err)
	}
	referred := func(t sqldb.Table) int { return slices.Index([]string{"users", "tasks"}, t.Name) }
	slices.SortStableFunc(tables, func(a, b sqldb.Table) int { return referred(b) - referred(a) })
	return tables, nil
}

// errStopped ends a query whose caller wants no more rows.
var errStopped = errors.New("stopped")

// Rows yields the rows of a table.
func (s source) Rows(ctx context.Context, t sqldb.Table) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		columns := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			columns[i] = `"` + c + `"`
		}
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		err := s.session.Query(ctx, func(rows *sql.Rows) error {
			if err := rows.Scan(into...); err != nil {
				return err
			}
			if !yield(values, nil) {
				return errStopped
			}
			return nil
		}, `SELECT `+strings.Join(columns, ", ")+` FROM "`+t.Name+`"`)
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, fmt.Errorf("cannot read table %s: %w", t.Name, err))
		}
	}
}
