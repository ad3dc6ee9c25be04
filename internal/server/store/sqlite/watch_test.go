package sqlite_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"drover/internal/server/store/storetest"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
)

// watch writes down what it hears, without the times.
type watch struct {
	mu    sync.Mutex
	heard []string
}

func (w *watch) hear(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, fmt.Sprintf(format, args...))
}

func (w *watch) Wrote(writes int, took time.Duration, err error) {
	w.hear("wrote %d %v %v", writes, took > 0, err)
}

func (w *watch) Ended(op process.Op, fault process.Fault, took time.Duration) {
	w.hear("ended %s %q %v", op, fault, took >= time.Minute)
}

func (w *watch) Happened(kind process.EventKind, delay time.Duration) {
	w.hear("happened %s %s", kind, delay)
}

func (w *watch) Audited(rows int) { w.hear("audited %d", rows) }

// said returns what was heard since it was last asked, but the writes of a transaction each.
func (w *watch) said() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := slices.DeleteFunc(w.heard, func(s string) bool { return s == "wrote 1 true <nil>" })
	w.heard = nil
	return said
}

// TestWatch: what is told is what was stored, each once.
func TestWatch(t *testing.T) {
	w := &watch{}
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler),
		sqlite.WatchedBy(w))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	want := func(what string, want ...string) {
		t.Helper()
		if d := cmp.Diff(want, w.said()); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	w.said()
	task := &store.Task{ID: "t", Created: time.Now().Add(-time.Hour), Requests: []store.Request{{
		Op: process.Stop, Process: process.ID{Namespace: "n", Name: "p"},
		Targets: []store.Target{
			{ItemKey: "a", Agent: "a"},
			{ItemKey: "b", Outcome: &process.Outcome{Fault: process.AgentUnavailable}},
		},
	}}}
	must(t, storetest.Create(t.Context(), db, task, store.AuditRow{At: time.Now()}))
	want("task", "audited 1", `ended stop "agent-unavailable" true`)
	items, err := db.LeaseItems(t.Context(), time.Now(), time.Now().Add(time.Minute), 10)
	must(t, err)
	for range 2 { // the second has nothing left to finish
		_, err = db.Finish(t.Context(),
			storetest.Reported("", map[string]process.Outcome{items[0].ID: {Fault: process.CheckFailed}}))
		must(t, err)
	}
	want("outcome", `ended stop "check-failed" true`)
	at := time.UnixMilli(1_795_170_631_870)
	events := storetest.NewEvents(
		process.Event{Stream: "s", Seq: 1, At: at.UnixMilli(), Kind: process.EventExited},
		process.Event{Stream: "s", Seq: 2, At: at.Add(time.Hour).UnixMilli(), Kind: process.EventRelaunched},
	)
	for range 2 {
		_, err = db.PutEvents(t.Context(), "a", at.Add(time.Second), events)
		must(t, err)
	}
	want("events", "happened exited 1s", "happened relaunched 0s")
	must(t, db.PutAudit(t.Context(), store.AuditRow{At: at}, store.AuditRow{At: at}))
	want("audit", "audited 2")
	if err := db.CreateApp(t.Context(), store.App{Code: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := db.CreateApp(t.Context(), store.App{Code: "a"}); !errors.Is(err, store.ErrExists) {
		t.Fatal(err)
	}
	want("a failed write", "wrote 1 true already exists")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
