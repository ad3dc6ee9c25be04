package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"drover/internal/idle"
)

const (
	// receiptDelay is how long a receipt waits to be written down, with those that come meanwhile. What is finished
	// before that, as a question is, costs one write less. It has to be far shorter than leaseSlack, because until then
	// the lease keeps an item from being sent again.
	receiptDelay = 50 * time.Millisecond
	// receiptBatch is how many are written at once.
	receiptBatch = 1000
)

// receipts are the items that agents have in their journals, and that are not known to be so in the store. Should the
// engine die, those items are sent once more, and each agent says again what it has.
type receipts struct {
	store Store
	log   *slog.Logger
	wake  signal

	mu  sync.Mutex
	ids map[string]bool
}

func newReceipts(c Config) *receipts {
	return &receipts{store: c.Store, log: c.Log, wake: newSignal(), ids: map[string]bool{}}
}

// add notes that an agent has the items.
func (r *receipts) add(ids []string) {
	r.mu.Lock()
	for _, id := range ids {
		r.ids[id] = true
	}
	r.mu.Unlock()
	r.wake.raise()
}

// settled notes that the store knows more of an item than its receipt.
func (r *receipts) settled(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ids, id)
}

// run writes receipts down until the context ends.
func (r *receipts) run(ctx context.Context) {
	for ctx.Err() == nil {
		r.wake.wait(ctx, nil)
		idle.Sleep(ctx, receiptDelay)
		r.write(ctx)
	}
}

// write writes down all there are. A failure is only logged: the lease brings the items back.
func (r *receipts) write(ctx context.Context) {
	r.mu.Lock()
	ids := slices.Collect(maps.Keys(r.ids))
	clear(r.ids)
	r.mu.Unlock()
	for batch := range slices.Chunk(ids, receiptBatch) {
		if err := r.store.MarkAccepted(context.WithoutCancel(ctx), batch, time.Time{}); err != nil {
			r.log.ErrorContext(ctx, "cannot store receipts", "items", len(batch), "error", err)
		}
	}
}
