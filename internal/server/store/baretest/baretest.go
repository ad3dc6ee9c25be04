// Package baretest is the least work of any database of tasks: it puts rows into one table without an index in one
// synced transaction, and reads them back in table order. Benchmarks compare the real store with it. It knows nothing
// of tasks.
package baretest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	_ "modernc.org/sqlite" // the driver
)

// Row is one row. The caller decides what its texts mean.
type Row struct {
	Key, Asked, Agent, Op, Namespace, Name string
	State                                  int
	Deadline                               int64
	// Read returns both: a caller inspects Stored and passes Text on unread.
	Stored, Text string
}

// perInsert is how many rows one statement inserts.
const perInsert = 250

// columns is the number of values of a row.
const columns = 10

// DB is one database.
type DB struct {
	db   *sql.DB
	many *sql.Stmt
}

// Open makes a database file with one empty table.
func Open(ctx context.Context, path string) (*DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, fmt.Errorf("cannot open bare database: %w", err)
	}
	_, err = db.ExecContext(ctx,
		`CREATE TABLE bare (num INTEGER PRIMARY KEY, key TEXT, asked TEXT, agent TEXT, op TEXT, ns TEXT,
		name TEXT, state INTEGER, deadline INTEGER, stored TEXT, text TEXT)`)
	d := &DB{db: db}
	if err == nil {
		d.many, err = db.PrepareContext(ctx, insert(perInsert))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make bare database: %w", err), db.Close())
	}
	return d, nil
}

func insert(rows int) string {
	values := "(" + strings.Repeat("?, ", columns-1) + "?)"
	return "INSERT INTO bare (key, asked, agent, op, ns, name, state, deadline, stored, text) VALUES " +
		strings.Repeat(values+", ", rows-1) + values
}

// Close closes the database.
func (d *DB) Close() error { return errors.Join(d.many.Close(), d.db.Close()) }

// Put puts rows in one transaction. When it returns nil they are on disk.
func (d *DB) Put(ctx context.Context, rows []Row) (err error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("cannot begin: %w", err)
	}
	defer tx.Rollback()                 //nolint:errcheck // does nothing after a commit
	many := tx.StmtContext(ctx, d.many) //nolint:sqlclosecheck // the transaction closes it
	for ; len(rows) >= perInsert; rows = rows[perInsert:] {
		if _, err := many.ExecContext(ctx, values(rows[:perInsert])...); err != nil {
			return fmt.Errorf("cannot insert: %w", err)
		}
	}
	if len(rows) > 0 {
		if _, err := tx.ExecContext(ctx, insert(len(rows)), values(rows)...); err != nil {
			return fmt.Errorf("cannot insert: %w", err)
		}
	}
	return tx.Commit()
}

func values(rows []Row) []any {
	list := make([]any, 0, columns*len(rows))
	for i := range rows {
		r := &rows[i]
		list = append(list, r.Key, r.Asked, r.Agent, r.Op, r.Namespace, r.Name, r.State, r.Deadline, r.Stored, r.Text)
	}
	return list
}

// Read calls fn for each row.
func (d *DB) Read(ctx context.Context, fn func(*Row) error) error {
	rows, err := d.db.QueryContext(ctx,
		"SELECT key, asked, agent, op, ns, name, state, deadline, stored, text FROM bare")
	if err != nil {
		return fmt.Errorf("cannot read: %w", err)
	}
	defer rows.Close() //nolint:errcheck // Err returns the error
	for rows.Next() {
		var r Row
		if err := rows.Scan(&r.Key, &r.Asked, &r.Agent, &r.Op, &r.Namespace, &r.Name, &r.State, &r.Deadline, &r.Stored,
			&r.Text); err != nil {
			return fmt.Errorf("cannot read: %w", err)
		}
		if err := fn(&r); err != nil {
			return err
		}
	}
	return rows.Err()
}
