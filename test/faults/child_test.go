package faults_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"drover/internal/agent"
	"drover/internal/agent/orders"
	"drover/internal/agent/report"
	"drover/internal/agent/uplink"
	"drover/internal/group"
	"drover/internal/server"
	"drover/internal/server/engine"
	"drover/internal/server/store"
	"drover/internal/test/harness"
)

// What a child is told by its environment.
const (
	dirVariable     = "DROVER_TEST_DIR"
	httpVariable    = "DROVER_TEST_HTTP"
	fabricVariable  = "DROVER_TEST_FABRIC"
	momentVariable  = "DROVER_TEST_DIE_AT"  // the name of a moment; "start" begins to count at once
	processVariable = "DROVER_TEST_DIE_FOR" // the process whose operation is counted from
	// the name and number of a write that fails; with "…" behind it, and each later one too
	fullVariable = "DROVER_TEST_FULL_AT"
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
	moments := newMoments(filepath.Join(dir, "moments"))
	clock := func(whose string) func() time.Time {
		return func() time.Time { return time.Now().Add(clockOff(dir, whose)) }
	}
	agentFaults := &agent.Faults{
		Disk:  func(d agent.Disk) agent.Disk { return &dyingDisk{d, moments} },
		Queue: func(q orders.Queue) orders.Queue { return &dyingQueue{q, moments} },
		Link:  func(l report.Link) report.Link { return &dyingReports{l, moments} },
		Wall:  clock(roleAgent),
	}
	if role == roleAgent {
		a, err := agent.New(agent.Config{
			Dir: filepath.Join(dir, "agent"), Build: "test", Log: log,
			Faults: agentFaults,
		})
		if err != nil {
			return err
		}
		return a.Run(ctx)
	}
	var local *agent.Agent
	srv, err := server.New(ctx, server.Config{
		Dir: filepath.Join(dir, "server"), HTTP: os.Getenv(httpVariable), Fabric: os.Getenv(fabricVariable), Log: log,
		Extras: server.Extras{Ready: func() error {
			if local == nil {
				return nil
			}
			return local.Ready()
		}},
		Faults: &server.Faults{
			Store: func(s store.Store) store.Store { return &dyingStore{s, moments} },
			Link:  func(l engine.Link) engine.Link { return &dyingLink{l, moments} },
			Wall:  clock(roleServer),
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
		if local, err = agent.New(agent.Config{
			Dir: enrolled, Build: "test", Log: log,
			Faults: agentFaults,
		}); err != nil {
			return err
		}
		parts = append(parts, group.Part{Name: "agent", Run: local.Run})
	}
	return group.Run(ctx, parts...)
}

// clockOff is how far the clock of a part is off now, as setClock has left it.
func clockOff(dir, whose string) time.Duration {
	text, err := os.ReadFile(filepath.Join(dir, "clock-"+whose))
	if err != nil {
		return 0 // it was never set
	}
	off, err := time.ParseDuration(string(text))
	if err != nil {
		panic(err)
	}
	return off
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
	keys, err := agent.SealingKeys(dir, key)
	if err != nil {
		return "", err
	}
	sealing, _, _ := keys.Newest()
	enrolment, err := srv.Enrol(ctx, public, sealing, 0, "127.0.0.1", "")
	if err != nil {
		return "", err
	}
	return dir, uplink.SaveEnrolment(dir, enrolment)
}
