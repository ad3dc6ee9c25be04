package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/server/store/storetest"
)

// BenchmarkCreateTask compares a task of 1,000 items with the least that any design would do: the same texts as one
// multi-row insert per 250 rows, in one synced transaction, into a table without indexes.
func BenchmarkCreateTask(b *testing.B) {
	const n = 1000
	b.Run("bare", func(b *testing.B) {
		db := bare(b)
		insert := bareInsert(b, db, 250)
		task := newTask("t", n)
		for b.Loop() {
			tx, err := db.Begin()
			check(b, err)
			s := tx.Stmt(insert) //nolint:sqlclosecheck // ends with the transaction
			for i := 0; i < n; i += 250 {
				_, err := s.Exec(bareRows(task.Requests[0].Targets[i : i+250])...)
				check(b, err)
			}
			check(b, tx.Commit())
		}
	})
	b.Run("store", func(b *testing.B) {
		db := open(b, filepath.Join(b.TempDir(), "drover.db"))
		i := 0
		task := newTask("t", n)
		for b.Loop() {
			i++
			task.ID = fmt.Sprint(i)
			task.Requests[0].Process.Name = task.ID
			check(b, storetest.Create(b.Context(), db, task, store.AuditRow{At: time.Now()}))
			b.StopTimer()
			finishAll(b, db, n)
			b.StartTimer()
		}
	})
}

// BenchmarkQueries takes 1,000 requests for one agent, a spec each, from their acceptance to the answers.
func BenchmarkQueries(b *testing.B) {
	const n = 1000
	db := open(b, filepath.Join(b.TempDir(), "drover.db"))
	var took [4]time.Duration
	round := 0
	for b.Loop() {
		round++
		t := queries(fmt.Sprint(round), n)
		began := time.Now()
		lap := func(i int) {
			took[i] += time.Since(began)
			began = time.Now()
		}
		check(b, storetest.Create(b.Context(), db, t, store.AuditRow{At: time.Now()}))
		lap(0)
		items, err := db.LeaseItems(b.Context(), time.Now(), time.Now().Add(time.Minute), n)
		check(b, err)
		lap(1)
		for half := range 2 {
			outcomes := map[string]process.Outcome{}
			for i := half * n / 2; i < (half+1)*n/2; i++ {
				outcomes[items[i].ID] = process.Outcome{Text: process.Success, Hosted: true, Status: &process.Status{
					Known: true, Hosted: true, Want: process.WantRunning, State: "running", ProcName: "worker",
					LastStartAt: 1_700_000_000,
					Instance: process.Instance{
						PID: i, Cmdline: "/usr/sbin/worker --number 12345", Stat: "S", CPU: 0.5,
						RSS: 1800, Threads: 1,
					},
				}}
			}
			_, err := db.Finish(b.Context(), storetest.Reported("agent", outcomes))
			check(b, err)
		}
		lap(2)
		check(b, db.TaskItems(b.Context(), t.ID, "app", func(store.ItemView) error { return nil }))
		lap(3)
	}
	for i, what := range []string{"create", "lease", "finish", "poll"} {
		b.ReportMetric(float64(took[i])/float64(b.N)/1e6, what+"-ms/op")
	}
}

// queries returns a task of n requests for one agent.
func queries(id string, n int) *store.Task {
	t := &store.Task{ID: id, App: "app", User: "user", Created: time.Now()}
	for i := range n {
		p := process.ID{Namespace: "ns", Name: fmt.Sprintf("worker-%d", i)}
		t.Requests = append(t.Requests, store.Request{
			Op: process.Query, Process: p,
			Spec: &process.Spec{
				ProcessName: "worker", Directory: "/opt/worker", PIDFile: fmt.Sprintf("/run/worker-%d.pid", i), User: "root",
				Start: fmt.Sprintf("/opt/worker/run %d", i), Compat: new(v1.Compat{}.Defaulted()),
			},
			Targets: []store.Target{{ItemKey: "0:10.0.0.1:ns:" + p.Name, Spelling: "0:10.0.0.1", Agent: "agent"}},
		})
	}
	return t
}

// BenchmarkTaskItems compares a poll with a bare read of the same texts.
func BenchmarkTaskItems(b *testing.B) {
	for _, n := range []int{1000, 30_000} {
		b.Run(fmt.Sprintf("bare/%d", n), func(b *testing.B) {
			db := bare(b)
			targets := newTask("t", n).Requests[0].Targets
			insert := bareInsert(b, db, 1) //nolint:sqlclosecheck // ends with the database
			for i := range targets {
				_, err := insert.Exec(bareRows(targets[i : i+1])...)
				check(b, err)
			}
			for b.Loop() {
				if count := bareRead(b, db); count != n {
					b.Fatalf("%d rows", count)
				}
			}
		})
		b.Run(fmt.Sprintf("store/%d", n), func(b *testing.B) {
			db := open(b, filepath.Join(b.TempDir(), "drover.db"))
			finishedTask(b, db, n)
			for b.Loop() {
				count := 0
				check(b, db.TaskItems(b.Context(), "t", "app", func(v store.ItemView) error {
					if v.Done {
						count++
					}
					return nil
				}))
				if count != n {
					b.Fatalf("%d rows", count)
				}
			}
		})
	}
}

// finishedTask stores a task of n known agents whose items are all done.
func finishedTask(b *testing.B, db *sqlite.DB, n int) {
	b.Helper()
	task := newTask("t", n)
	for i, target := range task.Requests[0].Targets {
		check(b,
			db.PutAgent(b.Context(),
				store.Agent{Key: target.Agent, IP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}))
	}
	check(b, storetest.Create(b.Context(), db, task, store.AuditRow{At: time.Now()}))
	finishAll(b, db, n)
}

// finishAll ends the n items that are due.
func finishAll(b *testing.B, db *sqlite.DB, n int) {
	b.Helper()
	items, err := db.LeaseItems(b.Context(), time.Now(), time.Now(), n)
	check(b, err)
	outcomes := map[string]process.Outcome{}
	for _, it := range items {
		outcomes[it.ID] = process.Outcome{Text: process.Success, Hosted: true}
	}
	_, err = db.Finish(b.Context(), storetest.Reported("", outcomes))
	check(b, err)
}

// BenchmarkRollouts measures a rollout over 10,000 hosts.
func BenchmarkRollouts(b *testing.B) {
	storetest.Rollouts(b, open(b, filepath.Join(b.TempDir(), "drover.db")))
}

// BenchmarkItemLife measures items from the lease to the outcome.
func BenchmarkItemLife(b *testing.B) {
	storetest.ItemLife(b, open(b, filepath.Join(b.TempDir(), "drover.db")), 64)
}

// BenchmarkReportLife measures reports of agents.
func BenchmarkReportLife(b *testing.B) {
	storetest.ReportLife(b, open(b, filepath.Join(b.TempDir(), "drover.db")), 64)
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func bare(b *testing.B) *sql.DB {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	check(b, err)
	b.Cleanup(func() { check(b, db.Close()) })
	_, err = db.Exec(
		`CREATE TABLE bare (num INTEGER PRIMARY KEY, key TEXT, asked TEXT, agent TEXT, op TEXT, ns TEXT, name TEXT,
		state INTEGER, deadline INTEGER, text TEXT)`)
	check(b, err)
	return db
}

func bareInsert(b *testing.B, db *sql.DB, rows int) *sql.Stmt {
	b.Helper()
	query := `INSERT INTO bare (key, asked, agent, op, ns, name, state, deadline, text) VALUES `
	for i := range rows {
		if i > 0 {
			query += ","
		}
		query += `(?, ?, ?, ?, ?, ?, ?, ?, ?)`
	}
	s, err := db.Prepare(query)
	check(b, err)
	return s
}

func bareRead(b *testing.B, db *sql.DB) int {
	b.Helper()
	rows, err := db.QueryContext(b.Context(), `SELECT key, asked, agent, op, ns, name, state, text FROM bare`)
	check(b, err)
	defer func() { check(b, rows.Close()) }()
	count := 0
	for rows.Next() {
		var t [7]string
		var state int
		check(b, rows.Scan(&t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &state, &t[6]))
		count++
	}
	check(b, rows.Err())
	return count
}

func bareRows(targets []store.Target) []any {
	var args []any
	for i := range targets {
		t := &targets[i]
		args = append(args, t.ItemKey, t.Spelling, t.Agent, "start", "ns", "nginx", 0, int64(1)<<60, "success")
	}
	return args
}
