package lab

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"drover/internal/agent"
	"drover/internal/agent/uplink"
	"drover/internal/group"
	"drover/internal/server"
)

// What the benchmarks are called as an app, and what the agent is called.
const (
	AppCode   = "bench"
	AppSecret = "bench-secret-0123456789"
	AgentName = "0:127.0.0.1"
	Namespace = "bench"
)

// ServerStage is the first argument with which a program is to call Serve.
const ServerStage = "drover-server"

// Drover is a server and an agent, each in a process of its own.
type Drover struct {
	lab    *Lab
	Dir    string
	URL    string
	Server *Child
	Agent  *Child
}

// Drover starts a server and, unless alone is set, an agent on a directory of the disk, which may hold a database
// already, and waits until they take calls.
func (l *Lab) Drover(ctx context.Context, name string, alone bool) (*Drover, error) {
	d := &Drover{lab: l, Dir: filepath.Join(l.Disk, name)}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, ServerStage, d.Dir)
	url := filepath.Join(d.Dir, "url")
	if d.Server, err = Start(cmd, filepath.Join(d.Dir, "server.log")); err != nil {
		return nil, err
	}
	err = Eventually("the server", Patience, func() bool {
		data, err := os.ReadFile(url)
		d.URL = string(data)
		return err == nil && d.ready(ctx)
	})
	if err == nil && !alone {
		err = d.StartAgent()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (d *Drover) ready(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// StartAgent starts the agent and waits until it has taken an operation.
func (d *Drover) StartAgent() error {
	var err error
	cmd := exec.Command(filepath.Join(d.lab.Bin, "drover-agent"), "run", "--data-dir", d.Dir)
	if d.Agent, err = Start(cmd, filepath.Join(d.Dir, "agent.log")); err != nil {
		return err
	}
	return Eventually("the agent", Patience, func() bool {
		codes, err := d.Operate(Query, Spec{Name: "nobody"})
		return err == nil && codes[d.Key("nobody")] != codeAway
	})
}

// Close ends both. What they have started goes on.
func (d *Drover) Close() {
	if d.Agent != nil {
		d.Agent.End(syscall.SIGTERM)
	}
	d.Server.End(syscall.SIGTERM)
}

// Environment is what the command line of drover needs.
func (d *Drover) Environment() []string {
	return append(os.Environ(), "DROVER_SERVER="+d.URL, "DROVER_APP_CODE="+AppCode, "DROVER_APP_SECRET="+AppSecret,
		"DROVER_USER=bench")
}

// Serve is the life of a server, assembled as drover dev does it but for the agent, which is enrolled to run beside it;
// args are those after ServerStage. It ends with SIGTERM.
func Serve(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	dir := args[0]
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	srv, err := server.New(ctx, server.Config{
		Dir: filepath.Join(dir, "server"), HTTP: "127.0.0.1:0",
		Fabric: "127.0.0.1:0", Log: log,
	})
	if err != nil {
		return err
	}
	defer srv.Close()
	if _, _, _, err := srv.FirstApp(ctx, AppCode, AppSecret); err != nil {
		return err
	}
	key, err := agent.OwnKey(filepath.Join(dir, "agent"))
	if err != nil {
		return err
	}
	public, err := key.PublicKey()
	if err != nil {
		return fmt.Errorf("cannot read agent key: %w", err)
	}
	keys, err := agent.SealingKeys(filepath.Join(dir, "agent"), key)
	if err != nil {
		return err
	}
	sealing, _, _ := keys.Newest()
	enrolment, err := srv.Enrol(ctx, public, sealing, 0, "127.0.0.1", "")
	if err != nil {
		return err
	}
	if err := uplink.SaveEnrolment(filepath.Join(dir, "agent"), enrolment); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "url"), []byte(srv.URL()), 0o600); err != nil {
		return err
	}
	return group.Run(ctx, group.Part{Name: "server", Run: srv.Run}, group.Part{Name: "http", Run: srv.Serve})
}
