package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"drover/internal/frame"
	"drover/internal/process"
	"drover/internal/server/bus"
	"drover/internal/server/fleet"
	"drover/internal/server/plan"
	"drover/internal/server/store"
	"drover/internal/server/task"
	"drover/internal/wire"
)

// collector stores the reports of agents.
type collector struct {
	clock     clock
	store     Store
	directory *fleet.Directory
	log       *slog.Logger
	bus       *bus.Bus
	// begun is called when deadlines have changed, and returned with an agent that has introduced itself.
	begun    func()
	outcomes *outcomes
	returned func(agent string)
	identity IdentityHooks
	// ping makes the hosts that use the key of an agent report. It returns soon.
	ping func(ctx context.Context, agent string)
	// retention is the retention time of events and of their streams. quotas counts the events that each agent
	// reported.
	retention time.Duration
	quotas    *agentQuotas
	// dropReceipt is called with the items that a report mentions.
	dropReceipt func(item string)
	// introduced is called with the process groups that an agent has, by its introduction.
	introduced func(ctx context.Context, agent string, groups map[string]string) error
	// reconcile returns the answer to an agent that describes its disk; nil for no answer.
	reconcile func(ctx context.Context, from store.ReportMark, disk *wire.Disk) (*wire.Desired, error)
	// incarnation returns the present incarnation of the database.
	incarnation func() store.Incarnation
}

// HandleReport stores a report that is proven to come from an agent, which sealed it at this time by the clock of the
// servers. It rejects a report whose time is more than frame.Width from that clock, or zero because the agent does not
// know the clock. It returns the encoded wire.ReportAck when everything is on disk.
func (e *Engine) HandleReport(ctx context.Context, agent string, data []byte, sealed time.Time) []byte {
	ack := e.collect.handle(ctx, agent, data, sealed)
	reply, err := json.Marshal(ack)
	if err != nil { // not reached: it always encodes, and its specs came from JSON
		return nil
	}
	return reply
}

func (c *collector) handle(ctx context.Context, agent string, data []byte, sealed time.Time) wire.ReportAck {
	now := c.clock.now()
	ack := wire.ReportAck{Version: wire.Version, At: now.UnixMilli()}
	if now.Sub(sealed).Abs() > frame.Width {
		ack.Error = errOldReport.Error()
		return ack
	}
	r, err := wire.ReadReport(data)
	if err == nil {
		if !c.ownsKey(ctx, agent, r, sealed, now, &ack) {
			return ack
		}
		if !c.knows(r, &ack) {
			return ack
		}
		absence, returns := c.ended(agent, r, sealed, now)
		if !c.directory.InTurn(agent, r.Session, r.Number) {
			ack.Error = store.ErrOvertaken.Error()
			return ack
		}
		if returns {
			c.storeAbsence(ctx, absence)
		}
		c.recordMessage(agent, r, sealed, now)
		c.exchangeKeys(ctx, agent, r, &ack)
		err = c.take(ctx, agent, r, &ack)
		_, full := errors.AsType[*store.FullError](err)
		_, tooMany := errors.AsType[*tooManyError](err)
		// the agent resends the report, and callers need not wait for that
		if full || tooMany || errors.Is(err, store.ErrTooManyProcesses) || errors.Is(err, store.ErrTooMuch) {
			err = errors.Join(err, c.progress(ctx, agent, r.Progress))
		}
		if err == nil {
			ack.Ended, err = c.acceptItems(ctx, agent, r.Open)
		}
	}
	if errors.Is(err, store.ErrOtherSession) {
		// The report's process states were not stored. The agent sends all of them again with its introduction.
		ack.Hello = true
		return ack
	}
	if errors.Is(err, wire.ErrVersion) {
		c.unreadable(ctx, agent)
		ack.Error = fmt.Sprintf(
			"this server has version %d of the protocol, but the agent has a later version: upgrade the servers before the agents", wire.Version)
		return ack
	}
	if errors.Is(err, store.ErrEarlierSession) && c.isReplayed(ctx, agent, r.Session, &ack) {
		return ack
	}
	if err != nil {
		c.log.WarnContext(ctx, "rejected report", "agent", agent, "error", err)
		ack.Error = err.Error()
	}
	c.ask(agent, err == nil, now, &ack)
	return ack
}

// knows reports whether a report may count: it is for the present incarnation of the database, or an introduction. It
// fills in the incarnation, and otherwise asks for an introduction. Whatever else an agent says after what a restored
// database has lost would look as if the database had all of it.
func (c *collector) knows(r *wire.Report, ack *wire.ReportAck) bool {
	now := c.incarnation()
	ack.Incarnation = now.ID
	ack.Hello = r.Hello == nil && r.Incarnation != now.ID
	return !ack.Hello
}

// exchangeKeys records the key that a report announces, and answers with the keys that the agent lacks.
func (c *collector) exchangeKeys(ctx context.Context, agent string, r *wire.Report, ack *wire.ReportAck) {
	if len(r.Sealing) > 0 {
		c.identity.Sealing(ctx, agent, r.Sealing)
	}
	if r.Trust != nil {
		ack.Trust = c.identity.Trust(ctx, agent, *r.Trust)
	}
}

// ask fills in when the agent has to report next, and whether it has to introduce itself.
func (c *collector) ask(agent string, stored bool, now time.Time, ack *wire.ReportAck) {
	ack.Hello = !c.directory.Introduction(agent)
	if stored && len(ack.Trust) == 0 { // an agent that gets keys has to confirm them soon
		ack.Beat = int(c.directory.Beat(agent, now).Seconds())
	}
}

// recordMessage notes that an agent is online, with the load and the clock of its host.
func (c *collector) recordMessage(agent string, r *wire.Report, sealed, now time.Time) {
	c.directory.RecordMessage(agent, now)
	if r.Load != nil {
		c.directory.Loaded(agent, loadOf(*r.Load))
	}
	if r.At != 0 {
		c.directory.Clock(agent, ahead(time.UnixMilli(r.At), sealed, now))
	}
}

// ahead is how far the clock of a host is ahead at least: negative if the clock is behind, 0 if it may be right. at is
// its time in a report that was sealed and received at these times of the servers.
func ahead(at, sealed, now time.Time) time.Duration {
	// The host reads its clock between the two, so a report that waits under way makes no clock look wrong.
	if early := at.Sub(now); early > 0 {
		return early
	}
	return min(at.Sub(sealed), 0)
}

// ended returns the absence that a report ends. Only an introduction ends the run before. A report without one shows
// that its run was there when it sealed the report: the report may have been under way since before the absence, or
// have waited for this server.
func (c *collector) ended(agent string, r *wire.Report, sealed, now time.Time) (a store.Absence, ok bool) {
	if r.Hello != nil {
		return c.directory.Absence(agent, r.Session, now)
	}
	if sealed.After(now) {
		sealed = now
	}
	a, ok = c.directory.Absence(agent, r.Session, sealed)
	return a, ok && a.Alive.IsZero()
}

// storeAbsence stores an absence. If that fails, the time before the return counts as unknown from an earlier moment
// on.
func (c *collector) storeAbsence(ctx context.Context, a store.Absence) {
	if err := c.store.PutAbsence(ctx, a); err != nil {
		c.log.WarnContext(ctx, "cannot store the absence of agent", "agent", a.Agent, "error", err)
	}
}

// take stores a report, and adds the answer to an introduction. It stores observations and events first, so that a
// reader of an outcome also sees the state and events behind it. take ignores all of an introduction that is not in its
// turn.
func (c *collector) take(ctx context.Context, agent string, r *wire.Report, ack *wire.ReportAck) error {
	incarnation := c.incarnation().ID
	from := store.ReportMark{
		Agent: agent, Session: r.Session, Number: r.Number, Hello: r.Hello != nil, LastStates: r.Told,
	}
	known, other := c.observe(ctx, from, r)
	if other != nil && !errors.Is(other, store.ErrOtherSession) {
		return other
	}
	if r.Hello != nil {
		if err := c.join(ctx, agent, r.Place, *r.Hello); err != nil {
			return err
		}
	}
	if err := c.history(ctx, agent, r.Events); err != nil {
		return err
	}
	if err := c.progress(ctx, agent, r.Progress); err != nil {
		return err
	}
	if other == nil && r.Whole {
		if err := c.directory.RecordSynced(ctx, agent, incarnation); err != nil {
			return err
		}
	}
	if r.Hello == nil {
		return other
	}
	a, _ := c.directory.ByKey(agent)
	known = known && r.Incarnation == incarnation && (a.SyncedIncarnation == incarnation || incarnation == "")
	desired, err := c.reconcile(ctx, from, r.Hello.Disk)
	if err != nil {
		return err
	}
	if err := c.introduced(ctx, agent, r.Hello.Groups); err != nil {
		return err
	}
	if ack.Heard, err = c.store.LastEvents(ctx, agent, heardStreams); err != nil {
		return err
	}
	ack.Known, ack.Desired = known, desired
	c.directory.Introduced(agent, factsOf(shortHello(*r.Hello), r.Place), c.clock.now())
	c.returned(agent)
	return nil
}

// heardStreams is of how many of its streams an agent learns the last event that the database has. It needs that of its
// last one that the database knows; clocks that were set back change their order.
const heardStreams = 8

func factsOf(h wire.Hello, place string) fleet.Facts {
	facts := fleet.Facts{
		Place: place, Policy: h.Policy, Wanted: h.Wanted, Upgrade: h.Upgrade,
	}
	if h.Started > 0 && h.Started <= lastMoment {
		facts.Started = time.Unix(h.Started, 0)
	}
	return facts
}

// join updates the register from an agent's introduction. The area stays as it was when the agent joined: an agent
// cannot move itself to another area. An agent does not get a name that another agent holds, but its results still
// count.
func (c *collector) join(ctx context.Context, agent, place string, h wire.Hello) error {
	now := c.clock.now()
	h = shortHello(h)
	a, known := c.directory.ByKey(agent)
	if !known {
		a = store.Agent{Key: agent, Cloud: h.Cloud, Created: now}
	}
	if h.Cloud != a.Cloud {
		c.log.WarnContext(ctx, "agent claimed another area", "agent", agent, "area", a.Cloud, "claimed", h.Cloud)
	}
	if a.Token == "" {
		a.IP, a.ID = h.IP, h.ID
	} else if h.IP != a.IP || h.ID != a.ID { // the token admitted the agent under its stored names only
		c.log.WarnContext(ctx, "agent claimed other names than the names that it joined with", "agent", agent,
			"ip", a.IP, "claimed_ip", h.IP, "claimed_id", h.ID)
	}
	a.Build, a.Place, a.Host = h.Build, place, hostOf(h.Host, a.Host)
	if h.Name != "" {
		a.Name = h.Name
	}
	err := c.directory.Join(ctx, a, now)
	if errors.Is(err, fleet.ErrTaken) || errors.Is(err, fleet.ErrElsewhere) || errors.Is(err, fleet.ErrMisleading) {
		c.log.WarnContext(ctx, "agent claimed the name of another", "agent", agent, "error", err)
		return nil
	}
	if err == nil {
		c.log.InfoContext(ctx, "agent introduced itself", "agent", agent, "cloud", a.Cloud, "ip", a.IP,
			"build", a.Build)
	}
	return err
}

// observe stores the states of a report. known is that of store.Observations, for an introduction.
func (c *collector) observe(ctx context.Context, from store.ReportMark, r *wire.Report) (known bool, err error) {
	agent := from.Agent
	if r.Hello == nil && len(r.Observed) == 0 {
		return false, nil
	}
	rows := make([]store.Observed, 0, len(r.Observed))
	var gone []store.Removal
	strange := 0
	for _, o := range r.Observed {
		if process.ValidateID(o.Process) != nil { // no caller can have asked for it
			strange++
			continue
		}
		if o.Status.Revision > math.MaxInt64 {
			o.Status.Revision = 0 // the agent is faulty
		}
		if o.Spec != nil {
			o.Spec.Revision = max(o.Spec.Revision, 0)
		}
		if o.Gone {
			gone = append(gone, store.Removal{
				Agent: agent, Process: o.Process, Revision: o.Status.Revision,
				At: c.clock.now(),
			})
		} else {
			rows = append(rows, store.Observed{
				Agent: agent, Process: o.Process, Status: shortenedStatus(o.Status),
				Spec: o.Spec,
			})
		}
	}
	if strange > 0 {
		c.log.WarnContext(ctx, "dropped states of processes with invalid names", "agent", agent, "states", strange)
	}
	if r.Hello != nil {
		var keep []process.ID
		if r.Hello.Disk != nil { // the states of these processes follow
			keep = slices.Collect(maps.Keys(r.Hello.Disk.Records))
		}
		if known, err = c.store.ReplaceObserved(ctx, from, rows, keep); err != nil {
			return known, err
		}
		c.bus.Changed(bus.Processes, bus.Hosts)
		if len(gone) == 0 {
			return known, nil
		}
		rows = nil
	}
	if err = c.store.PutObserved(ctx, from, rows, gone); err == nil {
		c.bus.Changed(bus.Processes)
	}
	return known, err
}

// history stores events and wakes their readers. It drops events older than the retention time, because the store may
// have pruned them before. If an agent has reported too many events, history rejects them, and the agent resends them
// later.
func (c *collector) history(ctx context.Context, agent string, lines [][]byte) error {
	if len(lines) == 0 {
		return nil
	}
	now := c.clock.now()
	events, old, strange := make([]store.NewEvent, 0, len(lines)), 0, 0
	oldest, latest := now.Add(-c.retention).UnixMilli(), now.Add(clocksApart).UnixMilli()
	var told process.Event
	for _, line := range lines {
		told = process.Event{}
		unread := json.Unmarshal(line, &told)
		e, ok := shortEvent(told)
		if e.At > latest { // no later event may appear to precede it
			e.At = now.UnixMilli()
		}
		switch {
		case unread != nil || !ok || ofServers(e.Kind): // the agent is faulty, and must not resend the event forever
			strange++
		case e.At < oldest:
			old++
		default:
			if err := c.revised(ctx, agent, &e); err != nil {
				return err
			}
			events = append(events, encoded(&e, &told, line))
		}
	}
	if strange > 0 {
		c.log.WarnContext(ctx, "dropped events without a name or with an unknown kind", "agent", agent,
			"events", strange)
	}
	if old > 0 {
		c.log.WarnContext(ctx, "dropped events older than the retention time", "agent", agent, "events", old)
	}
	if len(events) == 0 {
		return nil
	}
	if wait := c.quotas.take(agent, len(events), now); wait > 0 {
		return &tooManyError{wait: wait}
	}
	stored, err := c.store.PutEvents(ctx, agent, now, events)
	if err != nil {
		return err
	}
	if stored > 0 {
		c.bus.Changed(bus.Events)
	}
	if c.quotas.addStored(agent, stored) {
		return trim(ctx, c.store, agent, mostOfAgent)
	}
	return nil
}

// ofServers reports whether only servers tell events of a kind.
func ofServers(kind process.EventKind) bool {
	switch kind {
	case process.EventBreakerOpened, process.EventBreakerClosed, process.EventScheduleFailed,
		process.EventScheduleRecovered, process.EventRolloutPaused, process.EventRolloutHeld,
		process.EventRolloutResumed, process.EventRolloutDone, process.EventRolloutFailed,
		process.EventRolloutAborted, process.EventHostAway,
		process.EventHostBack, process.EventHostRemoved:
		return true
	default:
		return false
	}
}

// revised completes the event of a changed spec with the fields that the revision of the event has changed.
func (c *collector) revised(ctx context.Context, agent string, e *process.Event) error {
	if e.Kind != process.EventUpdated || e.Revision == 0 || e.Former == 0 {
		return nil
	}
	from, to, err := c.store.RevisedSpecs(ctx, e.Process, agent, e.Former, e.Revision)
	if err != nil || from == nil || to == nil {
		return err
	}
	fields := plan.Fields(from, to)
	for i, f := range fields {
		if i == maxFields {
			e.Fields = append(e.Fields, fmt.Sprintf("%d more", len(fields)-i))
			break
		}
		e.Fields = append(e.Fields, shortWord(f.Path))
	}
	return nil
}

// lastMoment is the last time that JSON can represent, in Unix seconds: the end of the year 9999. Servers exchange what
// agents report.
const lastMoment = 253402300799

// clocksApart is how far the clock of a host may be ahead. The server replaces the time of an event that is further
// ahead by its own time.
const clocksApart = 24 * time.Hour

// maxSeq is the greatest number of an event.
const maxSeq = math.MaxInt64

// maxStream is the longest name of a stream of events.
const maxStream = 64

// acceptItems records the items that the agent has and has not begun. It returns the items that the agent must not
// begin.
func (c *collector) acceptItems(ctx context.Context, agent string, open []string) (ended []string, err error) {
	if len(open) == 0 {
		return nil, nil
	}
	return c.store.AcceptItems(ctx, agent, open, c.clock.now().Add(task.WaitLimit))
}

// beganBy returns the deadline of an item that has begun, by its limit in seconds.
func beganBy(limit int, now time.Time) time.Time {
	began := task.Began{Limit: time.Duration(min(limit, int(task.LongestRun/time.Second))) * time.Second}
	return task.Next(task.Item{}, began, now).Deadline
}

func (c *collector) progress(ctx context.Context, agent string, all []wire.Progress) error {
	now := c.clock.now()
	deadlines := map[string]time.Time{}
	var given []store.ReportedOutcome
	for _, p := range all {
		if p.Outcome != nil {
			given = append(given, store.ReportedOutcome{Agent: agent, Item: p.Item, Outcome: shortened(*p.Outcome)})
			continue
		}
		deadlines[p.Item] = beganBy(p.Limit, now)
	}
	if len(deadlines) > 0 {
		if err := c.store.Begin(ctx, agent, deadlines); err != nil {
			return err
		}
		c.begun()
	}
	if len(given) > 0 {
		if err := c.outcomes.put(ctx, given); err != nil {
			return err
		}
	}
	for i := range all {
		c.dropReceipt(all[i].Item)
	}
	return nil
}
