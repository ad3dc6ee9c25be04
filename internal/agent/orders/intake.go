// Package orders accepts the orders of the server: it journals the orders of a message, and acknowledges them with a
// receipt. Package uplink has verified the message. An accepted order survives everything but the loss of the disk, and
// is executed at most once. The package decides whether an order may still begin; package supervisor executes it.
package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"drover/internal/agent/metrics"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/clip"
	"drover/internal/process"
	"drover/internal/wire"
)

// Disk is the journal of orders.
type Disk interface {
	// Entries returns the entries of those items that are in the journal.
	Entries(items []string) ([]record.Entry, error)
	// Accept journals the entries that are not known yet and returns when they are on disk.
	Accept(entries []record.Entry) (fresh, known []record.Entry, err error)
	// Cancel journals that the entries never begin, and returns those that are over: cancelled now or ended before. An
	// entry that is not known yet is cancelled, and an open entry if stop reports true.
	Cancel(entries []record.Entry, stop func(item string) bool) (over []record.Entry, err error)
	BootID() string
}

// Queue takes orders, to have them executed. It does not block.
type Queue interface {
	Submit(entries []record.Entry)
}

// Records are the processes of this host, as far as the server may know better.
type Records interface {
	// Reconcile updates the records that are older than the server's, and returns their number.
	Reconcile(all []specstore.Desired, latest uint64) (older int, err error)
}

// Logs has what the processes of this host write, and what they are.
type Logs interface {
	// Answer returns a piece of a log. It blocks for some seconds at most.
	Answer(ctx context.Context, q wire.LogQuestion) wire.LogAnswer
	// Live compares running processes with their specs. It blocks for some seconds at most.
	Live(ctx context.Context, q wire.LiveQuestion) wire.LiveAnswer
	// Usage says what a process has used. It does not block.
	Usage(ctx context.Context, q wire.UsageQuestion) wire.UsageAnswer
}

// Relaunches are the relaunches that drover does by itself.
type Relaunches interface {
	// Withhold stops the relaunches of a process with that revision of its spec for some time; 0 ends that.
	Withhold(id process.ID, revision int64, length time.Duration, text string)
}

// Config is what an Intake needs.
type Config struct {
	Disk    Disk
	Tracker *Tracker
	// Commands takes the orders that change something, Questions the others.
	Commands, Questions Queue
	Records             Records
	Relaunches          Relaunches
	Logs                Logs
	// Newest is the issue time of the newest message so far; Note stores a newer one on disk.
	Newest time.Time
	Note   func(issued time.Time) error
	// Wall is the clock of the host, Clock the time since boot.
	Wall    func() time.Time
	Clock   func() time.Duration
	Metrics *metrics.Metrics
	Log     *slog.Logger
}

// Intake accepts messages with orders. It is safe for concurrent use.
type Intake struct {
	cfg       Config
	journal   *journal
	freshness *freshness
}

// New returns an intake.
func New(cfg Config) *Intake {
	return &Intake{
		cfg: cfg, journal: newJournal(cfg.Disk),
		freshness: &freshness{note: cfg.Note, newest: cfg.Newest, noted: cfg.Newest},
	}
}

// Take journals the orders of a manifest and queues the new ones. It makes the receipt after that, so an accepted order
// survives everything but the loss of the disk. It never runs a known order again, and answers it with
// its current state, even if new orders are rejected. A query changes nothing: usually the receipt has its answer, and
// nothing is stored. The receipt is nil if the server must resend the manifest.
func (i *Intake) Take(ctx context.Context, manifest []byte) (receipt []byte) {
	r, certain := i.accept(ctx, manifest)
	if !certain {
		return nil
	}
	r.Version = wire.Version
	receipt, err := json.Marshal(r)
	if err != nil {
		i.cfg.Log.Error("cannot encode receipt", "error", err)
		return nil
	}
	return receipt
}

// accept is Take without the encoding. certain is false if the disk failed so that the contents of the journal are
// unknown. A rejected order that is in the journal all the same would run twice: by the next agent here, and by the
// caller that was told of a failure.
func (i *Intake) accept(ctx context.Context, data []byte) (receipt wire.Receipt, certain bool) {
	now := i.cfg.Wall()
	m, err := wire.ReadManifest(data)
	if err != nil {
		i.cfg.Log.Warn("rejected manifest", "error", err)
		return wire.Receipt{Error: "manifest refused: " + err.Error()}, true
	}
	stale := i.freshness.admit(m.Issued, now)
	if stale != nil {
		stale = fmt.Errorf("manifest refused: %w", stale)
	}
	commands, questions, refused := entriesOf(m, m.Orders, now, i.cfg.Clock())
	taken, err := i.journal.accept(ctx, commands, stale)
	if err != nil {
		i.cfg.Log.Error("journal write failed, waiting for the server to resend", "error", err)
		return wire.Receipt{}, false
	}
	receipt = wire.Receipt{Accepted: taken.items(), Refused: refused}
	if taken.refusal != nil {
		i.cfg.Log.Warn("rejected orders", "error", taken.refusal)
		receipt.Error = taken.refusal.Error()
	}
	if stale == nil && len(m.Cancel) > 0 {
		cancelled, over, err := i.cancel(m, now)
		if err != nil {
			i.cfg.Log.Error("cannot store cancelled orders, waiting for the server to resend", "error", err)
			return wire.Receipt{}, false
		}
		receipt.Accepted, taken.known = append(receipt.Accepted, cancelled...), append(taken.known, over...)
	}
	if stale == nil {
		i.withhold(m.Withhold)
	}
	for _, e := range taken.known {
		if e.Outcome != nil {
			i.cfg.Tracker.reports.Finished(e.Item, *e.Outcome)
		}
	}
	i.cfg.Metrics.Accepted(len(taken.fresh))
	gate, begins := i.cfg.Tracker.gate, &i.cfg.Tracker.begins
	fresh := gate.admit(taken.fresh, m.Unasked)
	beginning := begins.expect(fresh)
	i.begin(fresh)
	i.begin(gate.readmit(taken.known, m.Unasked))
	receipt.Begun = begins.await(ctx, beginning)
	if stale == nil && len(questions) > 0 {
		i.answer(ctx, questions, &receipt)
	}
	return receipt, true
}

// maxWithheldText is the longest text about a withheld relaunch, in bytes.
const maxWithheldText = 1000

func (i *Intake) withhold(list []wire.Withheld) {
	for _, w := range list {
		i.cfg.Relaunches.Withhold(w.Process, w.Revision, time.Duration(w.Seconds)*time.Second,
			clip.Marked(w.Text, maxWithheldText, " …"))
	}
}

// cancel ends the orders that must not begin any more. It returns their items, and the orders that are over.
func (i *Intake) cancel(m *wire.Manifest, now time.Time) (items []string, over []record.Entry, err error) {
	entries, _, _ := entriesOf(m, m.Cancel, now, i.cfg.Clock())
	gate := i.cfg.Tracker.gate
	over, err = i.cfg.Disk.Cancel(entries, gate.cancel)
	if err != nil {
		gate.uncancel(itemsOf(entries))
		return nil, nil, err
	}
	gate.ended(itemsOf(over))
	return itemsOf(entries), over, nil
}

func (i *Intake) begin(orders []record.Entry) {
	if len(orders) > 0 {
		i.cfg.Commands.Submit(orders)
	}
}

// Unsure implements report.Orders.
func (i *Intake) Unsure() []string { return i.cfg.Tracker.gate.unsure() }

// Answered implements report.Orders.
func (i *Intake) Answered(r *wire.Report, ack *wire.ReportAck) {
	i.begin(i.cfg.Tracker.gate.answered(r, ack))
}

// Expire ends the orders that wait for the server's word and may no longer begin anyway.
func (i *Intake) Expire() { i.begin(i.cfg.Tracker.gate.expire(i.cfg.Disk.BootID())) }

// entriesOf returns orders of a manifest that arrived at now, by the wall clock, and at boot, since boot: commands
// change something, questions do not. It rejects an order without an item, because drover could not tell it from
// others.
func entriesOf(m *wire.Manifest, orders []wire.Order, now time.Time, boot time.Duration) (
	commands, questions []record.Entry, refused map[string]string,
) {
	life := lifeOf(m)
	for _, o := range orders {
		e := record.Entry{
			Item: o.Item, Process: o.Process, Op: o.Op, Spec: o.Spec, Groups: o.Groups, Actor: o.Actor,
			Ordered: o.Ordered, Removes: o.Removes, BeginBy: boot + life, Expires: now.Add(life),
		}
		if e.Beside = o.Op.Beside(); e.Beside != process.Refuse {
			e.Op = process.Start
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
