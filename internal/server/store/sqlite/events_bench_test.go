package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/storetest"
)

// BenchmarkEvents works on a million events of 1,000 processes on 100 hosts.
func BenchmarkEvents(b *testing.B) {
	const many, batch = 1_000_000, 500
	db := open(b, filepath.Join(b.TempDir(), "drover.db"))
	ctx := b.Context()
	report := func(n int) []store.NewEvent {
		events := make([]process.Event, batch)
		for i := range events {
			events[i] = process.Event{
				Stream: "0123456789abcdef", Seq: uint64(n*batch + i + 1), At: int64(n*batch + i),
				Kind: process.EventExited, PID: i,
				Process: process.ID{Namespace: "ns", Name: fmt.Sprint("process-", i)}, From: "running", To: "backoff",
				Cause: process.Cause{ID: process.CauseExitStatus, Text: "it ended with exit status 1 after 12 s"},
			}
		}
		return storetest.NewEvents(events...)
	}
	put := func(n int) {
		if _, err := db.PutEvents(ctx, fmt.Sprintf("UA%054d", n%100), time.Now(), report(n)); err != nil {
			b.Fatal(err)
		}
	}
	begun := time.Now()
	for n := range many / batch {
		put(n)
	}
	b.Logf("%d events a second", int(many/time.Since(begun).Seconds()))
	n := many / batch
	b.Run("put 500", func(b *testing.B) {
		for b.Loop() {
			put(n)
			n++
		}
	})
	for name, f := range map[string]store.EventFilter{
		"latest":          {},
		"process":         {Namespaces: []string{"ns"}, Name: "process-7"},
		"host":            {Agents: []string{fmt.Sprintf("UA%054d", 7)}},
		"kind":            {Kinds: []process.EventKind{process.EventExited}},
		"nothing, a step": {Namespaces: []string{"none"}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := db.EventsBefore(ctx, store.EventMark{}, f, 100); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("after", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := db.EventsAfter(ctx, many/2, store.EventFilter{}, 100); err != nil {
				b.Fatal(err)
			}
		}
	})
}
