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

	// begun is called when deadlines have changed.
	begun func()

	mu sync.Mutex
	// items has the deadlines of the items that have begun; zero for the others.
	items map[string]time.Time
}

func newReceipts(c Config, begun func()) *receipts {
	return &receipts{store: c.Store, log: c.Log, wake: newSignal(), begun: begun, items: map[string]time.Time{}}
}

// add records that an agent has the items, with the deadlines of those that have begun; zero for the others.
func (r *receipts) add(items map[string]time.Time) {
	r.mu.Lock()
	maps.Copy(r.items, items)
	r.mu.Unlock()
	r.wake.raise()
}

// drop drops an item of which the store knows more than its receipt.
func (r *receipts) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.items, id)
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
	items := r.items
	r.items = map[string]time.Time{}
	r.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	var accepted []string
	begun := map[string]time.Time{}
	for id, deadline := range items {
		if deadline.IsZero() {
			accepted = append(accepted, id)
			continue
		}
		if begun[id] = deadline; len(begun) == receiptBatch {
			r.begin(ctx, begun)
			begun = map[string]time.Time{}
		}
	}
	if len(begun) > 0 {
		r.begin(ctx, begun)
	}
	for batch := range slices.Chunk(accepted, receiptBatch) {
		r.wrote(ctx, len(batch), r.store.MarkAccepted(ctx, batch, time.Time{}))
	}
}

func (r *receipts) begin(ctx context.Context, deadlines map[string]time.Time) {
	const anyAgent = ""
	r.wrote(ctx, len(deadlines), r.store.Begin(ctx, anyAgent, deadlines))
	r.begun()
}

func (r *receipts) wrote(ctx context.Context, items int, err error) {
	if err != nil {
		r.log.ErrorContext(ctx, "cannot store receipts", "items", items, "error", err)
	}
}
