package fleet_test

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

	"drover/test/harness"
)

// program is one process of drover.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan error
	out   *watched
}

// watched keeps what a program writes and can be read meanwhile.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// fleet is a server and where its agents are kept.
type fleet struct {
	t      *testing.T
	dir    string
	url    string
	server *program
	client *http.Client
	// flags are further ones of the server.
	flags []string
	// logs are those of every program that has run, by name.
	logs map[string]*watched
}

// newFleet starts a server.
func newFleet(t *testing.T, flags ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: harness.Workdir(t), flags: flags, logs: map[string]*watched{}}
	t.Cleanup(func() {
		if t.Failed() {
			for name, log := range f.logs {
				text := log.String()
				t.Logf("log of %s:\n%s", name, text[max(0, len(text)-8000):])
			}
		}
	})
	f.startServer()
	return f
}

// environment is what the programs are given.
func environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent",
		"DROVER_BOOTSTRAP_APP_CODE=" + harness.AppCode, "DROVER_BOOTSTRAP_APP_SECRET=" + harness.AppSecret,
	}
}

// start runs a program until the test ends.
func (f *fleet) start(name, binary string, args ...string) *program {
	f.t.Helper()
	if f.logs[name] == nil {
		f.logs[name] = &watched{}
	}
	p := &program{t: f.t, cmd: exec.Command(binary, args...), ended: make(chan error, 1), out: &watched{}}
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = p.out, f.logs[name]
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	f.t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

// end signals the program and waits until it has ended. It may be called again.
func (p *program) end(sig syscall.Signal) {
	p.t.Helper()
	_ = p.cmd.Process.Signal(sig) // it may have ended
	select {
	case err := <-p.ended:
		p.ended <- err
	case <-time.After(harness.Patience):
		p.t.Error("a program did not end")
	}
}

// startServer starts the server, again where it was before, and waits until it takes calls.
func (f *fleet) startServer() {
	f.t.Helper()
	listen := "127.0.0.1:0"
	if f.url != "" {
		_, listen, _ = strings.Cut(f.url, "://")
	}
	f.server = f.start("server", binaries.drover, append([]string{
		"server", "--data-dir", f.serverDir(), "--http", listen, "--fabric", "127.0.0.1:0", "--log-level", "debug",
	}, f.flags...)...)
	harness.Eventually(f.t, "the server to be ready", func() bool {
		select {
		case err := <-f.server.ended:
			f.server.ended <- err
			f.t.Fatalf("the server ended: %v", err)
		default:
		}
		for line := range strings.Lines(f.server.out.String()) {
			if url, ok := strings.CutPrefix(strings.TrimSpace(line), "URL "); ok && strings.HasSuffix(line, "\n") {
				f.url = strings.TrimSpace(url)
				return true
			}
		}
		return false
	})
	pem, err := os.ReadFile(filepath.Join(f.serverDir(), "server", "pki", "ca.pem"))
	if err != nil {
		f.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		f.t.Fatal("ca.pem holds no certificate")
	}
	f.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	f.t.Cleanup(f.client.CloseIdleConnections)
}

func (f *fleet) serverDir() string           { return filepath.Join(f.dir, "server") }
func (f *fleet) agentDir(name string) string { return filepath.Join(f.dir, name) }

// run runs a command to its end and returns its exit code and what it has written.
func (f *fleet) run(stdin, binary string, args ...string) (code int, stdout, stderr string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = environment()
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && !ok {
		f.t.Fatal(err)
	}
	if ok {
		code = exit.ExitCode()
	}
	return code, out.String(), errs.String()
}

// drover runs a command of drover against the server, which must succeed, and returns what it prints.
func (f *fleet) drover(args ...string) string {
	f.t.Helper()
	code, out, errs := f.run("", binaries.drover, append(args, "--data-dir", f.serverDir())...)
	if code != 0 {
		f.t.Fatalf("drover %q: exit code %d: %s", args, code, errs)
	}
	return out
}

// token makes a token.
func (f *fleet) token(area int, flags ...string) string {
	f.t.Helper()
	return strings.TrimSpace(f.drover(append([]string{"token", "create", "--area", fmt.Sprint(area), "--uses", "1", "--ttl", "1h"}, flags...)...))
}

// join has an agent ask to join, and returns what came of it.
func (f *fleet) join(name, ip, token string, flags ...string) (code int, stderr string) {
	f.t.Helper()
	code, _, stderr = f.run(token, binaries.agent, append([]string{
		"join", "--server", f.url, "--token", "-", "--data-dir", f.agentDir(name), "--ip", ip,
	}, flags...)...)
	return code, stderr
}

// agent joins and starts an agent.
func (f *fleet) agent(name, ip string, area int) *program {
	f.t.Helper()
	if code, errs := f.join(name, ip, f.token(area)); code != 0 {
		f.t.Fatalf("%s cannot join: exit code %d: %s", name, code, errs)
	}
	p := f.startAgent(name)
	f.online(fmt.Sprintf("%d:%s", area, ip))
	return p
}

func (f *fleet) startAgent(name string) *program {
	f.t.Helper()
	return f.start(name, binaries.agent, "run", "--data-dir", f.agentDir(name), "--log-level", "debug")
}

// online waits until a host is.
func (f *fleet) online(host string) {
	f.t.Helper()
	harness.Eventually(f.t, host+" to be online", func() bool {
		for line := range strings.Lines(f.drover("agents")) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] == host && fields[2] == "online" {
				return true
			}
		}
		return false
	})
}

// call calls a GSE endpoint as a caller from outside does, and fails the test unless its code is 0.
func (f *fleet) call(name string, body any) harness.Object {
	f.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), harness.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/api/c/compapi/v2/gse/"+name+"/", bytes.NewReader(data))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"tester"}`, harness.AppCode, harness.AppSecret))
	resp, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	reply := harness.Object{}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		f.t.Fatal(err)
	}
	if reply["code"] != 0.0 {
		f.t.Fatalf("%s: %v", name, reply)
	}
	got, _ := reply["data"].(harness.Object)
	return got
}

// operate carries an operation out on hosts and returns the results by host.
func (f *fleet) operate(p *harness.Process, op int, hosts ...string) map[string]harness.Result {
	f.t.Helper()
	request := p.Request(op)
	request["agent_id_list"] = hosts
	task := f.call("operate_proc_v2", request)["task_id"]
	results := map[string]harness.Result{}
	harness.Eventually(f.t, "the task to end", func() bool {
		data := f.call("get_proc_operate_result_v2", harness.Object{"task_id": task})
		for _, host := range hosts {
			entry := data[host+":"+p.Namespace+":"+p.Name]
			if e, ok := entry.(harness.Object); !ok || e["error_code"] == 115.0 {
				return false
			}
			results[host] = harness.ParseResult(f.t, entry)
		}
		return true
	})
	return results
}

// want fails the test unless every host has answered with the code.
func (f *fleet) want(code int, results map[string]harness.Result) {
	f.t.Helper()
	for host, r := range results {
		if r.Code != code {
			f.t.Errorf("%s answered %d %s, want %d", host, r.Code, r.Msg, code)
		}
	}
}

// daemon is a process to supervise, and its directory. Each host has one of its own, as all hosts of a test share their files.
func (f *fleet) daemon(name string) (*harness.Process, string) {
	f.t.Helper()
	return harness.Odd(f.t, nil, binaries.oddd, name, "plain")
}
