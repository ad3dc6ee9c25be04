package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"drover/internal/server/store/sqldb"
)

// backend runs the statements of the store in the file.
type backend struct {
	writer  *writer
	reader  *sql.DB
	dialect *sqldb.Dialect
	// queries holds the prepared reads (string → *sql.Stmt).
	queries sync.Map
	// close closes the file once; later calls return the same result.
	close func() error
}

// dialect returns the dialect of SQLite.
func dialect() *sqldb.Dialect {
	return &sqldb.Dialect{
		Lists: map[string]string{
			"texts":   "json_each(%s)",
			"numbers": "json_each(%s)",
			"pairs":   "(SELECT key, value ->> 0 AS a, value ->> 1 AS b FROM json_each(%s))",
			"names":   "(SELECT key, value ->> 0 AS a, value ->> 1 AS b FROM json_each(%s))",
			"triples": "(SELECT key, value ->> 0 AS a, value ->> 1 AS b, value ->> 2 AS c FROM json_each(%s))",
		},
		// SQLite plans by the value of a bare LIMIT parameter, so it would parse the statement again at each use
		// (sqlite3ExprIsInteger in expr.c).
		Rewrite: func(statement string) string { return strings.ReplaceAll(statement, "LIMIT ?", "LIMIT +?") },
		Match:   "GLOB",
		// an unquoted bracket would begin a set
		Pattern: func(pattern string) string { return strings.ReplaceAll(pattern, "[", "[[]") },
		Numbers: `SELECT (SELECT coalesce(max(num), 0) + 1 FROM tasks), (SELECT coalesce(max(num), 0) + 1
			FROM requests),
			(SELECT coalesce(max(num), 0) + 1 FROM items)`,
	}
}

func (b *backend) Dialect() *sqldb.Dialect { return b.dialect }

// Close waits for the open writes and closes the file.
func (b *backend) Close() error { return b.close() }

func (b *backend) closeAll() error {
	var errs []error
	b.queries.Range(func(_, s any) bool {
		errs = append(errs, s.(*sql.Stmt).Close())
		return true
	})
	errs = append(errs, b.reader.Close(), b.writer.close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot close database: %w", err)
	}
	return nil
}

func (b *backend) Write(ctx context.Context, do func(context.Context, sqldb.Session) error) error {
	return b.writer.write(ctx, do)
}

// WriteSerially is Write, because all writes run one after another.
func (b *backend) WriteSerially(ctx context.Context, do func(context.Context, sqldb.Session) error) error {
	return b.writer.write(ctx, do)
}

// Query runs a read. It prepares each distinct text once and keeps it.
func (b *backend) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	s, err := b.prepared(ctx, statement) //nolint:sqlclosecheck // kept, and closed with the database
	if err != nil {
		return err
	}
	return sqldb.Each(func() (*sql.Rows, error) { return s.QueryContext(ctx, args...) }, scan)
}

func (b *backend) prepared(ctx context.Context, statement string) (*sql.Stmt, error) {
	if s, ok := b.queries.Load(statement); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := b.reader.PrepareContext(ctx, b.dialect.Spell(statement))
	if err != nil {
		return nil, err
	}
	if earlier, ok := b.queries.LoadOrStore(statement, s); ok {
		return earlier.(*sql.Stmt), s.Close() //nolint:sqlclosecheck // another goroutine prepared it first
	}
	return s, nil
}

// Snapshot lets do read in one transaction.
func (b *backend) Snapshot(ctx context.Context, do func(context.Context, sqldb.Session) error) (err error) {
	tx, err := b.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() {
		// A read has nothing to commit, so it rolls back. If the context has ended, the transaction is already over.
		if end := tx.Rollback(); !errors.Is(end, sql.ErrTxDone) {
			err = errors.Join(err, end)
		}
	}()
	return do(ctx, snapshot{b, tx})
}

// snapshot is a transaction that only reads.
type snapshot struct {
	backend *backend
	tx      *sql.Tx
}

// Exec fails, because a snapshot changes nothing.
func (s snapshot) Exec(ctx context.Context, statement string, args ...any) (int, error) {
	_, err := s.tx.ExecContext(ctx, s.backend.dialect.Spell(statement), args...)
	return 0, err
}

func (s snapshot) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	return sqldb.Each(func() (*sql.Rows, error) {
		return s.tx.QueryContext(ctx, s.backend.dialect.Spell(statement), args...)
	}, scan)
}
