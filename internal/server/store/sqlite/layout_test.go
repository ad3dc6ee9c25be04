package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/store/storetest"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/store"
)

// TestRequestsShareASpec stores requests with the same spec, others and none: each item gets its own, and no text is
// stored twice.
func TestRequestsShareASpec(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	db := open(t, path)
	spec := func(start string) *process.Spec { return &process.Spec{Start: start, Compat: &v1.Compat{}} }
	shared := spec("a")
	specs := []*process.Spec{nil, shared, shared, spec("b"), spec("a"), nil, spec("b")}
	for _, id := range []string{"first", "second"} { // the numbers of the second are not those of its places
		task := &store.Task{ID: id, App: "app", Created: time.Now()}
		for i, s := range specs {
			name := fmt.Sprintf("%s-%d", id, i)
			task.Requests = append(task.Requests, store.Request{
				Op: process.Query, Process: process.ID{Namespace: "ns", Name: name}, Spec: s,
				Targets: []store.Target{{ItemKey: name, Spelling: "x", Agent: "x"}},
			})
		}
		if err := storetest.Create(t.Context(), db, task, store.AuditRow{At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	items, err := db.LeaseItems(t.Context(), time.Now(), time.Now().Add(time.Hour), 100)
	if err != nil || len(items) != 2*len(specs) {
		t.Fatalf("%d items are due, want %d; error %v", len(items), 2*len(specs), err)
	}
	for i, it := range items {
		if diff := cmp.Diff(specs[i%len(specs)], it.Spec); diff != "" {
			t.Errorf("%s:\n%s", it.Process, diff)
		}
	}
	var texts int
	if err := beside(t, path).QueryRowContext(t.Context(),
		`SELECT count(spec) FROM requests`).Scan(&texts); err != nil || texts != 4 {
		t.Errorf("%d specs are stored, want 4; error %v", texts, err)
	}
}
