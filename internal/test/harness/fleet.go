package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/client"
	"drover/internal/config"
)

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
	// Place returns what to begin the command line of a program with, by its name, so that it runs in a network of its
	// own; nil has all share that of the test.
	Place func(name string) []string
	// Dial is how the test's calls reach the server; nil is from where the test is.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logs are those of every program that has run, by name.
	Logs map[string]*Log
	// local asks the server as its command line does: by the socket in its directory.
	local *client.Client
}

// NewFleet starts a server of the program drover, which agents of the other program may join.
func NewFleet(t testing.TB, drover, agent string, flags ...string) *Fleet {
	t.Helper()
	f := &Fleet{T: t, Drover: drover, Agent: agent, Flags: flags}
	f.Begin()
	return f
}

// Begin starts the server of a fleet that says how.
func (f *Fleet) Begin() {
	f.T.Helper()
	f.Dir, f.Logs = Workdir(f.T), map[string]*Log{}
	var err error
	if f.local, err = client.New(client.Config{Socket: filepath.Join(f.ServerDir(), config.SocketName)}); err != nil {
		f.T.Fatal(err)
	}
	f.StartServer()
}

// Start runs a program until the test ends.
func (f *Fleet) Start(name, binary string, args ...string) *Program {
	f.T.Helper()
	if f.Logs[name] == nil {
		f.Logs[name] = &Log{}
		f.Logs[name].ShowIfFailed(f.T, name)
	}
	line := f.place(name, binary, args)
	return Launch(f.T, f.Logs[name], Environment("/nonexistent", FirstApp()...), line[0], line[1:]...)
}

// StartServer starts the server, again where it was before, and waits until it takes calls.
func (f *Fleet) StartServer() {
	f.T.Helper()
	_, listen, again := strings.Cut(f.URL, "://")
	if !again {
		listen = FreeAddress(f.T)
	}
	f.Server = f.Start("server", f.Drover, append([]string{
		"server", "--data-dir", f.ServerDir(), "--http", listen, "--fabric", "127.0.0.1:0", "--log-level", "debug",
	}, f.Flags...)...)
	f.URL = f.Server.URL()
	f.Client = &http.Client{Transport: &http.Transport{
		//nolint:gosec // verify does it: the authorities change while the client lives
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: f.verify},
		DialContext:     f.Dial,
	}}
	f.T.Cleanup(f.Client.CloseIdleConnections)
}

// verify checks the certificate of the server against the authorities in the server's directory now.
func (f *Fleet) verify(s tls.ConnectionState) error {
	pem, err := os.ReadFile(filepath.Join(f.ServerDir(), "server", "pki", "ca.pem"))
	if err != nil {
		return err
	}
	check := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), DNSName: s.ServerName}
	check.Roots.AppendCertsFromPEM(pem)
	for _, c := range s.PeerCertificates[1:] {
		check.Intermediates.AddCert(c)
	}
	_, err = s.PeerCertificates[0].Verify(check)
	return err
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

// Run runs a command to its end, where the program of that name runs, and returns its exit code and what it has
// written.
func (f *Fleet) Run(name, stdin, binary string, args ...string) (code int, stdout, stderr string) {
	f.T.Helper()
	line := f.place(name, binary, args)
	r := Finish(f.T, stdin, Environment("/nonexistent", FirstApp()...), line[0], line[1:]...)
	return r.Code, r.Out, r.Errors
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
	return strings.TrimSpace(f.CLI(append([]string{
		"token", "create", "--area", fmt.Sprint(area), "--uses", "1",
		"--ttl", "1h",
	}, flags...)...))
}

// Join has an agent ask to join, and returns what came of it.
func (f *Fleet) Join(name, ip, token string, flags ...string) (code int, stderr string) {
	f.T.Helper()
	code, _, stderr = f.Run(name, token, f.Agent, append([]string{
		"join", "--server", f.URL, "--token", "-", "--data-dir", f.AgentDir(name), "--ip", ip,
	}, flags...)...)
	return code, stderr
}

// JoinAndStart joins and starts an agent, the latter with further flags.
func (f *Fleet) JoinAndStart(name, ip string, area int, flags ...string) *Program {
	f.T.Helper()
	if code, errs := f.Join(name, ip, f.Token(area)); code != 0 {
		f.T.Fatalf("%s cannot join: exit code %d: %s", name, code, errs)
	}
	p := f.StartAgent(name, flags...)
	f.Online(fmt.Sprintf("%d:%s", area, ip))
	return p
}

// StartAgent starts an agent that has joined.
func (f *Fleet) StartAgent(name string, flags ...string) *Program {
	f.T.Helper()
	return f.Start(name, f.Agent, append([]string{"run", "--data-dir", f.AgentDir(name), "--log-level", "debug"},
		flags...)...)
}

// Online waits until a host is.
func (f *Fleet) Online(host string) { f.awaitPresence(host, true, "online") }

// Away waits until the loss of a host is noticed.
func (f *Fleet) Away(host string) { f.awaitPresence(host, false, "away") }

func (f *Fleet) awaitPresence(host string, want bool, state string) {
	f.T.Helper()
	Eventually(f.T, host+" to be "+state, func() bool {
		online, known := f.hosts()[host]
		return known && online == want
	})
}

// hosts returns which hosts are online, by their ids. It is empty while the server does not answer.
func (f *Fleet) hosts() map[string]bool {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	hosts := map[string]bool{}
	for host, err := range f.local.Hosts(ctx, client.HostFilter{}) {
		if err != nil {
			return nil
		}
		hosts[host.ID] = host.Online
	}
	return hosts
}

// Call calls a GSE endpoint as a caller from outside does, and fails the test unless its code is 0.
func (f *Fleet) Call(name string, body any) Object {
	f.T.Helper()
	data, err := f.caller().GSE(name, body)
	if err != nil {
		f.T.Fatal(err)
	}
	return data
}

func (f *Fleet) caller() Caller { return Caller{f.URL, f.Client} }

// Operate carries an operation out on hosts and returns the results by host.
func (f *Fleet) Operate(p *Process, op int, hosts ...string) map[string]Result {
	f.T.Helper()
	request := p.Request(op)
	request["agent_id_list"] = hosts
	task, _ := f.Call("operate_proc_v2", request)["task_id"].(string)
	data := f.caller().Await(f.T, task)
	results := map[string]Result{}
	for _, host := range hosts {
		results[host] = ParseResult(f.T, data[host+":"+p.Namespace+":"+p.Name])
	}
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
