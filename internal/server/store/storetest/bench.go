package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// ItemLife takes single items from the lease to the outcome, many at the same time as agents would. It measures the
// cost of an item when commits are shared. together is the number of concurrent items for each processor.
func ItemLife(b *testing.B, s store.Store, together int) {
	b.Helper()
	const n = 10_000 // in a task
	agents := make([]string, n)
	for i := range agents {
		agents[i] = fmt.Sprintf("UA%054d", i)
	}
	var items []store.Item
	for i := range b.N/n + 1 {
		name := fmt.Sprint(i)
		create(b, s, name, request(process.Start, name, agents...))
		items = append(items, lease(b, s, epoch, n)...)
	}
	var next atomic.Int64
	b.SetParallelism(together)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			it := items[next.Add(1)-1]
			must(b, s.MarkAccepted(b.Context(), []string{it.ID}, time.Time{}))
			must(b, s.Begin(b.Context(), it.Agent, map[string]time.Time{it.ID: at(time.Hour)}))
			_, err := s.Finish(b.Context(),
				Reported(it.Agent, map[string]process.Outcome{it.ID: {Text: process.Success}}))
			must(b, err)
		}
	})
}
