package sqlite_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// BenchmarkStates walks the states of 1,000 hosts with 5 processes of 20 records each: all of them at a moment, and
// those that have changed in a minute of few changes.
func BenchmarkStates(b *testing.B) {
	const hosts, processes, records = 1000, 5, 20
	db := open(b, b.TempDir()+"/drover.db")
	begun := time.Now().Add(-time.Hour)
	for h := range hosts {
		var events []store.NewEvent
		for n := range processes * records {
			e := process.Event{
				Stream: "run", Seq: uint64(n + 1), At: begun.Add(time.Duration(n/processes) * time.Minute).UnixMilli(),
				Kind: process.EventState, Process: process.ID{Namespace: "ns", Name: fmt.Sprint("p", n%processes)},
				Shown: &process.Shown{State: process.StateRunning, PID: n + 1, Text: "pid 814 exited with status 1"},
			}
			body, err := json.Marshal(e)
			if err != nil {
				b.Fatal(err)
			}
			events = append(events, store.NewEvent{Event: e, Body: string(body)})
		}
		if _, err := db.PutEvents(b.Context(), fmt.Sprint("agent", h), begun, events); err != nil {
			b.Fatal(err)
		}
	}
	walk := func(b *testing.B, page func(after store.ObservedKey) (rows []store.RecordedState, more bool)) (n int) {
		b.Helper()
		var after store.ObservedKey
		for more := true; more; {
			var rows []store.RecordedState
			if rows, more = page(after); len(rows) > 0 {
				after = store.ObservedKey{Agent: rows[len(rows)-1].Agent, Process: rows[len(rows)-1].Process}
			}
			n += len(rows)
		}
		return n
	}
	b.Run("at", func(b *testing.B) {
		for b.Loop() {
			n := walk(b, func(after store.ObservedKey) ([]store.RecordedState, bool) {
				rows, more, err := db.StatesAt(b.Context(), store.ObservedFilter{}, begun.Add(10*time.Minute), after, 1000)
				if err != nil {
					b.Fatal(err)
				}
				return rows, more
			})
			if n != hosts*processes {
				b.Fatal(n)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/(hosts*processes), "µs/process")
	})
	b.Run("between", func(b *testing.B) {
		for b.Loop() {
			for after := (store.ObservedKey{}); ; {
				rows, next, err := db.StatesBetween(b.Context(), store.ObservedFilter{}, begun.Add(time.Hour),
					begun.Add(61*time.Minute), after, 2000)
				if err != nil || len(rows) > 0 {
					b.Fatal(len(rows), err)
				}
				if after = next; next == (store.ObservedKey{}) {
					break
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/(hosts*processes), "µs/process")
	})
}
