package faults_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent"
	"drover/internal/group"
	"drover/internal/process"
	"drover/internal/server"
	"drover/internal/server/engine"
	"drover/internal/server/store"
	"drover/test/harness"
)

// What a child is told by its environment.
const (
	dirVariable    = "DROVER_TEST_DIR"
	httpVariable   = "DROVER_TEST_HTTP"
	fabricVariable = "DROVER_TEST_FABRIC"
	momentVariable = "DROVER_TEST_DIE_AT" // the name of a moment; "start" begins to count at once
)

// The roles of a child.
const (
	roleDev    = "dev" // both, in one process
	roleServer = "server"
	roleAgent  = "agent"
)

// runChild is drover, or a half of it, with a store and a link that kill it at the moment it is told.
func runChild(role string) error {
	dir := os.Getenv(dirVariable)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx := context.Background()
	if role == roleAgent {
		a, err := agent.New(agent.Config{Dir: filepath.Join(dir, "agent"), Build: "test", Log: log})
		if err != nil {
			return err
		}
		return a.Run(ctx)
	}
	moments := &moments{at: os.Getenv(momentVariable), seen: map[string]int{}, armed: os.Getenv(momentVariable) == atStart, list: filepath.Join(dir, "moments")}
	var local *agent.Agent
	srv, err := server.New(ctx, server.Config{
		Dir: filepath.Join(dir, "server"), HTTP: os.Getenv(httpVariable), Fabric: os.Getenv(fabricVariable), Log: log,
		Ready: func() error {
			if local == nil {
				return nil
			}
			return local.Ready()
		},
		Faults: &server.Faults{
			Store: func(s store.Store) store.Store { return &dyingStore{Store: s, moments: moments} },
			Link:  func(l engine.Link) engine.Link { return &dyingLink{Link: l, moments: moments} },
		},
	})
	if err != nil {
		return err
	}
	defer srv.Close()
	if _, _, _, err := srv.FirstApp(ctx, harness.AppCode, harness.AppSecret); err != nil {
		return err
	}
	enrolled, err := enrol(ctx, srv, filepath.Join(dir, "agent"))
	if err != nil {
		return err
	}
	parts := []group.Part{{Name: "server", Run: srv.Run}, {Name: "http", Run: srv.Serve}}
	if role == roleDev {
		if local, err = agent.New(agent.Config{Dir: enrolled, Build: "test", Log: log}); err != nil {
			return err
		}
		parts = append(parts, group.Part{Name: "agent", Run: local.Run})
	}
	return group.Run(ctx, parts...)
}

// enrol lets the agent join, whose directory it returns.
func enrol(ctx context.Context, srv *server.Server, dir string) (string, error) {
	key, err := agent.OwnKey(dir)
	if err != nil {
		return "", err
	}
	public, err := key.PublicKey()
	if err != nil {
		return "", err
	}
	enrolment, err := srv.Enrol(ctx, public, 0, "127.0.0.1", "")
	if err != nil {
		return "", err
	}
	return dir, agent.SaveEnrolment(dir, enrolment)
}

// Moments that are not one of the list.
const (
	never   = ""
	listing = "list"  // writes down every moment that is passed
	atStart = "start" // dies at the first write after a start
)

// moments are the points between which nothing that lasts happens in a server: before and after each commit and each send. They
// count from the first task on.
type moments struct {
	at   string
	list string

	mu    sync.Mutex
	armed bool
	seen  map[string]int
}

// pass is called at a moment, and does not return from the one to die at.
func (m *moments) pass(name string, n int, when string) {
	moment := fmt.Sprintf("%s %d %s", name, n, when)
	switch m.at {
	case listing:
		f, err := os.OpenFile(m.list, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = fmt.Fprintln(f, moment) // the test misses it
			_ = f.Close()
		}
	case moment, atStart:
		_ = unix.Kill(unix.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (m *moments) around(name string, do func() error) error {
	m.mu.Lock()
	m.armed = m.armed || name == "CreateTask"
	if !m.armed {
		m.mu.Unlock()
		return do()
	}
	m.seen[name]++
	n := m.seen[name]
	m.mu.Unlock()
	m.pass(name, n, "before")
	err := do()
	m.pass(name, n, "after")
	return err
}

// dyingLink dies before a send, or after the agent's receipt has come and nobody has heard of it.
type dyingLink struct {
	engine.Link
	moments *moments
}

func (l *dyingLink) Send(ctx context.Context, agent string, envelope []byte) (reply []byte, err error) {
	err = l.moments.around("Send", func() error {
		reply, err = l.Link.Send(ctx, agent, envelope)
		return err
	})
	return reply, err
}

// dyingStore dies around the commits of an operation.
type dyingStore struct {
	store.Store
	moments *moments
}

func (s *dyingStore) CreateTask(ctx context.Context, t *store.Task, row store.AuditRow) error {
	return s.moments.around("CreateTask", func() error { return s.Store.CreateTask(ctx, t, row) })
}

func (s *dyingStore) LeaseItems(ctx context.Context, now, until time.Time, limit int) (items []store.Item, err error) {
	err = s.moments.around("LeaseItems", func() error {
		items, err = s.Store.LeaseItems(ctx, now, until, limit)
		return err
	})
	return items, err
}

func (s *dyingStore) MarkSent(ctx context.Context, ids []string, resend time.Time) error {
	return s.moments.around("MarkSent", func() error { return s.Store.MarkSent(ctx, ids, resend) })
}

func (s *dyingStore) MarkAccepted(ctx context.Context, ids []string) error {
	return s.moments.around("MarkAccepted", func() error { return s.Store.MarkAccepted(ctx, ids) })
}

func (s *dyingStore) Begin(ctx context.Context, agent string, deadlines map[string]time.Time) error {
	return s.moments.around("Begin", func() error { return s.Store.Begin(ctx, agent, deadlines) })
}

func (s *dyingStore) Finish(ctx context.Context, agent string, outcomes map[string]process.Outcome) (tasks []string, err error) {
	err = s.moments.around("Finish", func() error {
		tasks, err = s.Store.Finish(ctx, agent, outcomes)
		return err
	})
	return tasks, err
}

func (s *dyingStore) PutObserved(ctx context.Context, rows []store.Observed, gone []store.ObservedKey) error {
	return s.moments.around("PutObserved", func() error { return s.Store.PutObserved(ctx, rows, gone) })
}

func (s *dyingStore) ReplaceObserved(ctx context.Context, agent string, rows []store.Observed) error {
	return s.moments.around("ReplaceObserved", func() error { return s.Store.ReplaceObserved(ctx, agent, rows) })
}
