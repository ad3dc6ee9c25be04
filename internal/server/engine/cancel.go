package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/task"
	"drover/internal/wire"
)

// Cancel ends the items of a task that have not begun, and returns what happened to the items. An item that an agent may
// have ends when the agent has answered that it never begins; Cancel does not wait for that.
func (e *Engine) Cancel(ctx context.Context, id, app string) (store.Cancelled, error) {
	c, err := e.store.CancelTask(ctx, id, app, e.clock.now())
	if err != nil {
		return c, err
	}
	if c.Ended > 0 {
		e.finished([]string{id})
	}
	e.dispatch.wake.raise()
	return c, nil
}

// cancel tells agents which orders must not begin, and returns when the next agents must be told; zero if there are none.
func (d *dispatcher) cancel(ctx context.Context, sends *sync.WaitGroup) (next time.Time, err error) {
	for {
		now := d.clock.now()
		items, next, err := d.store.LeaseCancels(ctx, now, now.Add(d.lease), leaseBatch)
		if err != nil || len(items) == 0 || ctx.Err() != nil {
			return next, err
		}
		byAgent := map[string][]store.Item{}
		for i := range items {
			byAgent[items[i].Agent] = append(byAgent[items[i].Agent], items[i])
		}
		for agent, items := range byAgent {
			d.slots <- struct{}{}
			sends.Go(func() {
				defer func() { <-d.slots }()
				for batch := range slices.Chunk(items, maxOrders) {
					d.sender.cancel(ctx, agent, batch)
				}
			})
		}
	}
}

// cancel makes one attempt to tell an agent. After a failure the items stay leased, so the next attempt follows at the end
// of the lease. The outcomes of cancelled orders come in a report.
func (s *sender) cancel(ctx context.Context, agent string, items []store.Item) {
	if ctx.Err() != nil {
		return
	}
	log := s.log.With("agent", agent, "cancelled", len(items))
	issued := s.clock.now()
	m := wire.Manifest{Agent: agent, Issued: issued, Expires: issued.Add(task.WaitLimit), Unasked: issued}
	for i := range items {
		m.Cancel = append(m.Cancel, wire.Order{Item: items[i].ID, Process: items[i].Process, Op: items[i].Op})
	}
	envelope, err := wire.Seal(m, s.key)
	if err != nil {
		s.note(ctx, log, err)
		return
	}
	attempt, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	reply, err := s.link.Send(attempt, agent, envelope)
	if err != nil {
		log.InfoContext(ctx, "cannot tell an agent about cancelled items yet", "error", err)
		return
	}
	receipt, err := wire.ReadReceipt(reply)
	if err != nil {
		s.note(ctx, log, err)
		return
	}
	var heard []string
	for i := range items {
		if slices.Contains(receipt.Accepted, items[i].ID) {
			heard = append(heard, items[i].ID)
		}
	}
	s.note(ctx, log, s.store.CancelHeard(context.WithoutCancel(ctx), heard))
}
