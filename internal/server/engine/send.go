package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/task"
	"drover/internal/wire"
)

const (
	// A manifest holds at most so many orders, and so many bytes of them unless a single one is larger.
	maxOrders = 200
	maxBytes  = 1 << 20
	// maxApart is how far apart the items of a manifest may have been created: it expires for all of them with the
	// oldest.
	maxApart = time.Minute
	// orderOverhead is more than an order takes in JSON beside its spec and its names.
	orderOverhead = 512
	// pingTime is how long an agent may take to show that it is there.
	pingTime = time.Second
	// certain is how long after the last moment at which an order may have begun unasked it counts as one that does not
	// begin any more: the clocks of servers are not quite one.
	certain = time.Second
)

// pack divides the items of an agent into those that travel together.
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

// sender sends manifests and notes what came of it.
type sender struct {
	store     Store
	clock     clock
	directory *fleet.Directory
	link      Link
	key       nkeys.KeyPair
	log       *slog.Logger
	timeout   time.Duration
	// elsewhere reports whether another server may reach an agent.
	elsewhere func(agent string) bool
	// accepted is called with the items that an agent has, finished with the tasks of those that were ended here;
	// outcomes gets what receipts tell.
	accepted func(ids []string)
	outcomes *outcomes
	finished func(tasks []string)
	// changed is called when due times have been set.
	changed func()
}

// send makes one attempt. It returns what is left to be done about the receipt, which may be done while the next
// attempt is made; nil for nothing. Whatever fails leaves the items leased, so that they are due again when the lease
// ends.
func (s *sender) send(ctx context.Context, agent string, items []store.Item) (rest func()) {
	if ctx.Err() != nil {
		return nil
	}
	log := s.log.With("agent", agent, "items", len(items))
	if s.directory.Presence(agent, s.clock.now()).Away && s.gone(ctx, agent) {
		s.note(ctx, log, s.nobody(context.WithoutCancel(ctx), log, agent, items))
		return nil
	}
	groups, err := s.groups(ctx, agent, items)
	if err != nil {
		s.note(ctx, log, err)
		return nil
	}
	issued := s.clock.now()
	envelope, err := s.seal(agent, issued, items, groups)
	if err != nil {
		s.note(ctx, log, s.refuse(ctx, items, err.Error()))
		return nil
	}
	attempt, cancel := context.WithTimeout(ctx, s.patience(issued, items))
	reply, err := s.link.Send(attempt, agent, envelope)
	cancel()
	running := ctx
	// What is known now is written down even if the engine is being stopped.
	ctx = context.WithoutCancel(ctx)
	var receipt wire.Receipt
	switch {
	case errors.Is(err, ErrNobody):
		s.note(ctx, log, s.unsent(ctx, agent, issued, items))
		return nil
	case err == nil:
		receipt, err = wire.ReadReceipt(reply)
	}
	if err != nil {
		s.note(ctx, log, s.unheard(ctx, issued, items))
		hangs := errors.Is(err, context.DeadlineExceeded) && s.gone(running, agent)
		if hangs {
			s.directory.Lost(agent, s.clock.now())
		}
		log.InfoContext(ctx, "sent items, but received no receipt", "agent_hangs", hangs, "error", err)
		return nil
	}
	s.directory.Seen(agent, s.clock.now())
	return func() { s.note(ctx, log, s.receive(ctx, log, agent, items, receipt)) }
}

// patience is how long a receipt is waited for. That of items whose deadlines are near is noted to be missing before
// these.
func (s *sender) patience(issued time.Time, items []store.Item) time.Duration {
	patience := s.timeout
	for i := range items {
		patience = min(patience, max(items[i].Deadline.Sub(issued)-certain/2, certain/4))
	}
	return patience
}

// gone reports whether nobody is at the agent's end, or whoever is there does not answer at all. It is not so where
// that cannot be found out.
func (s *sender) gone(ctx context.Context, agent string) bool {
	attempt, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	err := s.link.Ping(attempt, agent)
	return ctx.Err() == nil && (errors.Is(err, ErrNobody) || errors.Is(err, context.DeadlineExceeded))
}

// note logs a failed write. Nobody else can be told; the lease brings the items back.
func (s *sender) note(ctx context.Context, log *slog.Logger, err error) {
	if err != nil {
		log.ErrorContext(ctx, "cannot store the result of a send", "error", err)
	}
}

func (s *sender) seal(agent string, issued time.Time, items []store.Item,
	groups map[string][]process.Group,
) ([]byte, error) {
	m := wire.Manifest{
		Agent: agent, Issued: issued, Expires: items[0].Created.Add(task.WaitLimit),
		Unasked: issued.Add(s.timeout),
	}
	for i := range items {
		it := &items[i]
		if until := it.Deadline.Add(-certain); until.Before(m.Unasked) {
			m.Unasked = until
		}
		if expires := it.Created.Add(task.WaitLimit); expires.Before(m.Expires) {
			m.Expires = expires
		}
		order := wire.Order{
			Item: it.ID, Process: it.Process, Op: it.Op, Spec: it.Spec,
			Actor: process.Actor{App: it.App, User: it.User},
		}
		if it.Op == process.SetGroups {
			order.Groups = groups[it.Process.Namespace]
		}
		m.Orders = append(m.Orders, order)
	}
	envelope, err := wire.Seal(m, s.key)
	if err != nil || len(envelope) <= wire.MaxSpec {
		return envelope, err
	}
	for i := range items { // the agent could not report it
		if size := encodedSize(items[i].Spec); size > wire.MaxSpec {
			return nil, fmt.Errorf("the operation has %d bytes: expected at most %d", size, wire.MaxSpec)
		}
	}
	if len(envelope) > wire.MaxMessage {
		return nil, fmt.Errorf("the operation has %d bytes: expected at most %d", len(envelope), wire.MaxMessage)
	}
	return envelope, nil
}

// receive does what the receipt says. An item that it does not mention counts as unheard, or is refused with all
// others.
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
	var accepted, bounded []string
	var given []store.ReportedOutcome
	var refused, silent []store.Item
	for _, it := range items {
		outcome, answered := r.Answers[it.ID]
		switch {
		case answered:
			given = append(given, store.ReportedOutcome{Agent: agent, Item: it.ID, Outcome: shortened(outcome)})
		case listed[it.ID] && it.Deadline.Before(it.Created.Add(task.WaitLimit)):
			bounded = append(bounded, it.ID)
		case listed[it.ID]:
			accepted = append(accepted, it.ID)
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
	if len(bounded) > 0 { // at once, as their deadlines are near
		errs = append(errs, s.store.MarkAccepted(ctx, bounded, s.clock.now().Add(task.WaitLimit)))
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
		errs = append(errs, s.unheard(ctx, time.Time{}, silent))
	}
	return errors.Join(errs...)
}

// refuseNew refuses the items that were sent for the first time. The reason is that of the whole manifest: the agent
// may have the others in its journal and carry them out, so that they count as unheard.
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
		errs = append(errs, s.unheard(ctx, time.Time{}, again))
	}
	return errors.Join(errs...)
}

func (s *sender) refuse(ctx context.Context, items []store.Item, reason string) error {
	_, err := conclude(ctx, s.store, s.clock.now(), s.finished, items, func(*store.Item) task.Event {
		return task.Refused{Reason: reason}
	})
	return err
}

// nobody gives up items that have waited long enough for their agent, and postpones the others.
func (s *sender) nobody(ctx context.Context, log *slog.Logger, agent string, items []store.Item) error {
	now := s.clock.now()
	s.directory.Lost(agent, now) // sooner than its silence would show
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

// unsent has items sent again that are said to have reached nobody. Whoever says so may be on the way, and have them
// all the same: so they are given up no sooner than it is certain that they do not begin unasked.
func (s *sender) unsent(ctx context.Context, agent string, issued time.Time, items []store.Item) error {
	s.directory.Lost(agent, s.clock.now()) // sooner than its silence would show
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	err := s.store.Postpone(ctx, ids, issued.Add(s.timeout+certain))
	s.changed()
	return err
}

// unheard has items sent again later: not before it is certain that what was sent at a time that is given does not
// begin unasked, so that the next attempt may give them up, and not while the agent is asked whether it is there. It is
// zero where the agent has said that it does not have them.
func (s *sender) unheard(ctx context.Context, issued time.Time, items []store.Item) error {
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

// spread returns a time in the second half of the way from now to then, so that what failed together is not tried again
// together.
func spread(now, then time.Time) time.Time {
	half := then.Sub(now) / 2
	return now.Add(half + rand.N(half+1)) //nolint:gosec // nobody gains by guessing it
}
