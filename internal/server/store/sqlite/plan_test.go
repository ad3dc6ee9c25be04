package sqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore"
	"drover/internal/server/store/storetest"
)

// TestContract runs the suite, and then looks at every statement that ran meanwhile.
func TestContract(t *testing.T) {
	heard := &statements{}
	storetest.Run(t, func(t *testing.T) store.Store {
		t.Helper()
		return sqlstore.New(&recorder{backend: openInternally(t).backend, heard: heard}, nil)
	})
	t.Run("no statement scans a table", func(t *testing.T) { scanNothing(t, heard.all()) })
}

// scanNothing asks SQLite how it would run the statements: none may walk through a table that grows with the fleet or
// with time.
func scanNothing(t *testing.T, queries []string) {
	t.Helper()
	ctx := t.Context()
	db := openInternally(t)

	// What is meant to walk: all agents, the number of apps; and what stops at once: an end of the audit, the first of
	// an index.
	allowed := map[string]bool{
		"SCAN agents USING INDEX agents_address": true, "SCAN apps USING COVERING INDEX sqlite_autoindex_apps_1": true,
		// few rows: this server and those beside it, what there is one of, receivers of events, proxies, states
		"SCAN servers": true, "SCAN fleet USING INDEX sqlite_autoindex_fleet_1": true, "SCAN proxies": true,
		// the selections of all files
		"SCAN selections": true,
		// one for each agent, for a picture of all of them
		"SCAN agent_reports": true,
		"SCAN receivers USING INDEX sqlite_autoindex_receivers_1": true, "SCAN observed": true,
		// at most a thousand, and one for each process that has ever failed on many hosts
		// at most 40 for each user; only to end what was made with a token
		"SCAN tokens":   true,
		"SCAN silences": true, "SCAN breakers USING INDEX sqlite_autoindex_breakers_1": true,
		// at most a thousand, and only what goes on
		"SCAN schedules USING INDEX sqlite_autoindex_schedules_1": true, "SCAN s USING COVERING INDEX sqlite_autoindex_schedules_1": true,
		"SCAN r USING INDEX schedule_runs_open": true,
		// at most fifty, and an index of their pieces, for a list
		"SCAN packages": true, "SCAN packages USING INDEX sqlite_autoindex_packages_1": true,
		"SCAN package_pieces USING COVERING INDEX sqlite_autoindex_package_pieces_1": true,
		// only what waits is in it
		"SCAN items USING INDEX items_passing": true,
		// the latest ten thousand, for a question about the past that names a removed host
		"SCAN removed_agents USING INDEX removed_agents_at":                          true,
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
		"SCAN states USING COVERING INDEX states_agent": true,
		"SCAN q": true, // a page of processes of the past
	}
	for _, query := range queries {
		verb, _, _ := strings.Cut(strings.TrimSpace(query), " ")
		if !slices.Contains([]string{"SELECT", "UPDATE", "DELETE", "WITH"}, strings.TrimSpace(verb)) {
			continue
		}
		explain := func() (*sql.Rows, error) {
			return db.backend.reader.QueryContext(ctx, "EXPLAIN QUERY PLAN "+db.backend.dialect.Spell(query),
				make([]any, strings.Count(query, "?"))...)
		}
		err := sqldb.Each(explain, func(rows *sql.Rows) error {
			var id, parent, unused int
			var step string
			err := rows.Scan(&id, &parent, &unused, &step)
			parameter := strings.Contains(step, "VIRTUAL TABLE") || strings.Contains(step, "CONSTANT ROW")
			if strings.Contains(step, "TEMP B-TREE") && strings.Contains(query, "FROM events") {
				t.Errorf("%s\n%s", step, query)
			}
			// Half of a table is as bad. Tasks, rollouts, events and states are read so in pages.
			half := strings.Contains(step, "(rowid<?)") || strings.Contains(step, "(rowid>?)")
			if half && !strings.HasPrefix(step, "SEARCH tasks") && !strings.HasPrefix(step, "SEARCH events") &&
				!strings.HasPrefix(step, "SEARCH states") && !strings.HasPrefix(step, "SEARCH rollouts") {
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

func openInternally(t *testing.T) *DB {
	t.Helper()
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// statements are the texts of statements that ran.
type statements struct{ texts sync.Map }

func (s *statements) add(text string) { s.texts.Store(text, nil) }

func (s *statements) all() (list []string) {
	s.texts.Range(func(text, _ any) bool {
		list = append(list, text.(string))
		return true
	})
	return list
}

// recorder writes down what runs in a database.
type recorder struct {
	*backend
	heard *statements
}

func (r *recorder) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	return recording{r.backend, r.heard}.Query(ctx, scan, statement, args...)
}

func (r *recorder) Write(ctx context.Context, do func(context.Context, sqldb.Session) error) error {
	return r.backend.Write(ctx, r.in(do))
}

func (r *recorder) WriteSerially(ctx context.Context, do func(context.Context, sqldb.Session) error) error {
	return r.backend.WriteSerially(ctx, r.in(do))
}

func (r *recorder) Snapshot(ctx context.Context, do func(context.Context, sqldb.Session) error) error {
	return r.backend.Snapshot(ctx, r.in(do))
}

func (r *recorder) in(do func(context.Context, sqldb.Session) error) func(context.Context, sqldb.Session) error {
	return func(ctx context.Context, s sqldb.Session) error { return do(ctx, recording{s, r.heard}) }
}

type querier interface {
	Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error
}

// recording is a session of a recorder, or the reads beside them.
type recording struct {
	querier
	heard *statements
}

func (r recording) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	r.heard.add(statement)
	return r.querier.Query(ctx, scan, statement, args...)
}

func (r recording) Exec(ctx context.Context, statement string, args ...any) (int, error) {
	r.heard.add(statement)
	return r.querier.(sqldb.Session).Exec(ctx, statement, args...)
}
