package engine

import (
	"context"

	"drover/internal/server/batch"
	"drover/internal/server/store"
)

// outcomeBatch is how many outcomes are stored at once, unless a single agent reports more.
const outcomeBatch = 1000

// outcomes stores the outcomes that agents report.
type outcomes struct {
	writer *batch.Writer[store.ReportedOutcome]
	// finished is called with the tasks of the items that have just got their outcome.
	finished func(tasks []string)
}

func newOutcomes(s Store, finished func(tasks []string)) *outcomes {
	return &outcomes{
		finished: finished,
		writer: batch.New(outcomeBatch, func(ctx context.Context, given []store.ReportedOutcome) error {
			tasks, err := s.Finish(ctx, given)
			if err == nil {
				finished(tasks)
			}
			return err
		}),
	}
}

// put returns when the outcomes are on disk, or could not be stored.
func (o *outcomes) put(ctx context.Context, given []store.ReportedOutcome) error {
	return o.writer.Put(ctx, given)
}
