// Package upkeepdriver carries out upkeep: it gives package upkeep the facts about processes on hosts, and turns its
// decisions into ordinary tasks. A task and what the server remembers of it are one transaction, which fails if another
// server was first. So two drivers, or a server that died in between, never give a host the same order twice.
package upkeepdriver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"drover/internal/idle"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/task"
	"drover/internal/wire"
)

const (
	// look is the interval between two rounds, and lookBusy the interval while something is left to do.
	look     = 10 * time.Second
	lookBusy = 2 * time.Second
	// mostHosts is how many hosts a round looks at. leastSwept of them, or the sweepShare-th part of all hosts, are
	// looked at although nothing has happened to them.
	mostHosts  = 500
	leastSwept = 50
	sweepShare = 60
	// mostOrders is how many orders of drivers may be open, and mostPlaces how many processes a round looks at.
	mostOrders = 200
	mostPlaces = 20_000
	// settleTime is how long after its introduction the reports of an agent may still be on their way.
	settleTime = 3 * time.Second
)

// Store is what a driver needs of the database.
type Store interface {
	store.FileSelections
	store.Upkeeping
	Facts
}

// Facts is the part of the database with what is under way, and what hosts have.
type Facts interface {
	store.RolloutLister
	AbortedRollouts(ctx context.Context, ids []string) ([]string, error)
	LatestRevision(ctx context.Context, namespace string) (int64, error)
	GetObserved(ctx context.Context, id process.ID, agents []string, fn func(store.Observed) error) error
	TaskOpen(ctx context.Context, id string) (bool, error)
}

// Engine accepts tasks.
type Engine interface {
	Submit(ctx context.Context, t *store.Task, row store.AuditRow) error
}

// Directory has the hosts in the order of their addresses, and knows which agents are connected.
type Directory interface {
	After(p fleet.Place) iter.Seq[store.Agent]
	ByKey(key string) (store.Agent, bool)
	Presence(key string, now time.Time) fleet.Presence
}

// Rights returns the present rights of an app and a user.
type Rights interface {
	Acting(ctx context.Context, app, user string) (access.Principal, error)
}

// Live asks an agent in which fields running processes differ from their specs.
type Live interface {
	Live(ctx context.Context, agent string, q wire.LiveQuestion) (wire.LiveAnswer, error)
}

// Config holds the parts of a driver. All are required.
type Config struct {
	Store     Store
	Engine    Engine
	Directory Directory
	Rights    Rights
	Live      Live
	// Now is the common time of all servers of the database.
	Now func() time.Time
	Log *slog.Logger
}

// Driver does the upkeep of all hosts of a database. Only one should run at a time; two do no harm.
type Driver struct {
	Config
	// seen has what a host was like when it was last looked at; waiting has the hosts to look at, in their order.
	seen    map[string]string
	waiting []string
	queued  map[string]bool
	// swept is the host at which the sweep continues.
	swept fleet.Place
	// asked is when a host was last asked about its running processes.
	asked map[string]time.Time
	// mended is where this driver has mended a process last.
	mended map[process.ID]mend
	// open has the tasks of this driver that may be open, with the number of their orders.
	open map[string]int
}

// New returns a driver.
func New(c Config) *Driver {
	return &Driver{
		Config: c, seen: map[string]string{}, queued: map[string]bool{}, open: map[string]int{},
		asked: map[string]time.Time{}, mended: map[process.ID]mend{},
	}
}

// Run does the upkeep until ctx ends.
func (k *Driver) Run(ctx context.Context) error {
	clear(k.seen) // another server may have done the upkeep in the meantime
	for ctx.Err() == nil {
		left, err := k.Round(ctx)
		if err != nil && ctx.Err() == nil {
			k.Log.ErrorContext(ctx, "cannot look after the hosts", "error", err)
		}
		if left {
			idle.Sleep(ctx, lookBusy)
		} else {
			idle.Sleep(ctx, look)
		}
	}
	return nil
}

// Round looks once at the hosts to which something has happened, and at a share of the others. left tells that more is
// to do soon.
func (k *Driver) Round(ctx context.Context) (left bool, err error) {
	r := round{k: k, now: k.Now(), reaches: map[actor]*access.Reaches{}}
	if err := r.begin(ctx); err != nil {
		return false, err
	}
	room, err := k.room(ctx)
	if err != nil {
		return false, err
	}
	k.enqueue(&r)
	batch := k.waiting[:min(len(k.waiting), mostHosts)]
	if err := r.read(ctx, batch); err != nil {
		return false, err
	}
	again, err := r.act(ctx, room)
	if err != nil {
		return false, err
	}
	batch = batch[:r.looked]
	k.waiting = slices.Clone(k.waiting[len(batch):])
	for _, agent := range batch {
		delete(k.queued, agent)
	}
	for _, agent := range again {
		k.queue(agent)
	}
	return len(k.waiting) > 0 || len(k.open) > 0, nil
}

// room returns how many orders may begin.
func (k *Driver) room(ctx context.Context) (int, error) {
	room := mostOrders
	for id, orders := range k.open {
		open, err := k.Store.TaskOpen(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound), err == nil && !open:
			delete(k.open, id)
		case err != nil:
			return 0, err
		default:
			room -= orders
		}
	}
	return max(room, 0), nil
}

func (k *Driver) queue(agent string) {
	if !k.queued[agent] {
		k.queued[agent] = true
		k.waiting = append(k.waiting, agent)
	}
}

// enqueue finds the hosts to look at: those that are new, have come back, or match other selections than before, and
// the next ones of the sweep.
func (k *Driver) enqueue(r *round) {
	known := map[string]bool{}
	for a := range k.Directory.After(fleet.Place{}) {
		known[a.Key] = true
		if mark := r.mark(&a); k.seen[a.Key] != mark {
			k.seen[a.Key] = mark
			k.queue(a.Key)
		}
	}
	for agent := range k.seen {
		if !known[agent] {
			delete(k.seen, agent)
			delete(k.asked, agent)
		}
	}
	n := max(leastSwept, len(known)/sweepShare)
	for range 2 { // the second time from the beginning
		for a := range k.Directory.After(k.swept) {
			k.queue(a.Key)
			k.swept = fleet.PlaceOf(a)
			if n--; n == 0 {
				return
			}
		}
		k.swept = fleet.Place{}
	}
}

// actor is who applied a file.
type actor struct{ app, user string }

// taskID names a task by the rows that it changes, and their serials.
func taskID(rows []store.Upkeep) string {
	parts := make([]string, len(rows))
	for i := range rows {
		u := &rows[i]
		parts[i] = fmt.Sprintf("%s %s %s %d", u.Agent, u.Process.Namespace, u.Process.Name, u.Serial)
	}
	slices.Sort(parts)
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return "up-" + hex.EncodeToString(sum[:8])
}

// submit stores a task. It reports whether the task is stored; another server or caller may have been first.
func (k *Driver) submit(ctx context.Context, t *store.Task, orders int) (bool, error) {
	t.ID = taskID(t.Upkeep)
	err := k.Engine.Submit(ctx, t, store.AuditRow{
		At: k.Now(), App: t.App, User: t.User, Action: "upkeep", Target: t.ID, Targets: orders, Allowed: true,
		Message: t.Message,
	})
	busy, tooMuch := errors.AsType[*task.BusyError](err)
	switch {
	case err == nil:
		k.open[t.ID] = orders
		k.Log.InfoContext(ctx, "ordered upkeep", "task", t.ID, "orders", orders, "reason", t.Message)
		return true, nil
	case errors.Is(err, store.ErrRevised), errors.Is(err, store.ErrUpkept), errors.Is(err, store.ErrExists):
		return false, nil
	case tooMuch:
		k.Log.WarnContext(ctx, "upkeep waits", "error", busy)
		return false, nil
	}
	return false, err
}
