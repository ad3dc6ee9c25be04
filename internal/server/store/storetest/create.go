package storetest

import (
	"context"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// Create stores a task without a lease on any of its items.
func Create(ctx context.Context, s store.Tasks, t *store.Task, row store.AuditRow) error {
	_, err := s.CreateTask(ctx, t, row, time.Time{}, 0)
	return err
}

// Reported returns outcomes by item as outcomes that one agent has reported.
func Reported(agent string, outcomes map[string]process.Outcome) []store.ReportedOutcome {
	reported := make([]store.ReportedOutcome, 0, len(outcomes))
	for item, outcome := range outcomes {
		reported = append(reported, store.ReportedOutcome{Agent: agent, Item: item, Outcome: outcome})
	}
	return reported
}
