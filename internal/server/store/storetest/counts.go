//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

func figures(t *testing.T, s store.Store) {
	got, err := s.Counts(t.Context())
	must(t, err)
	same(t, "figures of nothing", store.Counts{Processes: map[string]int{}, Items: map[task.State]int{}}, got)

	row := func(name string, status process.Status) store.Observed {
		return store.Observed{Agent: "x", Process: process.ID{Namespace: "ns", Name: name}, Status: status}
	}
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{
		row("a", process.Status{State: "running", Hosted: true}),
		row("b", process.Status{State: "running", Flapping: true, Hosted: true}),
		row("c", process.Status{State: "running", Health: &process.Answer{Bad: true}}),
		row("d", process.Status{
			State: "running", Health: &process.Answer{OK: true},
			Config: []process.Drift{{Path: "/x"}},
		}),
		row("e", process.Status{State: "given-up"}),
	}, nil))
	must(t, Create(t.Context(), s, &store.Task{
		ID: "t", Created: epoch,
		Requests: []store.Request{{
			Op: process.Stop, Process: process.ID{Namespace: "ns", Name: "a"},
			Targets: []store.Target{
				{Key: "x", Agent: "x"},
				{Key: "y", Agent: "y"},
				{Key: "z", Outcome: &process.Outcome{Fault: process.AgentUnavailable}},
			},
		}},
	}, store.AuditRow{At: epoch}))
	items, err := s.LeaseItems(t.Context(), epoch, at(1), 1)
	must(t, err)
	must(t, s.MarkAccepted(t.Context(), []string{items[0].ID}, time.Time{}))
	got, err = s.Counts(t.Context())
	must(t, err)
	same(t, "figures", store.Counts{
		Processes: map[string]int{"running": 4, "given-up": 1}, Hosted: 2, Flapping: 1, Unhealthy: 1, Drifted: 1,
		Items: map[task.State]int{task.Pending: 1, task.Accepted: 1},
	}, got)
}
