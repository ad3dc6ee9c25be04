package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"

	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/wire"
)

// rig is an engine over a real database and a link that the test plays. It lives in a synctest bubble: its time stands still while
// anybody works.
type rig struct {
	*engine.Engine
	t         *testing.T
	path      string
	db        *sqlite.DB
	directory *fleet.Directory
	key       nkeys.KeyPair
	public    string
	stop      func()

	mu   sync.Mutex
	link linkFunc
	sent []*wire.Manifest
}

// linkFunc answers for all agents.
type linkFunc func(ctx context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error)

// answer lets the agents answer so from now on.
func (r *rig) answer(link linkFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.link = link
}

// Send is the rig's engine.Link. It refuses what an agent would.
func (r *rig) Send(ctx context.Context, agent string, envelope []byte) ([]byte, error) {
	m, err := wire.Open(envelope, []string{r.public}, agent)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.sent = append(r.sent, m)
	link := r.link
	r.mu.Unlock()
	receipt, err := link(ctx, agent, m)
	if err != nil {
		return nil, err
	}
	return json.Marshal(receipt)
}

// accept is a link to agents that take everything.
func accept(_ context.Context, _ string, m *wire.Manifest) (*wire.Receipt, error) {
	r := &wire.Receipt{Version: wire.Version}
	for _, o := range m.Orders {
		r.Accepted = append(r.Accepted, o.Item)
	}
	return r, nil
}

func nobody(context.Context, string, *wire.Manifest) (*wire.Receipt, error) {
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
		key, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, path: path, key: key, public: public, link: accept}
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
	r.Engine = engine.New(engine.Config{Store: db, Directory: r.directory, Link: r, Key: r.key, Log: log})
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
		request.Targets = append(request.Targets, store.Target{Key: a, Asked: a, Agent: a})
	}
	err := r.Submit(r.t.Context(), &store.Task{ID: id, Created: time.Now(), Requests: []store.Request{request}}, store.AuditRow{At: time.Now()})
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// taken returns the manifests that were sent since it was last called.
func (r *rig) taken() []*wire.Manifest {
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

// report has an agent report, and returns the answer.
func (r *rig) report(agent string, report wire.Report) wire.ReportAck {
	r.t.Helper()
	report.Version = wire.Version
	data, err := json.Marshal(report)
	if err != nil {
		r.t.Fatal(err)
	}
	var ack wire.ReportAck
	if err := json.Unmarshal(r.HandleReport(r.t.Context(), agent, data), &ack); err != nil {
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
		r.t.Errorf("task %s after %v (-want +got):\n%s", id, time.Since(bubbleStart()), d)
	}
}

func bubbleStart() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

const unavailable = "agent not found or offline"

func TestOperation(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		created := time.Now()
		r.submit("t", process.Start, "agent-0", "agent-1")
		sent := r.taken()
		if len(sent) != 2 {
			t.Fatalf("%d manifests were sent, want 2", len(sent))
		}
		for _, m := range sent {
			if !m.Expires.Equal(created.Add(10*time.Minute)) || len(m.Orders) != 1 || m.Orders[0].Op != process.Start {
				t.Errorf("manifest is %+v", m)
			}
		}
		var waited error
		var waiting sync.WaitGroup
		waiting.Go(func() { waited = r.Wait(t.Context(), "t") })
		r.shows("t", "", "")
		for _, m := range sent {
			r.progress(m.Agent, wire.Progress{Item: m.Orders[0].Item, Limit: 60})
		}
		r.pass(time.Minute)
		if extra := r.taken(); len(extra) != 0 {
			t.Errorf("%d manifests were sent after the receipts", len(extra))
		}
		for _, m := range sent {
			r.finish(m.Agent, m.Orders[0].Item)
		}
		waiting.Wait()
		if waited != nil {
			t.Error(waited)
		}
		r.shows("t", process.Success, process.Success)
	})
}

func TestWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if err := r.Wait(t.Context(), "t"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("unknown task: %v", err)
		}
		r.submit("t", process.Start, "agent-0")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Wait(ctx, "t"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a task that is not done: %v", err)
		}
		r.finish("agent-0", r.takenOne().Item)
		if err := r.Wait(t.Context(), "t"); err != nil {
			t.Errorf("a task that is done: %v", err)
		}
	})
}

func TestProcessesRunOneOperationAfterAnother(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.submit("1", process.Start, "agent-0")
		r.submit("2", process.Stop, "agent-0", "agent-1")
		var start, stop string
		for _, m := range r.taken() {
			switch o := m.Orders[0]; {
			case m.Agent == "agent-0" && o.Op == process.Start && start == "":
				start = o.Item
			case m.Agent == "agent-1":
				r.finish(m.Agent, o.Item)
			default:
				t.Errorf("%s was sent to %s", o.Op, m.Agent)
			}
		}
		r.pass(time.Minute)
		if n := len(r.taken()); n != 0 {
			t.Errorf("%d manifests were sent while the first runs", n)
		}
		r.finish("agent-0", start)
		o := r.takenOne()
		if stop = o.Item; o.Op != process.Stop {
			t.Errorf("%s was sent", o.Op)
		}
		r.finish("agent-0", stop)
		r.shows("1", process.Success)
		r.shows("2", process.Success, process.Success)
	})
}

func TestSlowAgentDelaysNobody(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(func(ctx context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
			if agent == "agent-0" {
				return silence(ctx, agent, m)
			}
			return accept(ctx, agent, m)
		})
		before := time.Now()
		r.submit("t", process.Start, "agent-0", "agent-1", "agent-2")
		for _, m := range r.taken() {
			if m.Agent != "agent-0" {
				r.finish(m.Agent, m.Orders[0].Item)
			}
		}
		r.submit("u", process.Stop, "agent-1")
		r.finish("agent-1", r.takenOne().Item)
		r.shows("t", "", process.Success, process.Success)
		r.shows("u", process.Success)
		if d := time.Since(before); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

func TestResendsUnderTheSameID(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(silence)
		r.submit("t", process.Start, "agent-0")
		first := r.takenOne()
		r.pass(5*time.Second + time.Second) // the send times out, and the first wait is at most a second
		if again := r.takenOne(); again.Item != first.Item {
			t.Errorf("sent again as %s, first as %s", again.Item, first.Item)
		}
		r.answer(accept)
		r.pass(5*time.Second + 2*time.Second)
		if again := r.takenOne(); again.Item != first.Item {
			t.Errorf("sent again as %s, first as %s", again.Item, first.Item)
		}
		r.pass(9 * time.Minute)
		if n := len(r.taken()); n != 0 {
			t.Errorf("%d manifests were sent after the receipt", n)
		}
	})
}

func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(func(_ context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
			switch agent {
			case "agent-0":
				return &wire.Receipt{Error: "signed by a key that is not pinned"}, nil
			case "agent-1":
				return &wire.Receipt{Refused: map[string]string{m.Orders[0].Item: "needs root"}, Accepted: []string{"another"}}, nil
			case "agent-2":
				return &wire.Receipt{Version: wire.Version + 1, Error: "from the future"}, nil
			}
			return &wire.Receipt{}, nil // says nothing of the item
		})
		r.submit("t", process.Start, "agent-0", "agent-1", "agent-2", "agent-3")
		r.shows("t", "signed by a key that is not pinned", "needs root", "", "")
		r.taken()
		r.answer(accept)
		r.pass(time.Second)
		if n := len(r.taken()); n != 2 {
			t.Errorf("%d were sent again, want the two that had no word on the item", n)
		}
	})
}

func TestTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		labels, err := json.Marshal(make([]byte, wire.MaxMessage*3/4))
		if err != nil {
			t.Fatal(err)
		}
		request := store.Request{Op: process.Start, Spec: &process.Spec{Labels: labels},
			Targets: []store.Target{{Key: "large", Agent: "agent-0"}}}
		err = r.Submit(t.Context(), &store.Task{ID: "t", Created: time.Now(), Requests: []store.Request{request}}, store.AuditRow{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Wait(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		if n := len(r.taken()); n != 0 {
			t.Errorf("%d manifests were sent", n)
		}
	})
}
