package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"drover/internal/process"
	"drover/internal/server/store"
)

// BenchmarkCounts counts 100,000 processes, as a look at the metrics does.
func BenchmarkCounts(b *testing.B) {
	db := open(b, filepath.Join(b.TempDir(), "drover.db"))
	for agent := range 100 {
		rows := make([]store.Observed, 1000)
		for i := range rows {
			rows[i] = store.Observed{
				Agent: fmt.Sprint("a", agent), Process: process.ID{Namespace: "ns", Name: fmt.Sprint("p", i)},
				Status: process.Status{
					Known: true, State: "running", Hosted: true, Usage: &process.Usage{},
					Health: &process.Answer{OK: true, Text: "fine"},
				},
			}
		}
		if err := db.PutObserved(b.Context(), store.ReportMark{}, rows, nil); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := db.Counts(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
