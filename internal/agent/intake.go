package agent

import (
	"context"
	"encoding/json"
	"errors"
	"syscall"

	"drover/internal/agent/host"
	"drover/internal/agent/specstore"
	"drover/internal/process"
	"drover/internal/wire"
)

// take verifies a manifest, journals its orders and queues those that are new. The receipt is made after that, so that an
// accepted order survives everything but the loss of the disk. An order that came before is answered with what is known
// of it and never run again. A question changes nothing: as a rule it is answered in the receipt, and nothing is kept of it.
func (a *Agent) take(ctx context.Context, data []byte) []byte {
	if !a.acceptance.wait(ctx, waitForAcceptance) {
		return nil // no receipt: it is sent again
	}
	receipt, certain := a.receive(ctx, data)
	if !certain {
		return nil
	}
	receipt.Version = wire.Version
	reply, err := json.Marshal(receipt)
	if err == nil {
		reply, err = wire.SealReceipt(reply, data, a.dial.Identity.Key)
	}
	if err != nil {
		a.cfg.Log.Error("receipt could not be encoded", "error", err)
		return nil
	}
	return reply
}

// receive is take without the encoding. It is not certain where the disk failed in a way that leaves open what is on it: an order that
// is refused and is in the journal all the same would be carried out by the next agent here, and by whoever was told that it failed.
func (a *Agent) receive(ctx context.Context, data []byte) (receipt wire.Receipt, certain bool) {
	now, boot := a.wall(), host.SinceBoot()
	m, err := a.trust.open(data)
	if err == nil {
		err = a.freshness.admit(m.Issued, now)
	}
	if err != nil {
		a.cfg.Log.Warn("manifest refused", "error", err)
		return wire.Receipt{Error: "manifest refused: " + err.Error()}, true
	}
	life := lifeOf(m)
	var commands, questions []specstore.Entry
	refused := map[string]string{}
	for _, o := range m.Orders {
		if o.Item == "" {
			refused[o.Item] = "the order has no item id"
			continue
		}
		e := specstore.Entry{Item: o.Item, Process: o.Process, Op: o.Op, Spec: o.Spec, Groups: o.Groups, Actor: o.Actor, BeginBy: boot + life, Expires: now.Add(life)}
		if o.Op == process.Query {
			questions = append(questions, e)
		} else {
			commands = append(commands, e)
		}
	}
	accepted, err := a.accept(commands)
	if err != nil {
		a.cfg.Log.Error("orders could not be journalled", "error", err)
		return wire.Receipt{Error: err.Error()}, !errors.Is(err, syscall.EIO)
	}
	answers, noted := a.answer(ctx, questions)
	return wire.Receipt{Accepted: append(accepted, noted...), Refused: refused, Answers: answers}, true
}

// accept journals commands, has those done that are new, and returns the items of all.
func (a *Agent) accept(commands []specstore.Entry) (items []string, err error) {
	if len(commands) == 0 {
		return nil, nil
	}
	fresh, known, err := a.disk.Accept(commands)
	if err != nil {
		return nil, err
	}
	for _, e := range known {
		items = append(items, e.Item)
		if e.Outcome != nil {
			a.reporter.Finished(e.Item, *e.Outcome)
		}
	}
	for _, e := range fresh {
		items = append(items, e.Item)
	}
	a.metrics.Accepted(len(fresh))
	a.super.Submit(fresh)
	return items, nil
}
