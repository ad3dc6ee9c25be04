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

// Config is what a keeper needs.
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

// Due is a trial that has to begin when the agent has ended.
type Due struct {
	// Before are the processes that the next program must see.
	Before []Sight
}

// Keeper carries out the orders that replace the program of the agent, one after another. It is safe for concurrent
// use.
type Keeper struct {
	cfg   Config
	state state
	// broken is why the state cannot be read.
	broken error
	wake   chan struct{}

	mu      sync.Mutex
	queue   []record.Entry
	due     *Due
	verdict *Verdict
	// name is the version as which an order has named this program; empty if none has.
	name string
}

// NewKeeper returns a keeper that does nothing until Run. If the state on the disk is damaged, it refuses every order.
func NewKeeper(cfg Config) *Keeper {
	s, err := load(cfg.Dir)
	return &Keeper{cfg: cfg, state: s, broken: err, wake: make(chan struct{}, 1), verdict: s.Verdict}
}

// Verdict returns the version that the last order named, and how the order ended; empty if there was none. An order
// without a trial counts until the agent ends.
func (k *Keeper) Verdict() (version, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.verdict == nil {
		return "", ""
	}
	return k.verdict.Version, k.verdict.Text
}

// Name returns the version as which an order has named this program since its start; empty if none has.
func (k *Keeper) Name() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.name
}

// Begun reports whether an order had begun when the keeper was made.
func (k *Keeper) Begun(item string) bool {
	s := &k.state
	return s.Fetching == item || s.Trial != nil && s.Trial.Item == item || s.Verdict != nil && s.Verdict.Item == item
}

// Submit queues orders. It does not block.
func (k *Keeper) Submit(entries []record.Entry) {
	k.mu.Lock()
	k.queue = append(k.queue, entries...)
	k.mu.Unlock()
	idle.Wake(k.wake)
}

// Due returns the trial that has to begin; nil if there is none. Call it after Run.
func (k *Keeper) Due() *Due {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.due
}

// Run carries out orders until ctx ends. If a trial has to begin, it calls stop, which ends the agent.
func (k *Keeper) Run(ctx context.Context, stop func()) error {
	k.tell()
	lasted := time.NewTimer(lasting)
	defer lasted.Stop()
	for ctx.Err() == nil {
		k.mu.Lock()
		var next *record.Entry
		if len(k.queue) > 0 {
			next = &k.queue[0]
			k.queue = k.queue[1:]
		}
		k.mu.Unlock()
		switch {
		case next == nil:
			select {
			case <-k.wake:
			case <-lasted.C:
				k.endProbation()
			case <-ctx.Done():
			}
		case k.carryOut(ctx, next):
			stop()
			<-ctx.Done()
		}
	}
	return nil
}

// tell reports that the host went back after the trial of a version, once.
func (k *Keeper) tell() {
	v := k.state.Verdict
	if k.cfg.Trial || v == nil || !v.Untold {
		return
	}
	k.cfg.Changed(process.Event{
		Kind: process.EventAgentKept, Actor: process.Actor{Kind: process.ActorPolicy},
		Cause: process.Cause{Text: v.Text},
	})
	told := *v
	told.Untold = false
	k.state.Verdict = &told
	k.note("that the host went back")
}

// endProbation notes that the version in use has run for long enough.
func (k *Keeper) endProbation() {
	if k.cfg.Trial || k.state.Probation == nil {
		return
	}
	k.state.Probation = nil
	k.note("the end of a probation")
}

// note stores the state. If it cannot, the next start sees the former one.
func (k *Keeper) note(what string) {
	if err := save(k.cfg.Dir, k.state); err != nil {
		k.cfg.Log.Error("cannot note the state of upgrades", "missing", what, "error", err)
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
func (k *Keeper) carryOut(ctx context.Context, e *record.Entry) (due bool) {
	if v := k.state.Verdict; v != nil && v.Item == e.Item {
		k.finish(ctx, e, process.Outcome{Fault: v.Fault, Text: v.Text})
		return false
	}
	if k.cfg.Trial {
		return false // the journal keeps it for the agent after the trial
	}
	version := e.Op.Version()
	target, outcome, err := k.prepare(ctx, e, version)
	switch {
	case ctx.Err() != nil:
		return false // the next agent goes on
	case err != nil:
		k.finish(ctx, e, refusal(err))
		return false
	case outcome != nil:
		k.finish(ctx, e, *outcome)
		return false
	}
	next := k.state
	next.Trial, next.Verdict, next.Fetching = &Trial{Item: e.Item, Program: *target}, nil, ""
	if err := save(k.cfg.Dir, next); err != nil {
		k.finish(ctx, e, refusal(err))
		return false
	}
	k.cfg.Log.Info("trying another version of the agent", "version", version, "item", e.Item)
	k.mu.Lock()
	k.due = &Due{Before: k.cfg.Sights()}
	k.mu.Unlock()
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
func (k *Keeper) prepare(ctx context.Context, e *record.Entry, version string) (*Program, *process.Outcome, error) {
	begun := k.state.Fetching == e.Item
	if !begun && e.Expired(k.cfg.Journal.BootID(), k.cfg.Clock(), time.Now()) {
		return nil, nil, fmt.Errorf("expired: the upgrade was not begun by %s", e.Expires.UTC().Format(time.RFC3339))
	}
	if err := k.allowed(e.Op, version); err != nil {
		return nil, nil, err
	}
	early, cancel := context.WithTimeout(ctx, k.left(e)-beginMargin)
	defer cancel()
	if begun {
		early = ctx
	}
	target, outcome, err := k.obtain(early, version)
	late := early.Err() != nil && ctx.Err() == nil
	switch wanted, failed := k.cfg.Orders.MayBegin(ctx, e.Item); {
	case failed != nil:
		return nil, nil, failed
	case !wanted:
		not := process.NotBegun()
		return nil, &not, nil
	}
	k.cfg.Orders.Began(e.Item, fetchLimit+trialLimit)
	if !late {
		return target, outcome, err
	}
	next := k.state
	next.Fetching = e.Item
	if err := save(k.cfg.Dir, next); err != nil {
		return nil, nil, err
	}
	k.state = next
	return k.obtain(ctx, version)
}

// left returns how long an order may wait for its beginning.
func (k *Keeper) left(e *record.Entry) time.Duration {
	if e.Boot == k.cfg.Journal.BootID() {
		return e.BeginBy - k.cfg.Clock()
	}
	return time.Until(e.Expires)
}

// allowed returns why this host does not take a version at all.
func (k *Keeper) allowed(op process.Op, version string) error {
	if err := k.cfg.Allow(op); err != nil {
		return err
	}
	if len(k.cfg.Keys) == 0 {
		return errNoKey
	}
	if k.broken != nil {
		return fmt.Errorf("refused: %w: remove %s", k.broken, stateOf(k.cfg.Dir))
	}
	return release.CheckVersion(version)
}

func (k *Keeper) obtain(ctx context.Context, version string) (*Program, *process.Outcome, error) {
	limited, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	from := &source{
		dir: k.cfg.Dir, keys: k.cfg.Keys, arch: k.cfg.Arch, ask: k.cfg.Ask, step: func(string) error { return nil },
	}
	p, err := from.describe(limited, version)
	if err != nil {
		return nil, nil, err
	}
	target := &Program{Version: version, SHA256: p.SHA256, Signed: p.Signed, Format: p.Format}
	present := release.Host{
		Arch: k.cfg.Arch, Format: k.cfg.Format, Version: k.cfg.Version, Signed: k.state.Signed, Now: time.Now(),
	}
	keep := []string{p.SHA256}
	if c := k.state.Current; c != nil {
		present.Version = c.Version
		keep = append(keep, c.SHA256)
	}
	if k.state.Probation != nil && k.state.Probation.Former != nil {
		keep = append(keep, k.state.Probation.Former.SHA256)
	}
	err = p.Fits(present)
	switch c := k.state.Current; {
	case err == nil && c != nil && c.SHA256 == p.SHA256:
		outcome, err := k.rename(target)
		return nil, outcome, err
	case c != nil && c.SHA256 == p.SHA256 && c.Version == version:
		return nil, &process.Outcome{Text: "version " + version + " was already in use"}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("refused: %w", err)
	}
	tidy(k.cfg.Dir, keep...)
	if err := from.fetch(limited, &p); err != nil {
		return nil, nil, err
	}
	return target, nil, nil
}

// rename notes that the program in use has a later signature, and maybe the name of another version.
func (k *Keeper) rename(target *Program) (*process.Outcome, error) {
	next, former := k.state, k.state.Current.Version
	next.Current, next.Signed = target, max(next.Signed, target.Signed)
	if err := save(k.cfg.Dir, next); err != nil {
		return nil, err
	}
	k.state = next
	if former == target.Version {
		return &process.Outcome{Text: "version " + target.Version + " was already in use"}, nil
	}
	k.mu.Lock()
	k.name = target.Version
	k.mu.Unlock()
	return &process.Outcome{Text: "version " + target.Version + " is the same program as version " + former +
		", which was in use: the host has taken the new name"}, nil
}

// finish stores the outcome of an order and reports it.
func (k *Keeper) finish(ctx context.Context, e *record.Entry, outcome process.Outcome) {
	if outcome.Fault == process.None && outcome.Text == "" {
		outcome.Text = process.Success
	}
	for {
		err := k.cfg.Journal.Finish(e.Item, e.Process, outcome, specstore.Change{})
		if err == nil {
			break
		}
		k.cfg.Log.Error("cannot store outcome of an upgrade, retrying", "item", e.Item, "error", err)
		if !idle.Sleep(ctx, storeAgain) {
			return
		}
	}
	k.cfg.Log.Info("upgrade ended", "item", e.Item, "fault", outcome.Fault, "text", outcome.Text)
	if k.state.Fetching == e.Item {
		k.state.Fetching = ""
		k.note("the end of an upgrade")
	}
	k.mu.Lock()
	k.verdict = &Verdict{Item: e.Item, Version: e.Op.Version(), Fault: outcome.Fault, Text: outcome.Text}
	k.mu.Unlock()
	k.cfg.Orders.Finished(e.Item, outcome)
	event := process.Event{
		Kind: process.EventAgentUpgraded, Actor: e.Actor, Cause: process.Cause{ID: outcome.Cause, Text: outcome.Text},
	}
	event.Actor.Operation = cmp.Or(e.Actor.Operation, e.Item)
	if event.Actor.Kind = process.ActorCaller; outcome.Fault != process.None {
		event.Kind = process.EventAgentKept
	}
	k.cfg.Changed(event)
}
