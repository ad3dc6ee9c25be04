package postgres_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/postgres"
	"drover/internal/server/store/storetest"
	"drover/internal/test/pgtest"
)

// durable starts a server of its own whose commits wait for the disk, as in production, and opens a database there.
func durable(b *testing.B) *postgres.DB {
	b.Helper()
	s, err := pgtest.New("fsync=on", "synchronous_commit=on", "full_page_writes=on", "autovacuum=on")
	if err == nil {
		err = s.Start()
	}
	b.Cleanup(func() {
		if err := s.Remove(); err != nil {
			b.Error(err)
		}
	})
	check(b, err)
	return open(b, s.Database(b))
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func agents(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("UA%054d", i)
	}
	return list
}

// BenchmarkCreateTask stores a task of many items.
func BenchmarkCreateTask(b *testing.B) {
	for _, n := range []int{1, 1000, 30_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db, hosts, i := durable(b), agents(n), 0
			for b.Loop() {
				i++
				check(b, storetest.Create(b.Context(), db, taskFor(fmt.Sprint(i), fmt.Sprint(i), hosts...),
					store.AuditRow{At: time.Now()}))
			}
		})
	}
}

// BenchmarkTaskItems polls a task of 30,000 items.
func BenchmarkTaskItems(b *testing.B) {
	db := durable(b)
	check(b, storetest.Create(b.Context(), db, taskFor("t", "p", agents(30_000)...), store.AuditRow{At: time.Now()}))
	for b.Loop() {
		check(b, db.TaskItems(b.Context(), "t", "", func(store.ItemView) error { return nil }))
	}
}

// BenchmarkRollouts measures a rollout over 10,000 hosts.
func BenchmarkRollouts(b *testing.B) { storetest.Rollouts(b, durable(b)) }

// BenchmarkItemLife measures items from the lease to the outcome.
func BenchmarkItemLife(b *testing.B) { storetest.ItemLife(b, durable(b), 32) }

// BenchmarkReportLife measures reports of agents.
func BenchmarkReportLife(b *testing.B) { storetest.ReportLife(b, durable(b), 32) }

// BenchmarkEvents stores single events of many agents at a time.
func BenchmarkEvents(b *testing.B) {
	db := durable(b)
	var number atomic.Int64
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		stream := fmt.Sprint(number.Add(1))
		seq := uint64(0)
		for pb.Next() {
			seq++
			_, err := db.PutEvents(b.Context(), stream, time.Now(),
				storetest.NewEvents(process.Event{Stream: stream, Seq: seq, Kind: process.EventExited}))
			check(b, err)
		}
	})
}
