package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/bus"
	"drover/internal/server/engine"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/wire"
)

// rig is an engine over a real database and a link that the test plays. It lives in a synctest bubble: its time stands
// still while anybody works.
type rig struct {
	*engine.Engine
	t         *testing.T
	path      string
	db        *sqlite.DB
	directory *fleet.Directory
	stop      func()
	// wrap puts something between the engine and the database.
	wrap func(engine.Store) engine.Store
	bus  *bus.Bus
	// shared is how it lives with others; nil where there are none.
	shared *engine.Shared
	// incarnation is that of the database; empty for none.
	incarnation string
	// cloned are the agents of which a second host was told.
	cloned []string

	mu   sync.Mutex
	link linkFunc
	// hangs are the agents that do not even answer a ping, left those at whose end nobody is; where leftAll is set
	// these are all.
	hangs, left map[string]bool
	leftAll     bool
	sent        []sentManifest
	// pinged counts the pings.
	pinged int
}

// sentManifest is a manifest that was sent to an agent.
type sentManifest struct {
	Agent string
	*wire.Manifest
}

// linkFunc answers for all agents.
type linkFunc func(ctx context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error)

// answer lets the agents answer so from now on.
func (r *rig) answer(link linkFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.link, r.left, r.leftAll = link, map[string]bool{}, false
}

// leave has nobody be at the end of some agents, or of all where none is named, until answer is called.
func (r *rig) leave(agents ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leftAll = len(agents) == 0
	for _, a := range agents {
		r.left[a] = true
	}
}

// nobody says what the broker does where nobody listens; the caller holds the lock.
func (r *rig) nobody(agent string) error {
	if r.leftAll || r.left[agent] {
		return engine.ErrNobody
	}
	return nil
}

// Send is the rig's engine.Link. It refuses what an agent would.
func (r *rig) Send(ctx context.Context, agent string, manifest []byte) ([]byte, error) {
	m, err := wire.ReadManifest(manifest)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.sent = append(r.sent, sentManifest{agent, m})
	link, err := r.link, r.nobody(agent)
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	receipt, err := link(ctx, agent, m)
	if err != nil {
		return nil, err
	}
	return json.Marshal(receipt)
}

// Ping is the rig's engine.Link: all are there but those that hang or have left.
func (r *rig) Ping(ctx context.Context, agent string) error {
	r.mu.Lock()
	r.pinged++
	hangs, err := r.hangs[agent], r.nobody(agent)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if hangs {
		<-ctx.Done()
	}
	return ctx.Err()
}

// hang has agents answer nothing, or answer again.
func (r *rig) hang(hangs bool, agents ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hangs == nil {
		r.hangs = map[string]bool{}
	}
	for _, a := range agents {
		r.hangs[a] = hangs
	}
}

// accept is a link to agents that take everything.
func accept(_ context.Context, _ string, m *wire.Manifest) (*wire.Receipt, error) {
	r := &wire.Receipt{Version: wire.Version}
	for _, o := range m.Orders {
		r.Accepted = append(r.Accepted, o.Item)
	}
	return r, nil
}

// denied is a link on which somebody says that nobody is there, whether or not that is so.
func denied(context.Context, string, *wire.Manifest) (*wire.Receipt, error) {
	return nil, engine.ErrNobody
}

// silence is a link to agents that never answer.
func silence(ctx context.Context, _ string, _ *wire.Manifest) (*wire.Receipt, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// bubble runs a test on a rig whose engine runs; all agents are known and accept everything.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drover.db")
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, path: path, link: accept, left: map[string]bool{}}
		r.start()
		for i := range 4 {
			a := store.Agent{Key: fmt.Sprintf("agent-%d", i), IP: fmt.Sprintf("10.0.0.%d", i), Created: time.Now()}
			if err := r.directory.Join(t.Context(), a, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		test(t, r)
		r.stop()
	})
}

// start opens the database and runs a new engine over it, as a server does when it starts.
func (r *rig) start() {
	r.t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, err := sqlite.Open(r.t.Context(), r.path, log)
	if err != nil {
		r.t.Fatal(err)
	}
	r.db, r.directory = db, fleet.New(db, time.Now())
	if err := r.directory.Load(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	var state engine.Store = db
	if r.wrap != nil {
		state = r.wrap(db)
	}
	r.bus = bus.New(time.Now())
	r.Engine = engine.New(engine.Config{
		Bus:   r.bus,
		Store: state, Directory: r.directory, Link: r, Identity: r.guard(),
		Incarnation: func() store.Incarnation { return store.Incarnation{ID: r.incarnation} },
		Shared:      r.shared, Log: log,
	})
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			r.t.Error(err)
		}
	})
	r.stop = func() {
		cancel()
		running.Wait()
		if err := db.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

// pass lets time go by and everybody come to rest.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d) // the bubble's time
	synctest.Wait()
}

// submit posts one operation on the process "nginx" of each agent.
func (r *rig) submit(id string, op process.Op, agents ...string) {
	r.t.Helper()
	request := store.Request{Op: op, Process: process.ID{Namespace: "ns", Name: "nginx"}, Spec: &process.Spec{}}
	for _, a := range agents {
		request.Targets = append(request.Targets, store.Target{ItemKey: a, Spelling: a, Agent: a})
	}
	err := r.Submit(r.t.Context(), &store.Task{
		ID: id, User: "anna", Reason: "rollout ro-1", Created: time.Now(), Requests: []store.Request{request},
	}, store.AuditRow{At: time.Now()})
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// taken returns the manifests that were sent since it was last called.
func (r *rig) taken() []sentManifest {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = nil
	return sent
}

// takenOne returns the only order that was sent since.
func (r *rig) takenOne() wire.Order {
	r.t.Helper()
	sent := r.taken()
	if len(sent) != 1 || len(sent[0].Orders) != 1 {
		r.t.Fatalf("%d manifests were sent, want one with one order", len(sent))
	}
	return sent[0].Orders[0]
}

// lines are events as an agent's log has them.
func lines(events ...process.Event) [][]byte {
	all := make([][]byte, len(events))
	for i, e := range events {
		all[i], _ = json.Marshal(e) // a number that has no JSON would be missed
	}
	return all
}

// report has an agent report, and returns the answer.
func (r *rig) report(agent string, report wire.Report) wire.ReportAck {
	r.t.Helper()
	return r.reportOf(time.Now(), agent, report)
}

// reportOf is report with what the agent sealed at another time.
func (r *rig) reportOf(sealed time.Time, agent string, report wire.Report) wire.ReportAck {
	r.t.Helper()
	report.Version = wire.Version
	data, err := wire.EncodeReport(report, report.Events)
	if err != nil {
		r.t.Fatal(err)
	}
	var ack wire.ReportAck
	if err := json.Unmarshal(r.HandleReport(r.t.Context(), agent, data, sealed), &ack); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return ack
}

// progress has an agent report on one item.
func (r *rig) progress(agent string, p wire.Progress) {
	r.t.Helper()
	if ack := r.report(agent, wire.Report{Progress: []wire.Progress{p}}); ack.Error != "" {
		r.t.Fatal(ack.Error)
	}
}

func (r *rig) finish(agent, item string) {
	r.t.Helper()
	r.progress(agent, wire.Progress{Item: item, Outcome: &process.Outcome{Text: process.Success}})
}

// shows compares what a poll of the task shows: a text for each key, empty while it is not done.
func (r *rig) shows(id string, want ...string) {
	r.t.Helper()
	synctest.Wait()
	var got []string
	err := r.db.TaskItems(r.t.Context(), id, "", func(v store.ItemView) error {
		text := ""
		if v.Done {
			text = v.Outcome.Text
		}
		got = append(got, text)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		r.t.Errorf("task %s at %v (-want +got):\n%s", id, time.Now(), d)
	}
}

const (
	unavailable = "agent not found or offline"
	unanswered  = unavailable +
		": it was sent the operation and has not answered; it may have begun, and never begins later"
	hadBegun = unavailable + ": it had begun"
)
