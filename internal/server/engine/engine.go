// Package engine carries accepted tasks to their end: it sends items to their agents, processes the agents' reports,
// expires overdue items, and removes old rows. Each job is a loop over the store, which alone holds the state. If an
// engine dies at any point, nothing is lost, because the next engine finds the items in the store. It moves no bytes
// itself (Link does) and knows neither HTTP nor NATS. Package task decides how an event changes an item.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/process"
	"drover/internal/server/bus"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/task"
	"drover/internal/wire"
)

// ErrNobody is returned by a Link, at once, if the agent has no subscription.
var ErrNobody = errors.New("the agent is not connected")

// Link carries orders to agents.
type Link interface {
	// Send delivers a manifest to the agent and returns its receipt; nobody else can read or make either. It fails when
	// the context ends. Send may be called for many agents at the same time. After any error except ErrNobody, the
	// agent may have the manifest.
	Send(ctx context.Context, agent string, manifest []byte) (receipt []byte, err error)
	// Ping returns nil when the agent itself answers; the answer does not depend on the agent's disk. Otherwise Ping
	// works as Send.
	Ping(ctx context.Context, agent string) error
}

// Store is what the engine needs of the database.
type Store interface { //nolint:interfacebloat // the sum of the small ones, and a question of its own
	store.Tasks
	store.Items
	store.Observations
	store.Confirmations
	store.Revisions
	// AgentGroups returns the process groups that the agent is to have, by namespace.
	AgentGroups(ctx context.Context, agent string) (map[string][]process.Group, error)
	store.Events
	// PutAbsence works as store.Runs.
	PutAbsence(ctx context.Context, a store.Absence) error
	// PruneRollouts works as store.Rollouts.
	PruneRollouts(ctx context.Context, before time.Time, limit int) (int, error)
	// PruneSilences works as store.Silences.
	PruneSilences(ctx context.Context, before time.Time, limit int) (int, error)
	// PruneSelections works as in store.CallerSelections.
	PruneSelections(ctx context.Context, before time.Time, limit int) (int, error)
	// Ping fails when the database cannot take a write now.
	Ping(ctx context.Context) error
}

// Config holds the parts and settings of an engine. The fields of the second group have defaults.
type Config struct {
	Store     Store
	Directory *fleet.Directory
	Link      Link
	// Bus gets notices of what the engine stores. The default is one without listeners.
	Bus *bus.Bus
	// Identity checks the identity of reporting agents.
	Identity IdentityHooks
	Log      *slog.Logger

	// Now is the common time of all servers of the database; changes of the wall clock do not affect it. The default
	// starts at the wall clock of the engine's creation and then follows the monotonic clock.
	Now func() time.Time
	// Incarnation returns the present incarnation of the database. The default is none, which every agent knows.
	Incarnation func() store.Incarnation
	// Shared connects an engine to the other engines on its database; nil means that there are none.
	Shared *Shared
	// Retention is how long tasks are kept after their creation (7 days), and AuditRetention how long audit rows are
	// kept (90 days). EventRetention is how long events are kept after their arrival (28 days); there are at most
	// MostEvents (1,000,000). RemovalRetention is how long the store remembers that a process was unregistered, so that
	// an old disk cannot restore it (90 days). RevisionRetention is how long revisions are kept at least (30 days); the
	// store keeps the latest revisions of each namespace whatever their age.
	Retention, AuditRetention, EventRetention, RemovalRetention, RevisionRetention time.Duration
	MostEvents                                                                     int
	// SendTimeout is how long after a send an agent may answer with a receipt, and may begin the orders without asking
	// a server (3 s).
	SendTimeout time.Duration
	// MostOpen is how many items of all servers may be open before further tasks are rejected (500,000).
	MostOpen int
	// Parallel is how many agents the engine sends to at the same time (1,024). If that many agents are slow, the
	// others wait.
	Parallel int
}

// Shared connects the engines on one database. Each engine notifies the others, and polls the database for missed
// notices (every 2 s).
type Shared struct {
	// Finished gets the tasks whose items have just got an outcome. It must not block.
	Finished func(tasks []string)
	// Turn reports whether this engine should do a job that only one engine does at a time, and not again within the
	// given interval.
	Turn func(ctx context.Context, what string, every time.Duration) (bool, error)
	// Elsewhere reports whether another engine may reach an agent that this one does not.
	Elsewhere func(agent string) bool
	Look      time.Duration
}

func (c *Config) setDefaults() {
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	set(&c.Retention, store.TasksKept)
	set(&c.AuditRetention, 90*24*time.Hour)
	set(&c.EventRetention, 28*24*time.Hour)
	set(&c.RemovalRetention, 90*24*time.Hour)
	set(&c.RevisionRetention, 30*24*time.Hour)
	set(&c.SendTimeout, 3*time.Second)
	if c.Parallel <= 0 {
		c.Parallel = 1024
	}
	if c.MostOpen <= 0 {
		c.MostOpen = 500_000
	}
	if c.MostEvents <= 0 {
		c.MostEvents = 1_000_000
	}
	if c.Now == nil {
		c.Now = monotonicNow()
	}
	if c.Incarnation == nil {
		c.Incarnation = func() store.Incarnation { return store.Incarnation{} }
	}
	if c.Identity.Trust == nil {
		c.Identity.Trust = func(context.Context, string, wire.TrustHeld) []byte { return nil }
	}
	if c.Identity.Sealing == nil {
		c.Identity.Sealing = func(context.Context, string, []byte) {}
	}
	if c.Identity.Cloned == nil {
		c.Identity.Cloned = func(context.Context, string, fleet.Rival) {}
	}
	if c.Bus == nil {
		c.Bus = bus.New(time.Now())
	}
	if c.Shared == nil {
		c.Shared = &Shared{
			Finished:  func([]string) {},
			Turn:      func(context.Context, string, time.Duration) (bool, error) { return true, nil },
			Elsewhere: func(string) bool { return false },
		}
	} else if c.Shared.Look <= 0 {
		c.Shared.Look = 2 * time.Second
	}
}

// Engine is the task engine of one server. Its methods may be called from any goroutine.
type Engine struct {
	store    Store
	clock    clock
	shared   *Shared
	submits  *submitLimiter
	waiters  *waiters
	bus      *bus.Bus
	dispatch *dispatcher
	receipts *receipts
	collect  *collector
	sweep    *sweeper
	clean    *cleaner
	restores *agentQuotas
}

// New returns an engine. It does nothing on its own before Run.
func New(c Config) *Engine {
	c.setDefaults()
	e := &Engine{
		store: c.Store, clock: clock{c.Now}, shared: c.Shared, waiters: newWaiters(),
		bus: c.Bus,
	}
	e.submits = newSubmitLimiter(c, e.clock)
	e.restores = newAgentQuotas(restoreBurst, restoreRate)
	e.sweep = newSweeper(c, e.clock, e.finished)
	e.receipts = newReceipts(c, e.begun)
	told := newOutcomes(c.Store, e.finished)
	e.dispatch = newDispatcher(c, e.clock, e.receipts, told, e.begun)
	e.collect = &collector{
		store: c.Store, clock: e.clock, directory: c.Directory, log: c.Log,
		bus: c.Bus, begun: e.begun, outcomes: told, returned: e.dispatch.returned,
		introduced: e.restore, dropReceipt: e.receipts.drop, identity: c.Identity, retention: c.EventRetention,
		ping: func(ctx context.Context, agent string) {
			ctx, cancel := context.WithTimeout(ctx, pingTime)
			defer cancel()
			_ = c.Link.Ping(ctx, agent) // any host with the key may answer; what counts is its report
		},
		quotas:      newAgentQuotas(eventBurst, eventRate),
		reconcile:   (&reconciler{store: c.Store, clock: e.clock, bus: c.Bus, log: c.Log}).answer,
		incarnation: c.Incarnation,
	}
	e.clean = &cleaner{
		store: c.Store, clock: e.clock, turn: c.Shared.Turn, log: c.Log,
		tasks: c.Retention, audit: c.AuditRetention, events: c.EventRetention, removals: c.RemovalRetention,
		revisions:  c.RevisionRetention,
		mostEvents: c.MostEvents,
	}
	return e
}

// Run runs all loops until the context ends, and returns when they and their sends have ended.
func (e *Engine) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	for _, run := range []func(context.Context){
		e.dispatch.run, e.receipts.run, e.sweep.run, e.clean.run, e.pollOtherEngines,
	} {
		loops.Go(func() { run(ctx) })
	}
	loops.Wait()
	e.receipts.write(ctx) // receipts of the last sends
	return nil
}

// Submit stores the task, which is created now by the engine's clock, and has its items sent. When it returns nil the
// task is on disk, and will be finished by this engine or by a later one. It returns a *task.BusyError, at once, where
// too much is under way.
func (e *Engine) Submit(ctx context.Context, t *store.Task, row store.AuditRow) error {
	stored, err := e.submits.admit(ctx, t)
	if err != nil {
		return fmt.Errorf("cannot submit task: %w", err)
	}
	defer stored()
	return e.submit(ctx, t, row)
}

// submit is Submit for tasks of the engine itself.
func (e *Engine) submit(ctx context.Context, t *store.Task, row store.AuditRow) error {
	t.Created = e.clock.now()
	items, err := e.store.CreateTask(ctx, t, row, t.Created.Add(e.dispatch.lease), e.dispatch.freeSlots())
	if err != nil {
		return fmt.Errorf("cannot submit task: %w", err)
	}
	e.bus.Changed(bus.Tasks)
	e.dispatch.enqueue(items)
	e.sweep.wake.raise()
	return nil
}

// Wait blocks until every key of the task has its outcome. It returns the context's error when that ends first, and
// store.ErrNotFound for an unknown task.
func (e *Engine) Wait(ctx context.Context, id string) error {
	woken, stop := e.waiters.watch(id)
	defer stop()
	for {
		begun := time.Now()
		open, err := e.store.TaskOpen(ctx, id)
		if err != nil {
			return fmt.Errorf("cannot wait for task: %w", err)
		}
		if !open {
			return nil
		}
		rest := lookShare * time.Since(begun)
		woken.wait(ctx, nil)
		// The items of a large task end by the hundred, so most of the time must go to them and not to their readers.
		if rest -= time.Since(begun); rest > 0 {
			idle.Sleep(ctx, rest)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// lookShare is the minimum pause between two reads of a task, as a multiple of the duration of a read.
const lookShare = 5

// CountQueued counts the items that wait in memory while something else is on the way to their agents.
func (e *Engine) CountQueued() int { return e.dispatch.outbox.countQueued() }

// begun is called when agents have begun items, so that their deadlines have changed.
func (e *Engine) begun() {
	e.sweep.wake.raise()
	e.bus.Changed(bus.Tasks, bus.Rollouts)
}

// finished is called with the tasks of items that have just got their outcome. It wakes the callers that wait for these
// tasks, and the dispatcher for the next operation on each process.
func (e *Engine) finished(tasks []string) {
	if len(tasks) == 0 {
		return
	}
	e.waiters.wake(tasks)
	e.dispatch.wake.raise()
	e.bus.Changed(bus.Tasks, bus.Rollouts)
	e.shared.Finished(tasks)
}

// machine returns the fields of a stored item that package task needs.
func machine(it *store.Item) task.Item {
	return task.Item{State: it.State, Attempts: it.Attempts, Deadline: it.Deadline}
}

// conclude gives each item the outcome that the state machine decides for the event, if any. It returns the number of
// ended items.
func conclude(ctx context.Context, s Store, now time.Time, finished func([]string), items []store.Item,
	event func(*store.Item) task.Event,
) (int, error) {
	var ended []store.DecidedOutcome
	for i := range items {
		if next := task.Next(machine(&items[i]), event(&items[i]), now); next.State == task.Done {
			ended = append(ended, store.DecidedOutcome{Item: items[i], Outcome: *next.Outcome})
		}
	}
	tasks, err := s.Conclude(ctx, ended)
	if err != nil {
		return 0, err
	}
	finished(tasks)
	return len(ended), nil
}
