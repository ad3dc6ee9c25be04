package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/task"
	"drover/internal/wire"
)

const (
	// A manifest holds at most maxOrders orders, and at most maxBytes bytes of them unless a single order is larger.
	maxOrders = 200
	maxBytes  = 1 << 20
	// maxApart is how far apart the creation times of the items of a manifest may be. The manifest expires for all of
	// them with the oldest.
	maxApart = time.Minute
	// orderOverhead is an upper bound for the size of an order in JSON without its spec and its names, in bytes.
	orderOverhead = 512
	// pingTime is how long an agent may take to answer a ping.
	pingTime = time.Second
	// certain is the margin after the last moment at which an agent may begin an order without asking a server. It
	// covers the difference between the clocks of servers.
	certain = time.Second
)

// pack divides the items of an agent into manifests.
func pack(items []store.Item) [][]store.Item {
	if len(items) == 1 {
		return [][]store.Item{items}
	}
	var batches [][]store.Item
	first, bytes := 0, 0
	for i := range items {
		size := items[i].SpecSize
		if items[i].Op == process.SetGroups {
			size += groupsBytes
		}
		size += orderOverhead + 6*(len(items[i].Process.Name)+len(items[i].Process.Namespace))
		apart := items[i].Created.Sub(items[first].Created).Abs()
		if i > first && (i-first == maxOrders || bytes+size > maxBytes || apart > maxApart) {
			batches = append(batches, items[first:i])
			first, bytes = i, 0
		}
		bytes += size
	}
	return append(batches, items[first:])
}

// sender sends manifests and stores the results.
type sender struct {
	store     Store
	clock     clock
	directory *fleet.Directory
	link      Link
	log       *slog.Logger
	timeout   time.Duration
	// elsewhere reports whether another server may reach an agent.
	elsewhere func(agent string) bool
	// accepted is called with the items that an agent has, and finished with the tasks of the items that the sender
	// ended. outcomes stores the outcomes in receipts.
	accepted func(items map[string]time.Time)
	// begun is called when deadlines have changed.
	begun    func()
	outcomes *outcomes
	finished func(tasks []string)
	// changed is called when due times have been set.
	changed func()
}

// send makes one attempt. It returns the remaining work on the receipt, which may run during the next attempt; nil for
// none. After a failure the items stay leased, so they are due again when the lease ends.
func (s *sender) send(ctx context.Context, agent string, items []store.Item) (rest func()) {
	if ctx.Err() != nil {
		return nil
	}
	log := s.log.With("agent", agent, "items", len(items))
	if s.directory.Presence(agent, s.clock.now()).Away && s.gone(ctx, agent) {
		s.logFailure(ctx, log, s.nobody(context.WithoutCancel(ctx), log, agent, items))
		return nil
	}
	groups, err := s.groups(ctx, agent, items)
	if err != nil {
		s.logFailure(ctx, log, err)
		return nil
	}
	issued := s.clock.now()
	manifest, err := s.encode(issued, items, groups)
	if err != nil {
		s.logFailure(ctx, log, s.refuse(ctx, items, err.Error()))
		return nil
	}
	attempt, cancel := context.WithTimeout(ctx, s.patience(issued, items))
	reply, err := s.link.Send(attempt, agent, manifest)
	cancel()
	running := ctx
	// The result is stored even if the engine is stopping.
	ctx = context.WithoutCancel(ctx)
	var receipt wire.Receipt
	switch {
	case errors.Is(err, ErrNobody):
		s.logFailure(ctx, log, s.postpone(ctx, agent, issued, items))
		return nil
	case err == nil:
		receipt, err = wire.ReadReceipt(reply)
	}
	if err != nil {
		s.logFailure(ctx, log, s.scheduleResend(ctx, issued, items))
		hangs := errors.Is(err, context.DeadlineExceeded) && s.gone(running, agent)
		if hangs {
			s.directory.RecordLinkLost(agent, s.clock.now())
		}
		log.InfoContext(ctx, "sent items, but received no receipt", "agent_hangs", hangs, "error", err)
		return nil
	}
	s.logFailure(ctx, log, s.recordAnswer(ctx, agent, issued))
	return func() { s.logFailure(ctx, log, s.receive(ctx, log, agent, items, receipt)) }
}

// patience is how long the sender waits for a receipt. For items whose deadlines are near, it ends before the
// deadlines, so that the missing receipt is recorded in time.
func (s *sender) patience(issued time.Time, items []store.Item) time.Duration {
	patience := s.timeout
	for i := range items {
		patience = min(patience, max(items[i].Deadline.Sub(issued)-certain/2, certain/4))
	}
	return patience
}

// gone reports whether the agent has no subscription or does not answer a ping. If gone cannot find out, it returns
// false.
func (s *sender) gone(ctx context.Context, agent string) bool {
	attempt, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	err := s.link.Ping(attempt, agent)
	return ctx.Err() == nil && (errors.Is(err, ErrNobody) || errors.Is(err, context.DeadlineExceeded))
}

// recordAnswer notes that an agent is online, which has answered a manifest, and stores the absence that ended before
// that. The receipt does not name the run of the agent, so the introduction ends a run.
func (s *sender) recordAnswer(ctx context.Context, agent string, issued time.Time) error {
	absence, _ := s.directory.Absence(agent, "", issued)
	s.directory.RecordMessage(agent, s.clock.now())
	if !absence.Until.After(absence.Since) {
		return nil
	}
	absence.Alive = time.Time{}
	return s.store.PutAbsence(ctx, absence)
}

// logFailure logs a failed write. There is no caller to return it to; the end of the lease makes the items due again.
func (s *sender) logFailure(ctx context.Context, log *slog.Logger, err error) {
	if err != nil {
		log.ErrorContext(ctx, "cannot store the result of a send", "error", err)
	}
}

// encode returns the manifest of some items.
func (s *sender) encode(issued time.Time, items []store.Item, groups map[string][]process.Group) ([]byte, error) {
	m := wire.Manifest{
		Issued: issued, Expires: items[0].Created.Add(task.WaitLimit), Unasked: issued.Add(s.timeout),
	}
	for i := range items {
		it := &items[i]
		if it.Asks { // the agent asks about all orders of the manifest
			m.Unasked = time.Time{}
		} else if until := it.Deadline.Add(-certain); until.Before(m.Unasked) {
			m.Unasked = until
		}
		if expires := it.Created.Add(task.WaitLimit); expires.Before(m.Expires) {
			m.Expires = expires
		}
		order := wire.Order{
			Item: it.ID, Process: it.Process, Op: it.Op, Spec: it.Spec,
			Actor:   process.Actor{App: it.App, User: it.User, Reason: it.Reason, Operation: it.Task},
			Ordered: it.Ordered, Removes: it.Removes,
		}
		if it.Op == process.SetGroups {
			order.Groups = groups[it.Process.Namespace]
		}
		m.Orders = append(m.Orders, order)
	}
	manifest, err := m.Encode()
	if err != nil || len(manifest) <= wire.MaxSpec {
		return manifest, err
	}
	for i := range items { // the agent could not report it
		if size := encodedSize(items[i].Spec); size > wire.MaxSpec {
			return nil, fmt.Errorf("the operation has %d bytes: expected at most %d", size, wire.MaxSpec)
		}
	}
	if len(manifest) > wire.MaxManifest {
		return nil, fmt.Errorf("the operation has %d bytes: expected at most %d", len(manifest), wire.MaxManifest)
	}
	return manifest, nil
}

// receive applies a receipt. An item that the receipt does not mention counts as unheard, or is rejected if the agent
// rejected the whole manifest.
func (s *sender) receive(ctx context.Context, log *slog.Logger, agent string, items []store.Item,
	r wire.Receipt,
) error {
	if r.Error != "" {
		log.WarnContext(ctx, "agent rejected items", "reason", r.Error)
	}
	listed := make(map[string]bool, len(r.Accepted))
	for _, id := range r.Accepted {
		listed[id] = true
	}
	now := s.clock.now()
	accepted, begun := map[string]time.Time{}, map[string]time.Time{}
	var bounded []string
	var given []store.ReportedOutcome
	var refused, silent []store.Item
	for _, it := range items {
		outcome, answered := r.Answers[it.ID]
		switch {
		case answered:
			given = append(given, store.ReportedOutcome{Agent: agent, Item: it.ID, Outcome: shortened(outcome)})
		case listed[it.ID] && it.Deadline.Before(it.Created.Add(task.WaitLimit)): // at once: its deadline is near
			if by := begunBy(&r, it.ID, now); by.IsZero() {
				bounded = append(bounded, it.ID)
			} else {
				begun[it.ID] = by
			}
		case listed[it.ID]:
			accepted[it.ID] = begunBy(&r, it.ID, now)
		case r.Refused[it.ID] != "":
			refused = append(refused, it)
		default:
			silent = append(silent, it)
		}
	}
	var errs []error
	if len(given) > 0 {
		errs = append(errs, s.outcomes.put(ctx, given))
	}
	if len(accepted) > 0 {
		s.accepted(accepted)
	}
	if len(bounded) > 0 {
		errs = append(errs, s.store.MarkAccepted(ctx, bounded, now.Add(task.WaitLimit)))
	}
	if len(begun) > 0 {
		errs = append(errs, s.store.Begin(ctx, agent, begun))
		s.begun()
	}
	if len(refused) > 0 {
		_, err := conclude(ctx, s.store, s.clock.now(), s.finished, refused, func(it *store.Item) task.Event {
			return task.Refused{Reason: r.Refused[it.ID]}
		})
		errs = append(errs, err)
	}
	switch {
	case len(silent) > 0 && r.Error != "":
		errs = append(errs, s.refuseNew(ctx, silent, r.Error))
	case len(silent) > 0:
		errs = append(errs, s.scheduleResend(ctx, time.Time{}, silent))
	}
	return errors.Join(errs...)
}

// begunBy returns the deadline of an item that has begun by the receipt; zero if it has not.
func begunBy(r *wire.Receipt, item string, now time.Time) time.Time {
	limit, has := r.Begun[item]
	if !has {
		return time.Time{}
	}
	return beganBy(limit, now)
}

// refuseNew rejects the items that were sent for the first time, with the reason for the whole manifest. The agent may
// have journalled the other items and execute them, so these count as unheard.
func (s *sender) refuseNew(ctx context.Context, items []store.Item, reason string) error {
	var first, again []store.Item
	for _, it := range items {
		if it.State == task.Pending {
			first = append(first, it)
		} else {
			again = append(again, it)
		}
	}
	var errs []error
	if len(first) > 0 {
		errs = append(errs, s.refuse(ctx, first, reason))
	}
	if len(again) > 0 {
		errs = append(errs, s.scheduleResend(ctx, time.Time{}, again))
	}
	return errors.Join(errs...)
}

func (s *sender) refuse(ctx context.Context, items []store.Item, reason string) error {
	_, err := conclude(ctx, s.store, s.clock.now(), s.finished, items, func(*store.Item) task.Event {
		return task.Refused{Reason: reason}
	})
	return err
}

// nobody ends items that have waited long enough for their agent, and postpones the others.
func (s *sender) nobody(ctx context.Context, log *slog.Logger, agent string, items []store.Item) error {
	now := s.clock.now()
	s.directory.RecordLinkLost(agent, now) // sooner than its silence would show
	presence, elsewhere := s.directory.Presence(agent, now), s.elsewhere(agent)
	var lost []store.Item
	var wait []string
	for _, it := range items {
		if presence.GivenUp(it.Created, now) && !elsewhere {
			lost = append(lost, it)
		} else {
			wait = append(wait, it.ID)
		}
	}
	var errs []error
	if len(lost) > 0 {
		log.InfoContext(ctx, "gave up items: the agent is not connected", "given_up", len(lost))
		_, err := conclude(ctx, s.store, s.clock.now(), s.finished, lost, func(*store.Item) task.Event {
			return task.Unreachable{}
		})
		errs = append(errs, err)
	}
	if len(wait) > 0 {
		due := task.Next(task.Item{}, task.Absent{}, now).Due
		errs = append(errs, s.store.Postpone(ctx, wait, spread(now, due)))
		s.changed()
	}
	return errors.Join(errs...)
}

// giveUpWaiting ends the items of an agent that wait for older ones and whose tasks were created by the given time, if
// the agent cannot be reached.
func (s *sender) giveUpWaiting(ctx context.Context, agent string, created time.Time) {
	if !s.gone(ctx, agent) {
		return
	}
	log := s.log.With("agent", agent)
	outcome := task.Next(task.Item{}, task.Unreachable{}, created).Outcome
	tasks, err := s.store.EndWaiting(context.WithoutCancel(ctx), agent, created, *outcome)
	if s.logFailure(ctx, log, err); len(tasks) > 0 {
		log.InfoContext(ctx, "gave up items that waited for older ones: the agent is not connected", "tasks", len(tasks))
		s.finished(tasks)
	}
}

// postpone postpones items after ErrNobody. An intermediary may return that error although the agent has the items. So
// the server can only end them after the agent can no longer begin them without asking a server.
func (s *sender) postpone(ctx context.Context, agent string, issued time.Time, items []store.Item) error {
	s.directory.RecordLinkLost(agent, s.clock.now()) // sooner than its silence would show
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	err := s.store.Postpone(ctx, ids, issued.Add(s.timeout+certain))
	s.changed()
	return err
}

// scheduleResend schedules a resend of items without a receipt. issued is the time of their manifest; zero if the agent
// has said that it does not have the items. The resend happens when the agent can no longer begin them without asking a
// server, so that the next attempt may end them. It also waits for the ping of the agent.
func (s *sender) scheduleResend(ctx context.Context, issued time.Time, items []store.Item) error {
	now := s.clock.now()
	due := map[time.Time][]string{}
	for i := range items {
		if next := task.Next(machine(&items[i]), task.Unheard{}, now); next.State == task.Sent {
			due[next.Due] = append(due[next.Due], items[i].ID)
		}
	}
	var errs []error
	for at, ids := range due {
		at = spread(now, at)
		if settled := issued.Add(s.timeout + pingTime + certain); !issued.IsZero() && at.Before(settled) {
			at = settled
		}
		errs = append(errs, s.store.MarkSent(ctx, ids, at))
	}
	s.changed()
	return errors.Join(errs...)
}

// spread returns a random time in the second half of the time from now to then. So items that failed together are not
// retried together.
func spread(now, then time.Time) time.Time {
	half := then.Sub(now) / 2
	return now.Add(half + rand.N(half+1)) //nolint:gosec // not a secret
}

// cancel makes one attempt to tell an agent. After a failure the items stay leased, so the next attempt follows at
// the end of the lease. The outcomes of cancelled orders come in a report.
func (s *sender) cancel(ctx context.Context, agent string, items []store.Item) {
	if ctx.Err() != nil {
		return
	}
	log := s.log.With("agent", agent, "cancelled", len(items))
	issued := s.clock.now()
	m := wire.Manifest{Issued: issued, Expires: issued.Add(task.WaitLimit), Unasked: issued}
	for i := range items {
		m.Cancel = append(m.Cancel, wire.Order{Item: items[i].ID, Process: items[i].Process, Op: items[i].Op})
	}
	manifest, err := m.Encode()
	if err != nil {
		s.logFailure(ctx, log, err)
		return
	}
	attempt, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	reply, err := s.link.Send(attempt, agent, manifest)
	if err != nil {
		log.InfoContext(ctx, "cannot tell an agent about cancelled items yet", "error", err)
		return
	}
	receipt, err := wire.ReadReceipt(reply)
	if err != nil {
		s.logFailure(ctx, log, err)
		return
	}
	var heard []string
	for i := range items {
		if slices.Contains(receipt.Accepted, items[i].ID) {
			heard = append(heard, items[i].ID)
		}
	}
	s.logFailure(ctx, log, s.store.CancelHeard(context.WithoutCancel(ctx), heard))
}
