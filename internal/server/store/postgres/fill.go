package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"

	"drover/internal/server/store/sqldb"
)

// Filled is the number of copied rows of a table.
type Filled struct {
	Table string
	Rows  int64
}

// Fill copies a database into an empty one, in one transaction: it copies all rows, and counts them on both sides, or
// copies nothing. It creates the schema first, and rejects a database that is not empty.
func Fill(ctx context.Context, url string, from sqldb.Source, log *slog.Logger) (_ []Filled, err error) {
	db, err := Open(ctx, url, log)
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	filled, err := fill(ctx, cfg, from)
	if err != nil {
		return nil, fmt.Errorf("cannot fill database %s: %w", addressesOf(cfg), err)
	}
	return filled, nil
}

func fill(ctx context.Context, cfg *pgx.ConnConfig, from sqldb.Source) (filled []Filled, err error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	tables, err := from.Tables(ctx)
	if err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// A server that has the database open could write meanwhile.
		if _, err := tx.Exec(ctx,
			`LOCK TABLE tasks, agents, apps, users, fleet, events IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		if err := checkEmpty(ctx, tx, tables); err != nil {
			return err
		}
		for _, t := range tables {
			n, err := fillTable(ctx, tx, t, from)
			if err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
			filled = append(filled, Filled{t.Name, n})
		}
		return countOn(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	// Without statistics, the database would plan the first statements badly.
	if _, err := conn.Exec(ctx, `ANALYZE`); err != nil {
		return nil, err
	}
	return filled, nil
}

// checkEmpty fails if a table has rows. It empties the table of counters, which always has its row.
func checkEmpty(ctx context.Context, tx pgx.Tx, tables []sqldb.Table) error {
	for _, t := range tables {
		if t.Name == "counters" {
			continue
		}
		var full bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+pgx.Identifier{t.Name}.Sanitize()+
			`)`).Scan(&full); err != nil {
			return err
		}
		if full {
			return fmt.Errorf("the database is not empty: table %s has rows; use a new database", t.Name)
		}
	}
	_, err := tx.Exec(ctx, `DELETE FROM counters`)
	return err
}

// fillTable copies a table, and counts the rows that arrived.
func fillTable(ctx context.Context, tx pgx.Tx, t sqldb.Table, from sqldb.Source) (int64, error) {
	next, stop := iter.Pull2(from.Rows(ctx, t))
	defer stop()
	sent := int64(0)
	_, err := tx.CopyFrom(ctx, pgx.Identifier{t.Name}, t.Columns, pgx.CopyFromFunc(func() ([]any, error) {
		row, err, more := next()
		if !more || err != nil {
			return nil, err
		}
		for i, v := range row {
			if s, ok := v.(string); ok {
				row[i] = escape(s)
			}
		}
		sent++
		return row, nil
	}))
	if err != nil {
		return 0, err
	}
	var arrived int64
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM `+pgx.Identifier{t.Name}.Sanitize()).Scan(&arrived); err != nil {
		return 0, err
	}
	if arrived != sent {
		return 0, fmt.Errorf("sent %d rows, but %d arrived", sent, arrived)
	}
	return arrived, nil
}

// countOn sets the sequences so that the numbers of new rows follow the copied numbers.
func countOn(ctx context.Context, tx pgx.Tx) error {
	var statements []string
	for _, table := range []string{"observed", "confirmed", "audit"} {
		statements = append(statements, fmt.Sprintf(
			`SELECT setval(pg_get_serial_sequence('%[1]s', 'num'), (SELECT coalesce(max(num), 0) + 1
				FROM %[1]s), false)`, table))
	}
	statements = append(statements,
		`SELECT setval('task_numbers', 1 + greatest((SELECT coalesce(max(num), 0) FROM tasks),
		(SELECT coalesce(max(num), 0) >> 24 FROM requests), (SELECT coalesce(max(num), 0) >> 24 FROM items)), false)`)
	_, err := tx.Exec(ctx, strings.Join(statements, "; "))
	return err
}
