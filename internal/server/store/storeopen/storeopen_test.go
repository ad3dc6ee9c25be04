package storeopen_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlite"
	"drover/internal/server/store/storeopen"
	"drover/internal/server/store/storetest"
	"drover/internal/test/pgtest"
)

// server is the PostgreSQL that the tests of this package share.
var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &server)) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t *testing.T, name string) store.Store {
	t.Helper()
	s, err := storeopen.Open(t.Context(), name, nil, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// odd is a text that is not the same in every database.
const odd = "Ω \x00 \x01 'x' \\u0000"

// fill stores something in every table.
func fill(t *testing.T, s store.Store) {
	t.Helper()
	storetest.Use(t, s)
	spec := &process.Spec{ProcessName: odd, Compat: &v1.Compat{}}
	request := store.Request{Op: process.Start, Process: process.ID{Namespace: "ns", Name: odd}, Spec: spec}
	for i := range 300 {
		a := fmt.Sprint("agent", i)
		request.Targets = append(request.Targets, store.Target{ItemKey: a + odd, Spelling: a, Agent: a})
	}
	_, events := s.PutEvents(t.Context(), "agent0", time.Now(),
		storetest.NewEvents(process.Event{Stream: "more", Seq: 1, Kind: process.EventExited}))
	recorded := func(seq uint64) process.Event {
		return process.Event{
			Stream: "run", Seq: seq, At: int64(seq), Kind: process.EventState, Process: process.ID{Namespace: "ns", Name: "web"},
			Shown: &process.Shown{State: process.StateRunning, Text: odd},
		}
	}
	_, states := s.PutEvents(t.Context(), "agent0", time.Now(), storetest.NewEvents(recorded(1), recorded(9)))
	created := time.Now()
	_, facts := s.Identify(t.Context(), map[string]string{"id": "fleet"})
	err := errors.Join(
		storetest.Create(t.Context(), s, &store.Task{
			ID: "copied", App: "app", Created: time.Now(),
			Requests: []store.Request{request},
		}, store.AuditRow{At: time.Now()}),
		s.PutRepeat(t.Context(), store.Repeat{Of: "a", What: "b", Task: "copied", At: time.Now()}, time.Time{}),
		s.CreateUser(t.Context(), store.User{Name: "u2"}),
		s.CreateToken(t.Context(), store.Token{ID: "t2", User: "u2", Hash: "h2"}),
		s.CreateReceiver(t.Context(), store.Receiver{Name: "w", Created: created}, 0),
		s.CreateSilence(t.Context(), store.Silence{ID: "s", Message: odd, From: time.Now(), Until: time.Now().Add(time.Hour)}),
		s.PutDelivery(t.Context(), "w", created, store.Delivery{}, store.Withheld{
			Added: []store.StoredEvent{{
				Cursor: 1, Agent: "a", Event: process.Event{Process: process.ID{Name: odd}, Kind: process.EventExited},
			}}, Counts: map[string]int64{"s": 1},
		}),
		s.OpenBreaker(t.Context(), store.Breaker{
			Process: process.ID{Name: odd}, Opened: time.Now(), Until: time.Now().Add(time.Hour),
		}, time.Time{}),
		s.PutObserved(t.Context(), store.ReportMark{Agent: "a", Session: "s", Number: 1, Hello: true},
			[]store.Observed{{
				Agent: "a", Process: process.ID{Name: "p"}, Status: process.Status{Revision: 1},
				Spec: spec,
			}}, nil),
		events, states, facts,
		s.PutAgent(t.Context(), store.Agent{Key: "named", ID: "one"}),
		s.ChangeAgent(t.Context(), store.Agent{Key: "named", ID: "two"}, created),
		s.PutAbsence(t.Context(), store.Absence{Agent: "agent0", Since: created, Until: created.Add(time.Hour)}),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// shown is what the lists of a store show.
func shown(t *testing.T, s store.Store) map[string]any {
	t.Helper()
	out := map[string]any{}
	add := func(what string, v any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out[what] = v
	}
	ctx := t.Context()
	tasks, err := s.ListTasks(ctx, store.TaskFilter{}, 0, 100)
	add("tasks", tasks, err)
	for _, task := range tasks {
		var views []store.ItemView
		add("items of "+task.ID, &views,
			s.TaskItems(ctx, task.ID, "", func(v store.ItemView) error { views = append(views, v); return nil }))
	}
	agents, err := s.ListAgents(ctx)
	add("agents", agents, err)
	packages, err := s.ListPackages(ctx)
	add("packages", packages, err)
	piece, err := s.GetPiece(ctx, "1", "amd64", 0)
	add("piece", piece, err)
	observed, _, err := s.ListObserved(ctx, store.ObservedFilter{Spec: true}, store.ObservedKey{}, 100)
	add("observed", observed, err)
	confirmed, err := s.AgentConfirmed(ctx, "a")
	add("confirmed", confirmed, err)
	groups, err := s.AgentGroups(ctx, "c")
	add("groups", groups, err)
	events, _, err := s.EventsAfter(ctx, 0, store.EventFilter{}, 100)
	add("events", events, err)
	states, _, err := s.StatesAt(ctx, store.ObservedFilter{}, time.Now(), store.ObservedKey{}, 100)
	add("states", states, err)
	runs, err := s.RunsAt(ctx, []string{"agent0"}, time.Now())
	add("runs", runs, err)
	absences, err := s.AbsencesBetween(ctx, time.Unix(1, 0), time.Now(), 100)
	add("absences", absences, err)
	stays, err := s.StaysBetween(ctx, time.Unix(-1, 0), time.Now(), 100)
	add("stays", stays, err)
	names, err := s.FormerNames(ctx, 100)
	add("earlier names", names, err)
	last, err := s.LastCursor(ctx)
	add("last cursor", last, err)
	audit, err := s.ListAudit(ctx, store.AuditFilter{Limit: 100})
	add("audit", audit, err)
	apps, err := s.ListApps(ctx, "", 100)
	add("apps", apps, err)
	users, err := s.ListUsers(ctx, "", 100)
	add("users", users, err)
	tokens, err := s.ListTokens(ctx, "u2")
	add("tokens", tokens, err)
	joins, err := s.ListJoinTokens(ctx, "", 100)
	add("join tokens", joins, err)
	receivers, err := s.ListReceivers(ctx)
	add("receivers", receivers, err)
	silences, err := s.ListSilences(ctx, time.Time{})
	add("silences", silences, err)
	withheld, err := s.ListWithheld(ctx, "w")
	add("withheld alarms", withheld, err)
	breakers, err := s.ListBreakers(ctx)
	add("breakers", breakers, err)
	schedules, err := s.ListSchedules(ctx, "")
	add("schedules", schedules, err)
	facts, err := s.Identify(ctx, nil)
	add("facts", facts, err)
	removed, err := s.ListRemoved(ctx)
	add("removed", removed, err)
	selections, err := s.ListSelections(ctx, "")
	add("selections", selections, err)
	return out
}

func TestCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	from, err := storeopen.Open(t.Context(), path, nil, quiet())
	if err != nil {
		t.Fatal(err)
	}
	fill(t, from)
	want := shown(t, from)
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	url := server.Database(t)
	tables, err := storeopen.Copy(t.Context(), path, url, quiet())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tables {
		// What Use has removed again.
		if f.Rows == 0 && f.Table != "proxies" && f.Table != "hosts" {
			t.Errorf("no row of %s was copied: the test proves nothing about it", f.Table)
		}
	}
	to := open(t, url)
	if d := cmp.Diff(want, shown(t, to)); d != "" {
		t.Errorf("what is shown after the copy (-before +after):\n%s", d)
	}
	// The copied items are due, and new rows do not meet old ones.
	leased, err := to.LeaseItems(t.Context(), time.Now(), time.Now().Add(time.Hour), 1000)
	if due := 301 + store.KeptRevisions + 2; err != nil || len(leased) != due { // all but 300 of them are of Use
		t.Errorf("%d items are due, want %d; error %v", len(leased), due, err)
	}
	request := store.Request{
		Op: process.Stop, Process: process.ID{Namespace: "ns", Name: odd},
		Targets: []store.Target{{ItemKey: "k", Agent: "agent0"}, {ItemKey: "l", Agent: "new"}},
	}
	err = errors.Join(
		storetest.Create(t.Context(), to, &store.Task{ID: "new", Created: time.Now(), Requests: []store.Request{request}},
			store.AuditRow{}),
		to.PutObserved(t.Context(), store.ReportMark{Agent: "new"},
			[]store.Observed{{Agent: "new", Status: process.Status{Revision: 1}, Spec: &process.Spec{}}}, nil),
	)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := to.PutEvents(t.Context(), "agent0", time.Now(),
		storetest.NewEvents(process.Event{Stream: "more", Seq: 1},
			process.Event{Stream: "more", Seq: 2})); n != 1 || err != nil {
		t.Errorf("%d events are new, want the second of two; error %v", n, err)
	}
	leased, err = to.LeaseItems(t.Context(), time.Now(), time.Now().Add(time.Hour), 1000)
	if err != nil || len(leased) != 1 || leased[0].Agent != "new" {
		t.Errorf("%v are due, want that of the new agent, as the other has an older one; error %v", leased, err)
	}
	if _, err := storeopen.Copy(t.Context(), path, url, quiet()); err == nil ||
		!strings.Contains(err.Error(), "not empty") {
		t.Errorf("copied into what is not empty: %v", err)
	}
}

// TestCopyIsAllOrNothing: of a copy that fails nothing is left, and the next one succeeds.
func TestCopyIsAllOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	from, err := storeopen.Open(t.Context(), path, nil, quiet())
	if err != nil {
		t.Fatal(err)
	}
	fill(t, from)
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	url := server.Database(t)
	to := open(t, url)
	agents := func() int {
		list, err := to.ListAgents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	name := url[strings.Index(url, "/test")+1 : strings.Index(url, "?")]
	refuse := func(statement string) {
		t.Helper()
		if err := server.ExecIn(name, statement); err != nil {
			t.Fatal(err)
		}
	}
	refuse("ALTER TABLE receivers ADD CONSTRAINT none CHECK (name = '')") // the last table
	if _, err := storeopen.Copy(t.Context(), path, url, quiet()); err == nil ||
		!strings.Contains(err.Error(), "receivers") {
		t.Errorf("error is %v", err)
	}
	if n := agents(); n != 0 {
		t.Errorf("%d agents are left of a copy that failed", n)
	}
	refuse("ALTER TABLE receivers DROP CONSTRAINT none")
	if _, err := storeopen.Copy(t.Context(), path, url, quiet()); err != nil {
		t.Fatal(err)
	}
	if agents() == 0 {
		t.Error("nothing was copied")
	}
}

// TestSchemasAreTheSame: the databases have the same tables, columns and version, so that what is added to one is added
// to the other.
func TestSchemasAreTheSame(t *testing.T) {
	path, url := filepath.Join(t.TempDir(), "drover.db"), server.Database(t)
	if err := errors.Join(open(t, path).Close(), open(t, url).Close()); err != nil {
		t.Fatal(err)
	}
	var file, shared []string
	err := sqlite.Read(t.Context(), path, quiet(), func(from sqldb.Source) error {
		tables, err := from.Tables(t.Context())
		for _, table := range tables {
			for _, column := range table.Columns {
				file = append(file, table.Name+"."+column)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // the test is over
	rows, err := c.Query(t.Context(), `SELECT table_name || '.' || column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name NOT IN ('schema_version', 'ping', 'leases', 'servers', 'hubs')`)
	if err == nil {
		shared, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(file)
	slices.Sort(shared)
	if d := cmp.Diff(file, shared); d != "" {
		t.Errorf("columns (-SQLite +PostgreSQL):\n%s", d)
	}
}

func TestCopyOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.db")
	if _, err := storeopen.Copy(t.Context(), path, server.Database(t), quiet()); err == nil {
		t.Error("a file that is not there was copied")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the source was made")
	}
}

func TestBackup(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "drover.db"), filepath.Join(dir, "copy.db")
	s := open(t, path)
	fill(t, s)
	if err := storeopen.Backup(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(to)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy is %v; error %v", info.Mode(), err)
	}
	want := shown(t, s)
	if err := s.CreateUser(t.Context(), store.User{Name: "later"}); err != nil { // the server goes on
		t.Fatal(err)
	}
	copied := open(t, to)
	if data, err := copied.GetPiece(t.Context(), "1", "amd64", 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the copy has the program of a package: %q, %v", data, err)
	}
	// The description of the package is there, so that the program can be added again.
	list, err := copied.ListPackages(t.Context())
	if err != nil || len(list) != 1 || len(list[0].Pieces) != 0 {
		t.Fatalf("the packages of the copy are %+v: %v", list, err)
	}
	if err := copied.PutPiece(t.Context(), list[0], 0, want["piece"].([]byte)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, shown(t, copied)); d != "" {
		t.Errorf("what the copy shows (-then +copy):\n%s", d)
	}
	if err := storeopen.Backup(t.Context(), path, to); err == nil {
		t.Error("a file that is there was written over")
	}
	if err := storeopen.Backup(t.Context(), filepath.Join(dir, "none.db"), filepath.Join(dir, "c")); err == nil {
		t.Error("nothing was copied without an error")
	}
	if _, err := os.Stat(filepath.Join(dir, "c")); err == nil {
		t.Error("a copy that failed is left")
	}
}

// TestWait: a server that starts before its database goes on once that is there.
func TestWait(t *testing.T) {
	own := pgtest.Own(t)
	told := make(chan error, 100)
	started := make(chan error, 1)
	go func() {
		if err := <-told; err != nil { // it waits
			started <- own.Start()
			return
		}
		started <- errors.New("it was told of no error")
	}()
	s, err := storeopen.Wait(t.Context(), own.URL("postgres"), nil, quiet(), func(err error) { told <- err })
	if err := errors.Join(err, <-started); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Ping(t.Context()), s.Close()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = storeopen.Wait(ctx, "postgres://127.0.0.1:1/x", nil, quiet(), func(error) { cancel() })
	if !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrAway) {
		t.Errorf("a wait that was given up: %v", err)
	}
	_, err = storeopen.Wait(t.Context(), own.URL("none"), nil, quiet(),
		func(err error) { t.Error("it is waited for", err) })
	if err == nil {
		t.Error("a database that nobody has made was opened")
	}
}

// TestOneLineOfTheSchema: a new database is made with one line in the log, and opened again with none.
func TestOneLineOfTheSchema(t *testing.T) {
	for name, url := range map[string]string{
		"SQLite":     filepath.Join(t.TempDir(), "drover.db"),
		"PostgreSQL": server.Database(t),
	} {
		t.Run(name, func(t *testing.T) {
			for _, want := range []int{1, 0} {
				var log strings.Builder
				s, err := storeopen.Open(t.Context(), url, nil, slog.New(slog.NewTextHandler(&log, nil)))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if got := strings.Count(log.String(), "schema"); got != want {
					t.Errorf("%d lines tell of the schema, want %d:\n%s", got, want, log.String())
				}
			}
		})
	}
}
