package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Program is one process of drover.
type Program struct {
	// Out is what it has written to its standard output.
	Out *Log

	t     testing.TB
	cmd   *exec.Cmd
	ended chan error
}

// Log keeps what a program writes and can be read meanwhile.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (w *Log) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// String returns all of it.
func (w *Log) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// Fleet is a server of its own and where its agents are kept, looked at from outside.
type Fleet struct {
	// T is the test that everything here lives for; Dir holds the directories of all programs.
	T   testing.TB
	Dir string
	// Drover and Agent are the programs.
	Drover, Agent string
	// URL is where the server's API is, Client trusts its certificate.
	URL    string
	Client *http.Client
	Server *Program
	// Flags are further ones of the server.
	Flags []string
	// Place returns what to begin the command line of a program with, by its name, so that it runs in a network of its own; nil has all
	// share that of the test.
	Place func(name string) []string
	// Logs are those of every program that has run, by name.
	Logs map[string]*Log
}

// NewFleet starts a server of the program drover, which agents of the other program may join.
func NewFleet(t testing.TB, drover, agent string, flags ...string) *Fleet {
	t.Helper()
	f := &Fleet{T: t, Dir: Workdir(t), Drover: drover, Agent: agent, Flags: flags, Logs: map[string]*Log{}}
	t.Cleanup(func() {
		if t.Failed() {
			for name, log := range f.Logs {
				text := log.String()
				t.Logf("log of %s:\n%s", name, text[max(0, len(text)-8000):])
			}
		}
	})
	f.StartServer()
	return f
}

// environment is what the programs are given.
func environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent",
		"DROVER_BOOTSTRAP_APP_CODE=" + AppCode, "DROVER_BOOTSTRAP_APP_SECRET=" + AppSecret,
	}
}

// Start runs a program until the test ends.
func (f *Fleet) Start(name, binary string, args ...string) *Program {
	f.T.Helper()
	if f.Logs[name] == nil {
		f.Logs[name] = &Log{}
	}
	line := f.place(name, binary, args)
	p := &Program{t: f.T, cmd: exec.Command(line[0], line[1:]...), ended: make(chan error, 1), Out: &Log{}}
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = p.Out, f.Logs[name]
	if err := p.cmd.Start(); err != nil {
		f.T.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	f.T.Cleanup(func() { p.End(syscall.SIGKILL) })
	return p
}

// End signals the program and waits until it has ended. It may be called again.
func (p *Program) End(sig syscall.Signal) {
	p.t.Helper()
	_ = p.cmd.Process.Signal(sig) // it may have ended
	select {
	case err := <-p.ended:
		p.ended <- err
	case <-time.After(Patience):
		p.t.Error("a program did not end")
	}
}

// StartServer starts the server, again where it was before, and waits until it takes calls.
func (f *Fleet) StartServer() {
	f.T.Helper()
	listen := "127.0.0.1:0"
	if f.URL != "" {
		_, listen, _ = strings.Cut(f.URL, "://")
	}
	f.Server = f.Start("server", f.Drover, append([]string{
		"server", "--data-dir", f.ServerDir(), "--http", listen, "--fabric", "127.0.0.1:0", "--log-level", "debug",
	}, f.Flags...)...)
	Eventually(f.T, "the server to be ready", func() bool {
		select {
		case err := <-f.Server.ended:
			f.Server.ended <- err
			f.T.Fatalf("the server ended: %v", err)
		default:
		}
		for line := range strings.Lines(f.Server.Out.String()) {
			if url, ok := strings.CutPrefix(strings.TrimSpace(line), "URL "); ok && strings.HasSuffix(line, "\n") {
				f.URL = strings.TrimSpace(url)
				return true
			}
		}
		return false
	})
	pem, err := os.ReadFile(filepath.Join(f.ServerDir(), "server", "pki", "ca.pem"))
	if err != nil {
		f.T.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		f.T.Fatal("ca.pem holds no certificate")
	}
	f.Client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	f.T.Cleanup(f.Client.CloseIdleConnections)
}

// ServerDir is the data directory of the server.
func (f *Fleet) ServerDir() string { return filepath.Join(f.Dir, "server") }

// AgentDir is the data directory of an agent.
func (f *Fleet) AgentDir(name string) string { return filepath.Join(f.Dir, name) }

// place returns the command line of a program where it is to run.
func (f *Fleet) place(name, binary string, args []string) []string {
	line := append([]string{binary}, args...)
	if f.Place != nil {
		line = append(f.Place(name), line...)
	}
	return line
}

// Run runs a command to its end, where the program of that name runs, and returns its exit code and what it has written.
func (f *Fleet) Run(name, stdin, binary string, args ...string) (code int, stdout, stderr string) {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(f.T.Context(), Patience)
	defer cancel()
	line := f.place(name, binary, args)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = environment()
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && !ok {
		f.T.Fatal(err)
	}
	if ok {
		code = exit.ExitCode()
	}
	return code, out.String(), errs.String()
}

// CLI runs a command of drover against the server, which must succeed, and returns what it prints.
func (f *Fleet) CLI(args ...string) string {
	f.T.Helper()
	code, out, errs := f.Run("server", "", f.Drover, append(args, "--data-dir", f.ServerDir())...)
	if code != 0 {
		f.T.Fatalf("drover %q: exit code %d: %s", args, code, errs)
	}
	return out
}

// Token makes a token.
func (f *Fleet) Token(area int, flags ...string) string {
	f.T.Helper()
	return strings.TrimSpace(f.CLI(append([]string{"token", "create", "--area", fmt.Sprint(area), "--uses", "1", "--ttl", "1h"}, flags...)...))
}

// Join has an agent ask to join, and returns what came of it.
func (f *Fleet) Join(name, ip, token string, flags ...string) (code int, stderr string) {
	f.T.Helper()
	code, _, stderr = f.Run(name, token, f.Agent, append([]string{
		"join", "--server", f.URL, "--token", "-", "--data-dir", f.AgentDir(name), "--ip", ip,
	}, flags...)...)
	return code, stderr
}

// JoinAndStart joins and starts an agent.
func (f *Fleet) JoinAndStart(name, ip string, area int) *Program {
	f.T.Helper()
	if code, errs := f.Join(name, ip, f.Token(area)); code != 0 {
		f.T.Fatalf("%s cannot join: exit code %d: %s", name, code, errs)
	}
	p := f.StartAgent(name)
	f.Online(fmt.Sprintf("%d:%s", area, ip))
	return p
}

// StartAgent starts an agent that has joined.
func (f *Fleet) StartAgent(name string) *Program {
	f.T.Helper()
	return f.Start(name, f.Agent, "run", "--data-dir", f.AgentDir(name), "--log-level", "debug")
}

// Online waits until a host is.
func (f *Fleet) Online(host string) {
	f.T.Helper()
	Eventually(f.T, host+" to be online", func() bool {
		for line := range strings.Lines(f.CLI("agents")) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] == host && fields[2] == "online" {
				return true
			}
		}
		return false
	})
}

// Call calls a GSE endpoint as a caller from outside does, and fails the test unless its code is 0.
func (f *Fleet) Call(name string, body any) Object {
	f.T.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		f.T.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.T.Context(), Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL+"/api/c/compapi/v2/gse/"+name+"/", bytes.NewReader(data))
	if err != nil {
		f.T.Fatal(err)
	}
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"tester"}`, AppCode, AppSecret))
	resp, err := f.Client.Do(req)
	if err != nil {
		f.T.Fatal(err)
	}
	defer resp.Body.Close()
	reply := Object{}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		f.T.Fatal(err)
	}
	if reply["code"] != 0.0 {
		f.T.Fatalf("%s: %v", name, reply)
	}
	got, _ := reply["data"].(Object)
	return got
}

// Operate carries an operation out on hosts and returns the results by host.
func (f *Fleet) Operate(p *Process, op int, hosts ...string) map[string]Result {
	f.T.Helper()
	request := p.Request(op)
	request["agent_id_list"] = hosts
	task := f.Call("operate_proc_v2", request)["task_id"]
	results := map[string]Result{}
	Eventually(f.T, "the task to end", func() bool {
		data := f.Call("get_proc_operate_result_v2", Object{"task_id": task})
		for _, host := range hosts {
			entry := data[host+":"+p.Namespace+":"+p.Name]
			if e, ok := entry.(Object); !ok || e["error_code"] == 115.0 {
				return false
			}
			results[host] = ParseResult(f.T, entry)
		}
		return true
	})
	return results
}

// Want fails the test unless every host has answered with the code.
func (f *Fleet) Want(code int, results map[string]Result) {
	f.T.Helper()
	for host, r := range results {
		if r.Code != code {
			f.T.Errorf("%s answered %d %s, want %d", host, r.Code, r.Msg, code)
		}
	}
}
