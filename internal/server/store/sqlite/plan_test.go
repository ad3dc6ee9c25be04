package sqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drover/internal/server/store/sqlstore"
	"drover/internal/server/store/storetest"
)

// TestNoStatementScansATable asks SQLite how it would run every statement that the methods use: none may walk through a
// table that grows with the fleet or with time.
func TestNoStatementScansATable(t *testing.T) {
	ctx := t.Context()
	db, err := Open(ctx, filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	statements := &recorder{backend: db.backend, heard: map[string]bool{}}
	storetest.Use(t, sqlstore.New(statements, nil))

	// What is meant to walk: all agents, the number of apps; and what stops at once: an end of the audit, the first of
	// an index.
	allowed := map[string]bool{
		"SCAN agents USING INDEX agents_address": true, "SCAN apps USING COVERING INDEX sqlite_autoindex_apps_1": true,
		"SCAN removed_agents USING COVERING INDEX sqlite_autoindex_removed_agents_1": true,
		"SCAN audit USING INDEX audit_at":                                            true,
		"SCAN audit USING INDEX audit_denied":                                        true,
		"SCAN items USING INDEX items_deadline":                                      true,
		// only what is not done is in it
		"SCAN i USING INDEX items_deadline": true,
		"SCAN f":                            true, // a page of tasks
		// a batch of the oldest events
		"SCAN oldest":                          true,
		"SCAN v":                               true, // rows of parameters
		"SCAN items USING INDEX items_waiting": true, // the first
		// how many each agent has, once an hour
		"SCAN events USING COVERING INDEX events_agent": true,
	}
	for query := range statements.heard {
		verb, _, _ := strings.Cut(strings.TrimSpace(query), " ")
		if !slices.Contains([]string{"SELECT", "UPDATE", "DELETE", "WITH"}, strings.TrimSpace(verb)) {
			continue
		}
		explain := func() (*sql.Rows, error) {
			return db.backend.reader.QueryContext(ctx, "EXPLAIN QUERY PLAN "+db.backend.speller.Spell(query),
				make([]any, strings.Count(query, "?"))...)
		}
		err := sqlstore.Each(explain, func(rows *sql.Rows) error {
			var id, parent, unused int
			var step string
			err := rows.Scan(&id, &parent, &unused, &step)
			parameter := strings.Contains(step, "VIRTUAL TABLE") || strings.Contains(step, "CONSTANT ROW")
			if strings.Contains(step, "TEMP B-TREE") && strings.Contains(query, "FROM events") {
				t.Errorf("%s\n%s", step, query)
			}
			if strings.HasPrefix(step, "SCAN") && !allowed[step] && !parameter {
				t.Errorf("%s\n%s", step, query)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// recorder writes down what runs in a database.
type recorder struct {
	*backend
	heard map[string]bool
}

func (r *recorder) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	return recording{r.backend, r.heard}.Query(ctx, scan, statement, args...)
}

func (r *recorder) Write(ctx context.Context, do func(context.Context, sqlstore.Session) error) error {
	return r.backend.Write(ctx, r.in(do))
}

func (r *recorder) WriteSerially(ctx context.Context, do func(context.Context, sqlstore.Session) error) error {
	return r.backend.WriteSerially(ctx, r.in(do))
}

func (r *recorder) Snapshot(ctx context.Context, do func(context.Context, sqlstore.Session) error) error {
	return r.backend.Snapshot(ctx, r.in(do))
}

func (r *recorder) in(do func(context.Context, sqlstore.Session) error) func(context.Context, sqlstore.Session) error {
	return func(ctx context.Context, s sqlstore.Session) error { return do(ctx, recording{s, r.heard}) }
}

type querier interface {
	Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error
}

// recording is a session of a recorder, or the reads beside them.
type recording struct {
	querier
	heard map[string]bool
}

func (r recording) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	r.heard[statement] = true
	return r.querier.Query(ctx, scan, statement, args...)
}

func (r recording) Exec(ctx context.Context, statement string, args ...any) (int, error) {
	r.heard[statement] = true
	return r.querier.(sqlstore.Session).Exec(ctx, statement, args...)
}
