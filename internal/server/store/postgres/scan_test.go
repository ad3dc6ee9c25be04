package postgres_test

import (
	"testing"

	"drover/internal/server/store/storetest"
)

// TestEveryStatementHasAnIndex counts, in a database of a fleet that has been at work for a while and where walking
// through a table counts as dear, how often a table that grows was walked through all the same while every method was
// used.
func TestEveryStatementHasAnIndex(t *testing.T) {
	url := fresh()(t)
	if err := open(t, url).Close(); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`INSERT INTO tasks SELECT n, 'old' || n, 'app', 'user', '', n, n << 24, (n << 24) + 30, 1, 0 FROM generate_series(1::bigint, 1000) n`,
		`INSERT INTO requests (num, task, op, namespace, name, proc_name, setup_path, func_id, instance_id, removes)
			SELECT n << 24, n, 'start', 'ns', 'p' || n, '', '', '', '', 0 FROM generate_series(1::bigint, 1000) n`,
		`INSERT INTO items (num, nonce, task, request, rank, key, asked, agent, host, lane, passes, state, attempts, deadline)
			SELECT (n << 24) + i, 1, n, n << 24, i, 'k' || i, 'k', 'agent' || i, i, n, 0, 4, 1, n FROM generate_series(1::bigint, 1000) n, generate_series(0, 29) i`,
		`INSERT INTO agents (key, cloud, ip, id, build, created) SELECT 'agent' || n, 0, 'ip' || n, '', '', 0 FROM generate_series(1, 5000) n`,
		`INSERT INTO observed (agent, namespace, name, status) SELECT 'agent' || n, 'ns' || n % 7, 'p', '{"state":"up"}' FROM generate_series(1, 20000) n`,
		`INSERT INTO confirmed (agent, namespace, name, revision, gone) SELECT 'agent' || n, 'ns', 'p', 1, 0 FROM generate_series(1, 20000) n`,
		`INSERT INTO events SELECT n, 'agent' || n % 5000, 'ns' || n % 7, 'p' || n % 100, 'exited', n, 1, '{}' FROM generate_series(1, 40000) n`,
		`UPDATE counters SET value = 40000`,
		`INSERT INTO event_streams SELECT 'agent' || n, 's', 1, 1 FROM generate_series(1, 5000) n`,
		`INSERT INTO audit (at, app, "user", remote, request_id, action, target, targets, allowed, code, message)
			SELECT n, 'app' || n % 9, 'user' || n % 9, '', 'r' || n, 'x', '', 1, (n % 100 > 0)::int, 0, '' FROM generate_series(1, 20000) n`,
		`INSERT INTO groups SELECT 'ns', 'agent' || n, 0, 'g', 0, 0, 0, 0 FROM generate_series(1, 5000) n`,
		`SELECT setval('task_numbers', 1001)`,
		`DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET enable_seqscan = off'; END $$`,
		`VACUUM ANALYZE`,
		`SELECT pg_stat_reset()`,
	} {
		exec(t, url, statement)
	}
	db := open(t, url)
	storetest.Use(t, db)
	if err := db.Close(); err != nil { // then the counts of its connections are told
		t.Fatal(err)
	}
	c := connect(t, url)
	rows, err := c.Query(t.Context(), `SELECT relname, coalesce(seq_scan, 0) FROM pg_stat_user_tables
		WHERE relname IN ('tasks', 'requests', 'items', 'observed', 'confirmed', 'events', 'event_streams', 'audit', 'groups')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	tables := 0
	for rows.Next() {
		var table string
		var walked int64
		if err := rows.Scan(&table, &walked); err != nil {
			t.Fatal(err)
		}
		tables++
		if walked > 0 {
			t.Errorf("%s was walked through %d times", table, walked)
		}
	}
	if rows.Err() != nil || tables != 9 {
		t.Errorf("the counts of %d tables were read, want 9; error %v", tables, rows.Err())
	}
}

// TestThroughAPooler uses every method as behind a pooler that gives each transaction another connection.
func TestThroughAPooler(t *testing.T) {
	storetest.Use(t, open(t, fresh()(t)+"&default_query_exec_mode=exec"))
}
