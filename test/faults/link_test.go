package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nkeys"

	v1 "drover/api/v1"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/probe"
	"drover/internal/agent/record"
	"drover/internal/agent/report"
	"drover/internal/agent/specstore"
	"drover/internal/agent/supervisor"
	"drover/internal/agent/timetable"
	"drover/internal/agent/uplink"
	"drover/internal/fabric"
	"drover/internal/fabric/fabrictest"
	"drover/internal/group"
	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// both is a server's engine and an agent's supervisor, each on its real disk, joined by a link with faults; the host is
// made up. It lives in a synctest bubble, so that minutes pass in no time.
type both struct {
	t     *testing.T
	dir   string
	link  *fabrictest.Link
	world *operationtest.World
	agent string
	// wall is how far the agent's clock is off.
	wall time.Duration
	// again counts the orders that the agent had before.
	again atomic.Int64

	engine    *engine.Engine
	db        *sqlite.DB
	stopSrv   func()
	stopAgent func()
}

// agentName is the name of a new agent.
func agentName(t *testing.T) string {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// bubble runs a test with both halves up.
func bubble(t *testing.T, faults fabrictest.Faults, wall time.Duration, test func(t *testing.T, b *both)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &both{t: t, dir: dir, link: fabrictest.NewLink(faults), world: operationtest.New(t), wall: wall}
		b.agent = agentName(t)
		b.startServer()
		b.startAgent()
		test(t, b)
		b.stopSrv()
		b.stopAgent()
		b.link.Close()
	})
}

// running runs something until it is stopped.
func running(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// orderLink is the engine's way to the agent.
type orderLink struct{ link *fabrictest.Link }

func (o orderLink) Send(ctx context.Context, agent string, manifest []byte) ([]byte, error) {
	reply, err := o.link.Request(ctx, wire.OrderSubject(0, agent), manifest)
	if errors.Is(err, fabric.ErrNobody) {
		return nil, engine.ErrNobody
	}
	return reply, err
}

// Ping says that the agent is there, as it always is: one that is not heard for long enough is given up, and here none
// is to be.
func (o orderLink) Ping(ctx context.Context, _ string) error { return ctx.Err() }

func (b *both) startServer() {
	db, err := sqlite.Open(b.t.Context(), filepath.Join(b.dir, "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		b.t.Fatal(err)
	}
	var stop func()
	b.db = db
	b.engine, stop = b.runEngine(orderLink{b.link})
	b.stopSrv = func() {
		stop()
		if err := db.Close(); err != nil {
			b.t.Error(err)
		}
	}
}

// runEngine runs an engine over the database, which takes reports too.
func (b *both) runEngine(link engine.Link) (e *engine.Engine, stop func()) {
	directory := fleet.New(b.db, time.Now())
	err := errors.Join(directory.Load(b.t.Context()),
		directory.Join(b.t.Context(), store.Agent{Key: b.agent, IP: "10.0.0.1", Created: time.Now()}, time.Now()))
	if err != nil {
		b.t.Fatal(err)
	}
	e = engine.New(engine.Config{
		Store: b.db, Directory: directory, Link: link,
		Log: slog.New(slog.DiscardHandler),
	})
	unserve, err := b.link.Serve(wire.AnyReportSubject, "servers", 4,
		func(ctx context.Context, _ string, data []byte) []byte {
			return e.HandleReport(ctx, b.agent, data, time.Now())
		})
	if err != nil {
		b.t.Fatal(err)
	}
	end := running(b.t, e.Run)
	return e, func() {
		unserve()
		end()
	}
}

// reports is the agent's way to the server.
type reports struct {
	link  *fabrictest.Link
	agent string
}

func (r reports) Report(ctx context.Context, data []byte) ([]byte, error) {
	return r.link.Request(ctx, wire.ReportSubject(0, r.agent), data)
}

type sink struct{ *report.Reporter }

// Happened implements supervisor.Sink: nobody here asks for the history.
func (sink) Happened(process.Event) {}

// StateShown implements supervisor.Sink, likewise.
func (sink) StateShown(process.ID, int64, process.Shown) {}

// unasked are probes and measurements that nobody makes.
type unasked struct{}

func (unasked) Set(process.ID, probe.Subject)          {}
func (unasked) Drop(process.ID)                        {}
func (unasked) Hurry(process.ID)                       {}
func (unasked) Usage(process.ID) (process.Usage, bool) { return process.Usage{}, false }

func (b *both) startAgent() {
	disk, err := specstore.Open(filepath.Join(b.dir, "agent"), operationtest.Boot)
	if err != nil {
		b.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	operations := b.world.Operations()
	operations.Journal = disk
	linkState := uplink.NewLinkState(log)
	tell := sink{report.New(report.Config{
		Link: reports{b.link, b.agent}, LinkState: linkState, Journal: disk, Disk: disk, Heartbeat: 5 * time.Second,
		Log:   log,
		Hello: wire.Hello{IP: "10.0.0.1", BootID: operationtest.Boot},
	})}
	table := timetable.New(timetable.Config{Now: time.Now})
	super := supervisor.New(supervisor.Config{
		Store: disk, Histories: disk, Revisions: disk, Sink: tell, Operation: operations, HealthyAfter: time.Minute,
		Timetables: table, Probes: unasked{}, Usages: unasked{},
		Relist:     30 * time.Second,
		BootStarts: 8, Burst: 100, Rate: 100, Log: log,
	})
	records, err := disk.Records()
	if err != nil {
		b.t.Fatal(err)
	}
	open, unacked, err := disk.Journal()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range unacked {
		tell.Finished(e.Item, *e.Outcome)
	}
	super.Adopt(records, open)
	unserve, err := b.link.Serve(wire.OrderSubject(0, b.agent), "", 2,
		func(_ context.Context, _ string, data []byte) []byte {
			return b.take(disk, super, tell, data)
		})
	if err != nil {
		b.t.Fatal(err)
	}
	linkState.Connected()
	stop := running(b.t, func(ctx context.Context) error {
		return group.Run(ctx, group.Part{Name: "supervisor", Run: super.Run},
			group.Part{Name: "reporter", Run: func(ctx context.Context) error { return tell.Run(ctx, super, nil) }})
	})
	b.stopAgent = func() {
		unserve()
		stop()
		if err := disk.Close(); err != nil {
			b.t.Error(err)
		}
	}
}

// take does what the agent does with a manifest, by a wall clock that is off.
func (b *both) take(disk *specstore.Store, super *supervisor.Supervisor, tell sink, data []byte) []byte {
	m, err := wire.ReadManifest(data)
	if err != nil {
		b.t.Error(err)
		return nil
	}
	receipt := wire.Receipt{Version: wire.Version}
	var entries []record.Entry
	for _, o := range m.Orders {
		life := m.Expires.Sub(m.Issued)
		entries = append(entries, record.Entry{
			Item: o.Item, Process: o.Process, Op: o.Op, Spec: o.Spec, BeginBy: b.world.Clock() + life,
			Expires: time.Now().Add(b.wall + life),
		})
		receipt.Accepted = append(receipt.Accepted, o.Item)
	}
	fresh, known, err := disk.Accept(entries)
	if err != nil {
		b.t.Error(err)
		return nil
	}
	b.again.Add(int64(len(known)))
	for _, e := range known {
		if e.Outcome != nil {
			tell.Finished(e.Item, *e.Outcome)
		}
	}
	super.Submit(fresh)
	reply, err := json.Marshal(receipt)
	if err != nil {
		b.t.Error(err)
	}
	return reply
}

// reload submits an operation whose command is a line of its own.
func (b *both) reload(id string, took time.Duration) {
	b.t.Helper()
	b.reloadAt(b.engine, id, took)
}

// reloadAt submits it to one of several engines.
func (b *both) reloadAt(e *engine.Engine, id string, took time.Duration) {
	b.t.Helper()
	b.world.Script("reload "+id, operationtest.Script{Takes: took})
	spec := &process.Spec{
		ProcessName: "a", Directory: "/opt", PIDFile: "/run/a.pid", User: "root",
		Reload: &v1.Reload{Command: "reload " + id}, Compat: &v1.Compat{OpTimeout: 3600},
	}
	request := store.Request{
		Op: process.Reload, Process: process.ID{Namespace: "ns", Name: "a"}, Spec: spec,
		Targets: []store.Target{{ItemKey: "k", Spelling: "0:10.0.0.1", Agent: b.agent}},
	}
	if err := e.Submit(b.t.Context(), &store.Task{ID: id, Created: time.Now(), Requests: []store.Request{request}},
		store.AuditRow{At: time.Now()}); err != nil {
		b.t.Fatal(err)
	}
}

// ended waits for a task's only outcome.
func (b *both) ended(id string) (outcome process.Outcome) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Hour)
	defer cancel()
	err := b.engine.Wait(ctx, id)
	if err == nil {
		err = b.db.TaskItems(ctx, id, "", func(v store.ItemView) error {
			outcome = *v.Outcome
			return nil
		})
	}
	if err != nil {
		b.t.Errorf("task %s: %v", id, err)
	}
	return outcome
}

// TestI1_I2_LossyLink has messages lost, doubled, delayed and cut, both halves restarted, and clocks that disagree:
// every operation runs once, in order, and its task says so.
func TestI1_I2_LossyLink(t *testing.T) {
	for i, wall := range []time.Duration{0, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour} {
		seed := uint64(i)
		t.Run(fmt.Sprintf("agent's clock off by %v", wall), func(t *testing.T) {
			t.Parallel()
			bubble(t, fabrictest.Faults{Drop: 0.3, Duplicate: 0.3, Delay: 2 * time.Second, Seed: seed}, wall,
				func(t *testing.T, b *both) {
					b.world.Spawn("a", "/run/a.pid", "")
					var want, tasks []string
					for n := range 8 {
						id := fmt.Sprint("t", n)
						tasks, want = append(tasks, id), append(want, "reload "+id)
						b.reload(id, 3*time.Second)
					}
					for round := range 3 {
						<-time.After(10 * time.Second)
						b.link.Cut()
						<-time.After(5 * time.Second)
						b.link.Restore()
						if round == 1 {
							b.stopSrv()
							b.startServer()
						}
					}
					for _, id := range tasks {
						if o := b.ended(id); o.Fault != process.None {
							t.Errorf("%s: %+v", id, o)
						}
					}
					if got := b.world.Lines(); !slices.Equal(got, want) {
						t.Errorf("%s%q ran, want %q", harness.MoreThan(len(want), len(got)), got, want)
					}
				})
		})
	}
}

// TestI1_I3_ServerAway: the server is away for eight minutes with operations in flight and queued. The agent finishes
// what it has; what the server had accepted and nobody had begun runs when it is back, unless its time is up, and then
// it never runs.
func TestI1_I3_ServerAway(t *testing.T) {
	bubble(t, fabrictest.Faults{}, 0, func(t *testing.T, b *both) {
		b.world.Spawn("a", "/run/a.pid", "")
		b.reload("first", 3*time.Minute)
		b.reload("second", 8*time.Minute)
		b.reload("third", time.Second)
		<-time.After(30 * time.Second)
		b.stopSrv()
		<-time.After(8 * time.Minute)
		b.startServer()
		for id, done := range map[string]bool{"first": true, "second": true, "third": false} {
			if o := b.ended(id); (o.Fault == process.None) != done {
				t.Errorf("%s, which had its turn within ten minutes (%v): %+v", id, done, o)
			}
		}
		<-time.After(time.Hour)
		if got := b.world.Lines(); !slices.Equal(got, []string{"reload first", "reload second"}) {
			t.Errorf("%s%q ran", harness.MoreThan(2, len(got)), got)
		}
	})
}
