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
	// receiptDelay is how long a receipt waits for others before it is stored with them. An item that finishes sooner,
	// such as a query, saves that write. The delay must be far shorter than leaseSlack, because until the write only
	// the lease prevents a resend.
	receiptDelay = 50 * time.Millisecond
	// receiptBatch is how many receipts one write stores.
	receiptBatch = 1000
)

// receipts are the items that agents have journalled and that the store does not show as accepted yet. If the engine
// dies, the next engine resends those items, and each agent answers again with what it has.
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

// add records that an agent has the items.
func (r *receipts) add(ids []string) {
	r.mu.Lock()
	for _, id := range ids {
		r.ids[id] = true
	}
	r.mu.Unlock()
	r.wake.raise()
}

// settled drops an item of which the store knows more than its receipt.
func (r *receipts) settled(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ids, id)
}

// run stores receipts until the context ends.
func (r *receipts) run(ctx context.Context) {
	for ctx.Err() == nil {
		r.wake.wait(ctx, nil)
		idle.Sleep(ctx, receiptDelay)
		r.write(ctx)
	}
}

// write stores all receipts. It only logs a failure: the end of the lease makes the items due again.
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
