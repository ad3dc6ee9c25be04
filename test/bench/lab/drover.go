package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

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
	enrolment, err := srv.Enrol(ctx, public, 0, "127.0.0.1", "")
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

// Operations, as callers number them.
const (
	OpStart   = 0
	OpStop    = 1
	Query     = 2
	OpRestart = 7
)

// Codes of keys.
const (
	CodePending = 115
	codeAway    = 117
)

// Object is a JSON object.
type Object = map[string]any

// Spec is a process to be operated on: its start command, and its pid file.
type Spec struct {
	Name, Start, PIDFile string
}

// Request is the request for an operation on it; a query has no spec.
func (s Spec) Request(op int) Object {
	r := Object{
		"meta": Object{"namespace": Namespace, "name": s.Name}, "op_type": op,
		"agent_id_list": []string{AgentName},
	}
	r["spec"] = Object{
		"identity": Object{"proc_name": "worker", "setup_path": "/", "pid_path": s.PIDFile, "user": "root"},
		"control":  Object{"start_cmd": s.Start, "stop_cmd": ""},
		"alive_monitor_policy": Object{
			"auto_type": 1, "start_check_secs": 1, "stop_check_secs": 10, "start_retries": 1_000_000,
			"start_interval": 1, "op_timeout": 60,
		},
	}
	return r
}

// Key is the key of a process in results.
func (d *Drover) Key(name string) string { return AgentName + ":" + Namespace + ":" + name }

// Body is the body of a call that begins an operation on processes.
func Body(op int, specs ...Spec) ([]byte, error) {
	requests := make([]Object, len(specs))
	for i, s := range specs {
		requests[i] = s.Request(op)
	}
	return json.Marshal(Object{"proc_operate_req": requests})
}

// Submit begins an operation on processes and returns its task.
func (d *Drover) Submit(op int, specs ...Spec) (string, error) {
	body, err := Body(op, specs...)
	if err != nil {
		return "", err
	}
	return d.SubmitBody(body)
}

// SubmitBody is Submit for a caller that has made the body before.
func (d *Drover) SubmitBody(body []byte) (string, error) {
	var reply struct {
		Task string `json:"task_id"`
	}
	err := d.Call("operate_proc_multi", body, &reply)
	return reply.Task, err
}

// Operate carries out an operation and returns the code of each key.
func (d *Drover) Operate(op int, specs ...Spec) (map[string]int, error) {
	task, err := d.Submit(op, specs...)
	if err != nil {
		return nil, err
	}
	return d.Await(task)
}

// PollPause is how long a caller waits before each poll of a task.
const PollPause = 20 * time.Millisecond

// Await polls a task until no key of it is pending.
func (d *Drover) Await(task string) (map[string]int, error) {
	body := []byte(fmt.Sprintf(`{"task_id":%q}`, task))
	for until := time.Now().Add(5 * Patience); ; {
		Pause(PollPause)
		var reply map[string]struct {
			Code int `json:"error_code"`
		}
		if err := d.Call("get_proc_operate_result_v2", body, &reply); err != nil {
			return nil, err
		}
		codes, pending := make(map[string]int, len(reply)), 0
		for key, r := range reply {
			codes[key] = r.Code
			if r.Code == CodePending {
				pending++
			}
		}
		if pending == 0 {
			return codes, nil
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("%d keys of task %s are pending still", pending, task)
		}
	}
}

// Call calls an endpoint and decodes its data; a reply that says failure is an error.
func (d *Drover) Call(name string, body []byte, data any) error {
	text, err := d.Raw(name, body)
	if err != nil {
		return err
	}
	return Decode(name, text, data)
}

// Decode takes the data out of the reply of an endpoint; a reply that says failure is an error.
func Decode(name string, text []byte, data any) error {
	envelope := struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}{Data: data}
	if err := json.Unmarshal(text, &envelope); err != nil {
		return fmt.Errorf("cannot read the reply of %s: %w: %.300s", name, err, text)
	}
	if envelope.Code != 0 {
		return fmt.Errorf("%s failed: %d %s", name, envelope.Code, envelope.Message)
	}
	return nil
}

// Raw calls an endpoint and returns the whole reply.
func (d *Drover) Raw(name string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, d.URL+"/api/v2/proc/"+name,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"bench"}`,
		AppCode, AppSecret))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// Failures returns what did not end with one of the codes, shortened.
func Failures(codes map[string]int, want ...int) error {
	var bad []string
	for key, code := range codes {
		ok := false
		for _, w := range want {
			ok = ok || code == w
		}
		if !ok {
			bad = append(bad, fmt.Sprintf("%s: %d", key, code))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d keys have failed: %s", len(bad), len(codes), strings.Join(bad[:min(len(bad), 3)], ", "))
}
