package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"drover/internal/agent/host"
	"drover/internal/agent/specstore"
	"drover/internal/process"
	"drover/internal/wire"
)

// handleOrders verifies a manifest, journals its orders and queues those that are new. The receipt is made after that,
// so that an accepted order survives everything but the loss of the disk. An order that came before is answered with
// what is known of it, whatever stands against new ones, and never run again. A question changes nothing: as a rule it
// is answered in the receipt, and nothing is kept of it.
func (a *Agent) handleOrders(ctx context.Context, data []byte) []byte {
	if !a.acceptance.wait(ctx, waitForAcceptance) {
		return nil // no receipt: it is sent again
	}
	receipt, certain := a.acceptOrders(ctx, data)
	if !certain {
		return nil
	}
	receipt.Version = wire.Version
	reply, err := json.Marshal(receipt)
	if err == nil {
		reply, err = wire.SealReceipt(reply, data, a.dial.Identity.Key)
	}
	if err != nil {
		a.cfg.Log.Error("cannot encode receipt", "error", err)
		return nil
	}
	return reply
}

// acceptOrders is handleOrders without the encoding. It is not certain where the disk failed in a way that leaves open
// what is on it: an order that is refused and is in the journal all the same would be carried out by the next agent
// here, and by whoever was told that it failed.
func (a *Agent) acceptOrders(ctx context.Context, data []byte) (receipt wire.Receipt, certain bool) {
	now := a.wall()
	m, err := a.trust.open(data)
	if err != nil {
		a.cfg.Log.Warn("rejected manifest", "error", err)
		return wire.Receipt{Error: "manifest refused: " + err.Error()}, true
	}
	stale := a.intake.freshness.admit(m.Issued, now)
	if stale != nil {
		stale = fmt.Errorf("manifest refused: %w", stale)
	}
	commands, questions, refused := entriesOf(m, now)
	taken, err := a.intake.accept(commands, stale)
	if err != nil {
		a.cfg.Log.Error("journal write failed, waiting for the server to resend", "error", err)
		return wire.Receipt{}, false
	}
	receipt = wire.Receipt{Accepted: taken.items(), Refused: refused}
	if taken.refusal != nil {
		a.cfg.Log.Warn("rejected orders", "error", taken.refusal)
		receipt.Error = taken.refusal.Error()
	}
	for _, e := range taken.known {
		if e.Outcome != nil {
			a.reporter.Finished(e.Item, *e.Outcome)
		}
	}
	a.metrics.Accepted(len(taken.fresh))
	a.orderGate.submit(taken.fresh, m.Unasked)
	a.orderGate.resubmit(taken.known, m.Unasked)
	if stale == nil && len(questions) > 0 {
		answers, noted := a.answer(ctx, questions)
		receipt.Answers, receipt.Accepted = answers, append(receipt.Accepted, noted...)
	}
	return receipt, true
}

// entriesOf returns what a manifest that has come now orders: what changes something, and what only asks. An order
// without an item could not be told from others.
func entriesOf(m *wire.Manifest, now time.Time) (commands, questions []specstore.Entry, refused map[string]string) {
	life, boot := lifeOf(m), host.SinceBoot()
	for _, o := range m.Orders {
		e := specstore.Entry{
			Item: o.Item, Process: o.Process, Op: o.Op, Spec: o.Spec, Groups: o.Groups, Actor: o.Actor, BeginBy: boot +
				life, Expires: now.Add(life),
		}
		switch {
		case o.Item == "":
			refused = map[string]string{"": "the order has no item id"}
		case o.Op == process.Query:
			questions = append(questions, e)
		default:
			commands = append(commands, e)
		}
	}
	return commands, questions, refused
}
