package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/idle"
	"drover/internal/process"
	"drover/internal/release"
)

// Orders tracks orders as package orders does.
type Orders interface {
	// MayBegin reports whether an order is still wanted. It may wait for that until ctx ends, which is an error.
	MayBegin(ctx context.Context, item string) (bool, error)
	Began(item string, limit time.Duration)
	Finished(item string, outcome process.Outcome)
}

// Journal stores outcomes as package specstore does.
type Journal interface {
	Finish(item string, id process.ID, outcome process.Outcome, change specstore.Change) error
	BootID() string
}

// Config is what an upgrader needs.
type Config struct {
	// Dir is the directory of the agent.
	Dir string
	// Keys are the release keys that the owner of the host has pinned. Without one nothing is taken.
	Keys []string
	// Arch, Format and Version are those of this program; Version is empty if it has no order (release.Ordered).
	Arch    string
	Format  int
	Version string
	// Trial tells that this program is being tried: it begins no other trial.
	Trial   bool
	Orders  Orders
	Journal Journal
	// Allow returns why the policy of the host denies an operation.
	Allow func(op process.Op) error
	// Ask sends a question about a package and returns the answer.
	Ask func(ctx context.Context, question []byte) ([]byte, error)
	// Sights returns the running processes that this agent sees.
	Sights func() []Sight
	// Changed is called when Verdict has changed, with the event that tells of it.
	Changed func(e process.Event)
	// Clock is the time since boot.
	Clock func() time.Duration
	Log   *slog.Logger
}

// Sight is a running process that an agent sees.
type Sight struct {
	Process  process.ID        `json:"process"`
	Instance instance.Identity `json:"instance"`
}

// PendingTrial is a trial that has to begin when the agent has ended.
type PendingTrial struct {
	// Before are the processes that the next program must see.
	Before []Sight
}

// Upgrader carries out the orders that replace the program of the agent, one after another. It is safe for concurrent
// use.
type Upgrader struct {
	cfg   Config
	state state
	// broken is why the state cannot be read.
	broken error
	wake   chan struct{}

	mu           sync.Mutex
	queue        []record.Entry
	pendingTrial *PendingTrial
	verdict      *Verdict
	// name is the version as which an order has named this program; empty if none has.
	name string
}

// New returns an upgrader that does nothing until Run. If the state on the disk is damaged, it refuses every order.
func New(cfg Config) *Upgrader {
	s, err := load(cfg.Dir)
	return &Upgrader{cfg: cfg, state: s, broken: err, wake: make(chan struct{}, 1), verdict: s.Verdict}
}

// Verdict returns the version that the last order named, and how the order ended; empty if there was none. An order
// without a trial counts until the agent ends.
func (u *Upgrader) Verdict() (version, text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.verdict == nil {
		return "", ""
	}
	return u.verdict.Version, u.verdict.Text
}

// Name returns the version as which an order has named this program since its start; empty if none has.
func (u *Upgrader) Name() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.name
}

// Begun reports whether an order had begun when the upgrader was made.
func (u *Upgrader) Begun(item string) bool {
	s := &u.state
	return s.Fetching == item || s.Trial != nil && s.Trial.Item == item || s.Verdict != nil && s.Verdict.Item == item
}

// Submit queues orders. It does not block.
func (u *Upgrader) Submit(entries []record.Entry) {
	u.mu.Lock()
	u.queue = append(u.queue, entries...)
	u.mu.Unlock()
	idle.Wake(u.wake)
}

// PendingTrial returns the trial that has to begin; nil if there is none. Call it after Run.
func (u *Upgrader) PendingTrial() *PendingTrial {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pendingTrial
}

// Run carries out orders until ctx ends. If a trial has to begin, it calls stop, which ends the agent.
func (u *Upgrader) Run(ctx context.Context, stop func()) error {
	u.tell()
	lasted := time.NewTimer(lasting)
	defer lasted.Stop()
	for ctx.Err() == nil {
		u.mu.Lock()
		var next *record.Entry
		if len(u.queue) > 0 {
			next = &u.queue[0]
			u.queue = u.queue[1:]
		}
		u.mu.Unlock()
		switch {
		case next == nil:
			select {
			case <-u.wake:
			case <-lasted.C:
				u.endProbation()
			case <-ctx.Done():
			}
		case u.carryOut(ctx, next):
			stop()
			<-ctx.Done()
		}
	}
	return nil
}

// tell reports that the host went back after the trial of a version, once.
func (u *Upgrader) tell() {
	v := u.state.Verdict
	if u.cfg.Trial || v == nil || !v.Untold {
		return
	}
	u.cfg.Changed(process.Event{
		Kind: process.EventAgentKept, Actor: process.Actor{Kind: process.ActorPolicy},
		Cause: process.Cause{Text: v.Text},
	})
	told := *v
	told.Untold = false
	u.state.Verdict = &told
	u.saveState("that the host went back")
}

// endProbation notes that the version in use has run for long enough.
func (u *Upgrader) endProbation() {
	if u.cfg.Trial || u.state.Probation == nil {
		return
	}
	u.state.Probation = nil
	u.saveState("the end of a probation")
}

// saveState stores the state. If it cannot, the next start sees the former one.
func (u *Upgrader) saveState(what string) {
	if err := save(u.cfg.Dir, u.state); err != nil {
		u.cfg.Log.Error("cannot note the state of upgrades", "missing", what, "error", err)
	}
}

const (
	// fetchLimit is how long a host may take to fetch a program.
	fetchLimit = 30 * time.Minute
	// trialLimit is longer than any trial.
	trialLimit = 15 * time.Minute
	// beginMargin is how long before its deadline an order begins at the latest.
	beginMargin = time.Minute
	storeAgain  = time.Second
)

// carryOut carries out an order, and reports whether its trial has to begin.
func (u *Upgrader) carryOut(ctx context.Context, e *record.Entry) (due bool) {
	if v := u.state.Verdict; v != nil && v.Item == e.Item {
		u.finish(ctx, e, process.Outcome{Fault: v.Fault, Text: v.Text})
		return false
	}
	if u.cfg.Trial {
		return false // the journal keeps it for the agent after the trial
	}
	version := e.Op.Version()
	target, outcome, err := u.prepare(ctx, e, version)
	switch {
	case ctx.Err() != nil:
		return false // the next agent goes on
	case err != nil:
		u.finish(ctx, e, refusal(err))
		return false
	case outcome != nil:
		u.finish(ctx, e, *outcome)
		return false
	}
	next := u.state
	next.Trial, next.Verdict, next.Fetching = &Trial{Item: e.Item, Program: *target}, nil, ""
	if err := save(u.cfg.Dir, next); err != nil {
		u.finish(ctx, e, refusal(err))
		return false
	}
	u.cfg.Log.Info("trying another version of the agent", "version", version, "item", e.Item)
	u.mu.Lock()
	u.pendingTrial = &PendingTrial{Before: u.cfg.Sights()}
	u.mu.Unlock()
	return true
}

func refusal(err error) process.Outcome {
	return process.Outcome{Fault: process.Failed, Text: err.Error(), Cause: process.CauseOf(err)}
}

// errNoKey says that the owner of the host wants no upgrades by servers.
var errNoKey = errors.New(
	"this host pins no release key (release-keys in its agent.conf), so it takes no version from a server")

// prepare has a program on the disk that may be tried, or returns an outcome. While the program is on its way, nothing
// has begun and the order can be cancelled, until shortly before its deadline.
func (u *Upgrader) prepare(ctx context.Context, e *record.Entry, version string) (*Program, *process.Outcome, error) {
	begun := u.state.Fetching == e.Item
	if !begun && e.Expired(u.cfg.Journal.BootID(), u.cfg.Clock(), time.Now()) {
		return nil, nil, fmt.Errorf("expired: the upgrade was not begun by %s", e.Expires.UTC().Format(time.RFC3339))
	}
	if err := u.checkAllowed(e.Op, version); err != nil {
		return nil, nil, err
	}
	early, cancel := context.WithTimeout(ctx, u.timeToBegin(e)-beginMargin)
	defer cancel()
	if begun {
		early = ctx
	}
	target, outcome, err := u.obtain(early, version)
	late := early.Err() != nil && ctx.Err() == nil
	switch wanted, failed := u.cfg.Orders.MayBegin(ctx, e.Item); {
	case failed != nil:
		return nil, nil, failed
	case !wanted:
		not := process.NotBegun()
		return nil, &not, nil
	}
	u.cfg.Orders.Began(e.Item, fetchLimit+trialLimit)
	if !late {
		return target, outcome, err
	}
	next := u.state
	next.Fetching = e.Item
	if err := save(u.cfg.Dir, next); err != nil {
		return nil, nil, err
	}
	u.state = next
	return u.obtain(ctx, version)
}

// timeToBegin returns how long an order may wait for its beginning.
func (u *Upgrader) timeToBegin(e *record.Entry) time.Duration {
	if e.Boot == u.cfg.Journal.BootID() {
		return e.BeginBy - u.cfg.Clock()
	}
	return time.Until(e.Expires)
}

// checkAllowed returns why this host does not accept a version; nil if the host accepts the version.
func (u *Upgrader) checkAllowed(op process.Op, version string) error {
	if err := u.cfg.Allow(op); err != nil {
		return err
	}
	if len(u.cfg.Keys) == 0 {
		return errNoKey
	}
	if u.broken != nil {
		return fmt.Errorf("refused: %w: remove %s", u.broken, stateOf(u.cfg.Dir))
	}
	return release.CheckVersion(version)
}

func (u *Upgrader) obtain(ctx context.Context, version string) (*Program, *process.Outcome, error) {
	limited, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	from := &source{
		dir: u.cfg.Dir, keys: u.cfg.Keys, arch: u.cfg.Arch, ask: u.cfg.Ask, step: func(string) error { return nil },
	}
	p, err := from.describe(limited, version)
	if err != nil {
		return nil, nil, err
	}
	target := &Program{Version: version, SHA256: p.SHA256, Signed: p.Signed, Format: p.Format}
	present := release.Host{
		Arch: u.cfg.Arch, Format: u.cfg.Format, Version: u.cfg.Version, Signed: u.state.Signed, Now: time.Now(),
	}
	keep := []string{p.SHA256}
	if c := u.state.Current; c != nil {
		present.Version = c.Version
		keep = append(keep, c.SHA256)
	}
	if u.state.Probation != nil && u.state.Probation.Former != nil {
		keep = append(keep, u.state.Probation.Former.SHA256)
	}
	err = p.Fits(present)
	switch c := u.state.Current; {
	case err == nil && c != nil && c.SHA256 == p.SHA256:
		outcome, err := u.rename(target)
		return nil, outcome, err
	case c != nil && c.SHA256 == p.SHA256 && c.Version == version:
		return nil, &process.Outcome{Text: "version " + version + " was already in use"}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("refused: %w", err)
	}
	tidy(u.cfg.Dir, keep...)
	if err := from.fetch(limited, &p); err != nil {
		return nil, nil, err
	}
	return target, nil, nil
}

// rename notes that the program in use has a later signature, and maybe the name of another version.
func (u *Upgrader) rename(target *Program) (*process.Outcome, error) {
	next, former := u.state, u.state.Current.Version
	next.Current, next.Signed = target, max(next.Signed, target.Signed)
	if err := save(u.cfg.Dir, next); err != nil {
		return nil, err
	}
	u.state = next
	if former == target.Version {
		return &process.Outcome{Text: "version " + target.Version + " was already in use"}, nil
	}
	u.mu.Lock()
	u.name = target.Version
	u.mu.Unlock()
	return &process.Outcome{Text: "version " + target.Version + " is the same program as version " + former +
		", which was in use: the host has taken the new name"}, nil
}

// finish stores the outcome of an order and reports it.
func (u *Upgrader) finish(ctx context.Context, e *record.Entry, outcome process.Outcome) {
	if outcome.Fault == process.None && outcome.Text == "" {
		outcome.Text = process.Success
	}
	for {
		err := u.cfg.Journal.Finish(e.Item, e.Process, outcome, specstore.Change{})
		if err == nil {
			break
		}
		u.cfg.Log.Error("cannot store outcome of an upgrade, retrying", "item", e.Item, "error", err)
		if !idle.Sleep(ctx, storeAgain) {
			return
		}
	}
	u.cfg.Log.Info("upgrade ended", "item", e.Item, "fault", outcome.Fault, "text", outcome.Text)
	if u.state.Fetching == e.Item {
		u.state.Fetching = ""
		u.saveState("the end of an upgrade")
	}
	u.mu.Lock()
	u.verdict = &Verdict{Item: e.Item, Version: e.Op.Version(), Fault: outcome.Fault, Text: outcome.Text}
	u.mu.Unlock()
	u.cfg.Orders.Finished(e.Item, outcome)
	event := process.Event{
		Kind: process.EventAgentUpgraded, Actor: e.Actor, Cause: process.Cause{ID: outcome.Cause, Text: outcome.Text},
	}
	event.Actor.Operation = cmp.Or(e.Actor.Operation, e.Item)
	if event.Actor.Kind = process.ActorCaller; outcome.Fault != process.None {
		event.Kind = process.EventAgentKept
	}
	u.cfg.Changed(event)
}
