// Package events_test sends events all the way: from an agent's disk over a link that loses requests and answers,
// through collector and database, to a client that follows them over HTTP, while agent and server are restarted.
package events_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"drover/client"
	"drover/internal/agent/eventlog"
	"drover/internal/agent/report"
	"drover/internal/agent/uplink"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api"
	"drover/internal/server/api/call"
	"drover/internal/server/bus"
	"drover/internal/server/edge"
	"drover/internal/server/engine"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/wire"
)

// agentKey is the only agent's.
const agentKey = "UAGENT"

// world is an agent's way to tell of events, and a server.
type world struct {
	t   *testing.T
	dir string
	log *slog.Logger

	mu     sync.Mutex
	server *server // nil while there is none
	chance *rand.Rand
}

// server is one life of a server.
type server struct {
	db      *sqlite.DB
	engine  *engine.Engine
	handler *api.Handler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &world{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler), chance: rand.New(rand.NewPCG(seed, 1))}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start starts a server over what the one before has left.
func (w *world) start() {
	w.t.Helper()
	db, err := sqlite.Open(w.t.Context(), filepath.Join(w.dir, "drover.db"), w.log)
	w.must(err)
	directory := fleet.New(db, time.Now())
	w.must(directory.Load(w.t.Context()))
	w.must(directory.Join(w.t.Context(), store.Agent{Key: agentKey, IP: "10.0.0.1", Created: time.Now()}, time.Now()))
	changes := bus.New(time.Now())
	s := &server{db: db, engine: engine.New(engine.Config{Store: db, Directory: directory, Bus: changes, Log: w.log})}
	s.handler = api.New(api.Config{
		Config: edge.Config{Engine: s.engine, Audit: noAudit{}, Log: w.log},
		Bus:    changes, Directory: directory, Events: db, Fullness: db,
	})
	w.mu.Lock()
	w.server = s
	w.mu.Unlock()
}

// stop ends the server.
func (w *world) stop() {
	w.t.Helper()
	w.mu.Lock()
	s := w.server
	w.server = nil
	w.mu.Unlock()
	s.handler.Stop()
	w.must(s.db.Close())
}

func (w *world) running() *server {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.server
}

// lucky reports whether something goes well that mostly does.
func (w *world) lucky() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chance.IntN(5) > 0
}

// Report is the agent's link: one request in five is lost, and one answer in five.
func (w *world) Report(ctx context.Context, data []byte) ([]byte, error) {
	s := w.running()
	if s == nil || !w.lucky() {
		return nil, errors.New("no responders")
	}
	answer := s.engine.HandleReport(ctx, agentKey, data, time.Now())
	if !w.lucky() {
		return nil, errors.New("the answer is lost")
	}
	return answer, nil
}

// ServeHTTP is what clients call, as operators of this machine.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s := w.running()
	if s == nil {
		http.Error(rw, "no server", http.StatusBadGateway)
		return
	}
	s.handler.ServeHTTP(rw, r.WithContext(call.WithOperator(r.Context(), access.LocalAdmin(0))))
}

// live is one life of an agent: it tells of events until stop is called, which gives it no time to end well.
func (w *world) live() (happened func(process.Event), stop func()) {
	w.t.Helper()
	log, err := eventlog.Open(eventlog.Config{Dir: filepath.Join(w.dir, "events"), Log: w.log})
	w.must(err)
	linkState := uplink.NewLinkState(w.log)
	linkState.Connected()
	reporter := report.New(report.Config{
		Link: w, LinkState: linkState, Journal: none{}, Events: log, Hello: wire.Hello{IP: "10.0.0.1"},
		Heartbeat: 10 * time.Millisecond, Log: w.log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = reporter.Run(ctx, none{}, nil) })
	running.Go(func() { _ = log.Run(ctx) })
	happened = func(e process.Event) {
		log.Append(e)
		reporter.Happened()
	}
	return happened, func() {
		cancel()
		running.Wait()
	}
}

// TestEveryEventArrivesOnce and in its order, whatever is lost or restarted on the way.
func TestEveryEventArrivesOnce(t *testing.T) {
	t.Parallel()
	const lives, each = 6, 60
	w := newWorld(t)
	w.start()
	web := httptest.NewServer(w)
	t.Cleanup(web.Close)
	c, err := client.New(client.Config{URL: web.URL, AppCode: "a", AppSecret: "s"})
	w.must(err)

	arrived := make(chan int, 2*lives*each)
	ctx, enough := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		for e, err := range c.FollowEvents(ctx, client.EventFilter{Namespaces: []string{"ns"}, Limit: 10}) {
			if err == nil {
				arrived <- e.PID
			} else if _, lost := errors.AsType[*client.UnreachableError](err); !lost && ctx.Err() == nil {
				t.Errorf("following ended: %v", err)
			}
		}
	})
	next := func(want int) {
		t.Helper()
		select {
		case got := <-arrived:
			if got != want {
				t.Fatalf("event %d arrives when it is the turn of %d", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("event %d does not arrive", want)
		}
	}
	n := 0
	for life := range lives {
		happened, stop := w.live()
		if life == 0 { // from now on the client follows
			n++
			happened(exited(n))
			next(n)
		}
		for range each {
			n++
			happened(exited(n))
			if n%25 == 0 {
				w.stop()
				w.start()
			}
		}
		if life < lives-1 {
			stop() // with whatever is still untold
		} else {
			defer stop()
		}
	}
	for want := 2; want <= n; want++ {
		next(want)
	}
	enough()
	following.Wait()
	all, err := client.Collect(c.Events(t.Context(), client.EventFilter{}))
	w.must(err)
	if len(all) != n || len(arrived) > 0 {
		t.Errorf("%d events are stored, %d arrived too much, %d have happened", len(all), len(arrived), n)
	}
	web.CloseClientConnections()
	w.stop()
}

// exited is an event that is told from others by its pid.
func exited(n int) process.Event {
	return process.Event{Kind: process.EventExited, PID: n, Process: process.ID{Namespace: "ns", Name: fmt.Sprint(n)}}
}

// none is an agent without processes.
type none struct{}

func (none) Snapshot(process.ID) (process.Status, *process.Spec, bool) {
	return process.Status{}, nil, false
}
func (none) ProcessIDs() []process.ID   { return nil }
func (none) Acknowledge([]string) error { return nil }

type noAudit struct{}

func (noAudit) PutAudit(context.Context, ...store.AuditRow) error       { return nil }
func (noAudit) NoteAudit(context.Context, store.AuditRow) error         { return nil }
func (noAudit) PutDenial(context.Context, string, store.AuditRow) error { return nil }
