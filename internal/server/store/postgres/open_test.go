package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/server/store/storetest"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/postgres"
	"drover/internal/test/pgtest"
)

// openFails returns why a database cannot be opened, and fails if the error or the log tells the secret.
func openFails(t *testing.T, url string) error {
	t.Helper()
	var log strings.Builder
	db, err := postgres.Open(t.Context(), url,
		slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err == nil {
		t.Fatalf("it was opened; closed: %v", db.Close())
	}
	if strings.Contains(err.Error()+log.String(), "secret") {
		t.Errorf("the secret is told: %v\n%s", err, &log)
	}
	return err
}

func TestOpenedByManyAtOnce(t *testing.T) {
	url := server.Database(t)
	var log strings.Builder
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			var own strings.Builder
			db, err := postgres.Open(t.Context(), url, slog.New(slog.NewTextHandler(&own, nil)))
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(db.Ping(t.Context()), db.Close()); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			log.WriteString(own.String())
		})
	}
	wg.Wait()
	if n := strings.Count(log.String(), " version=1\n"); n != 1 {
		t.Errorf("the schema was made %d times:\n%s", n, &log)
	}
}

func TestNewerSchema(t *testing.T) {
	url := server.Database(t)
	if err := open(t, url).Close(); err != nil {
		t.Fatal(err)
	}
	exec(t, url, "UPDATE schema_version SET version = 999")
	err := openFails(t, url)
	if errors.Is(err, store.ErrAway) || !strings.Contains(err.Error(), "version 999") ||
		!strings.Contains(err.Error(), "newer drover") {
		t.Errorf("the error does not say why: %v", err)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	latin := server.Database(t)
	name := latin[strings.Index(latin, "/test")+1 : strings.Index(latin, "?")]
	if err := errors.Join(server.Exec("DROP DATABASE "+name),
		server.Exec("CREATE DATABASE "+name+" TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, want string
		wait      bool
	}{
		{"postgres://drover:secret@127.0.0.1:1/x", "cannot open database postgres://127.0.0.1:1/x", true},
		{"postgres://drover:secret@/x?host=" + t.TempDir(), "cannot open database", true},
		{strings.Replace(server.URL("none"), "drover@", "drover:secret@", 1), `database "none" does not exist`, false},
		{strings.Replace(server.URL("none"), "drover@", "nobody:secret@", 1), "", false},
		{latin, "its encoding is LATIN1", false},
		{"postgres://drover:se%secret@h/x", "not shown", false},
		{"postgres://drover:secret@h:port/x", "not shown", false},
		{"postgres://drover@h/x?sslmode=secret", "not shown", false},
	} {
		err := openFails(t, c.url)
		if !strings.Contains(err.Error(), c.want) || errors.Is(err, store.ErrAway) != c.wait {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

// TestOrderIsThatOfBytes: the language of the database does not count.
func TestOrderIsThatOfBytes(t *testing.T) {
	const name = "in_words"
	err := errors.Join(server.Exec("DROP DATABASE IF EXISTS "+name),
		server.Exec("CREATE DATABASE "+name+" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en' LOCALE 'C.UTF-8'"))
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, server.URL(name))
	names := []string{"A-b", "B", "_x", "a b", "a-b", "a_b", "ab", "\u00e4"}
	for i := range names {
		row := store.Observed{Agent: "x", Process: process.ID{Namespace: "ns", Name: names[len(names)-1-i]}}
		if err := db.PutObserved(t.Context(), store.ReportMark{Agent: "x"}, []store.Observed{row}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	var after store.ObservedKey
	for range names { // page by page, each a comparison with the last
		rows, _, err := db.ListObserved(t.Context(), store.ObservedFilter{}, after, 1)
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		after = store.ObservedKey{Agent: "x", Process: rows[0].Process}
		got = append(got, rows[0].Process.Name)
	}
	if d := cmp.Diff(names, got); d != "" {
		t.Error(d)
	}
	rows, _, err := db.ListObserved(t.Context(), store.ObservedFilter{Name: "a_*"}, store.ObservedKey{}, 10)
	if err != nil || len(rows) != 1 || rows[0].Process.Name != "a_b" {
		t.Errorf("a_* are %v; error %v", rows, err)
	}
}

// TestPingEndsWithItsContext: readiness is answered also while the database hangs.
func TestPingEndsWithItsContext(t *testing.T) {
	url := fresh()(t)
	db := open(t, url)
	release := hold(t, url, "LOCK TABLE ping")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ping of a database that hangs: %v", err)
	}
	release()
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("ping afterwards: %v", err)
	}
}

// TestServerIsRestarted: what was stored is there, and the connections come back by themselves.
func TestServerIsRestarted(t *testing.T) {
	own := pgtest.Own(t, "synchronous_commit=on")
	if err := errors.Join(own.Start(), own.Exec("CREATE DATABASE d")); err != nil {
		t.Fatal(err)
	}
	db := open(t, own.URL("d"))
	use := func(id string) error {
		var wg sync.WaitGroup
		errs := make([]error, 10) // over several connections
		for i := range errs {
			wg.Go(func() {
				if errs[i] = storetest.Create(t.Context(), db, taskFor(fmt.Sprint(id, i), "p", "a"),
					store.AuditRow{}); errs[i] == nil {
					_, errs[i] = db.ListAgents(t.Context())
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	if err := use("before"); err != nil {
		t.Fatal(err)
	}
	for round, end := range []func() error{own.Stop, own.Crash} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := db.Ping(t.Context()); !errors.Is(err, store.ErrAway) {
			t.Fatalf("a write to a database that is not there: %v", err)
		}
		if _, err := db.ListAgents(t.Context()); !errors.Is(err, store.ErrAway) {
			t.Errorf("a read from a database that is not there: %v", err)
		}
		if err := openFails(t, own.URL("d")); !errors.Is(err, store.ErrAway) {
			t.Errorf("a database that is not there: %v", err)
		}
		if err := own.Start(); err != nil {
			t.Fatal(err)
		}
		if err := use(fmt.Sprint("after", round)); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
	tasks, err := db.ListTasks(t.Context(), store.TaskFilter{}, 0, 100)
	if err != nil || len(tasks) != 30 {
		t.Errorf("%d tasks are stored, want 30; error %v", len(tasks), err)
	}
}
