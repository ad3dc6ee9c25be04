package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/rollout"
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

// Rollouts measures what a rollout over many hosts costs: its creation, a look at it, a change of all hosts, and a look
// at their processes.
func Rollouts(b *testing.B, s store.Store) {
	b.Helper()
	const n = 10_000
	hosts, agents := make([]rollout.Host, n), make([]string, n)
	for i := range hosts {
		agents[i] = fmt.Sprintf("UA%054d", i)
		hosts[i] = rollout.Host{Agent: agents[i], Name: fmt.Sprint("0:10.0.", i/256, ".", i%256), Steps: []int{0}}
	}
	web := process.ID{Namespace: "shop", Name: "web"}
	for _, agent := range agents {
		must(b, s.PutObserved(b.Context(), store.ReportMark{}, []store.Observed{{
			Agent: agent, Process: web, Status: process.Status{Known: true, State: process.StateRunning}, Spec: &process.Spec{},
		}}, nil))
	}
	made := 0
	create := func(b *testing.B) string {
		b.Helper()
		made++
		r := newRollout(fmt.Sprint("ro-", made), fmt.Sprint("web", made))
		r.Steps[0].Process.Name = fmt.Sprint("web", made)
		r.Rollout, r.Total = rollout.New(r.Plan, time.Time{}, hosts), n
		must(b, createRollout(b.Context(), s, r, store.AuditRow{}))
		return r.ID
	}
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			create(b)
		}
	})
	id := create(b)
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			_, err := s.GetRollout(b.Context(), id, "")
			must(b, err)
		}
	})
	b.Run("change", func(b *testing.B) {
		for b.Loop() {
			_, err := s.ChangeRollout(b.Context(), id, "", func(r *rollout.Rollout) error {
				for i := range r.Hosts {
					r.Hosts[i].Batch++
				}
				return nil
			})
			must(b, err)
		}
	})
	b.Run("processes", func(b *testing.B) {
		for b.Loop() {
			must(b, s.GetObserved(b.Context(), web, agents, func(store.Observed) error { return nil }))
		}
	})
}
