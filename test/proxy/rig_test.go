package proxy_test

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// fleet is a server with proxies and agents behind them.
type fleet struct {
	*harness.Fleet
	proxies map[string]*relay
}

// relay is a proxy, and where it is.
type relay struct {
	*harness.Program
	name       string
	http, nats string
}

func newFleet(t *testing.T, flags ...string) *fleet {
	t.Helper()
	if len(flags) == 0 {
		flags = []string{"--proxies", address(hubPort)}
	}
	return &fleet{harness.NewFleet(t, binaries.drover, binaries.agent, flags...), map[string]*relay{}}
}

// Ports as they are by default.
const (
	httpPort   = "7350"
	fabricPort = "7351"
	hubPort    = "7352"
)

// address returns a port of an address of its own on loopback: nobody else listens there, nor does a connection have it
// as its own end.
func address(port string) string {
	return net.JoinHostPort(fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(63), rand.IntN(256), 1+rand.IntN(254)), port)
}

// proxy has a proxy join an area and starts it.
func (f *fleet) proxy(name string, area int) *relay {
	f.T.Helper()
	p := &relay{name: name, http: address(httpPort), nats: address(fabricPort)}
	if code, errs := f.joinProxy(p, f.Token(area, "--role", "proxy")); code != 0 {
		f.T.Fatalf("proxy %s cannot join: exit code %d: %s", name, code, errs)
	}
	f.proxies[name] = p
	f.run(p)
	f.reached(name)
	return p
}

func (f *fleet) joinProxy(p *relay, token string, flags ...string) (code int, stderr string) {
	f.T.Helper()
	code, _, stderr = f.Run(p.name, token, f.Drover, append([]string{
		"proxy", "join", "--server", f.URL, "--token", "-", "--name", p.name, "--advertise", p.nats, "--data-dir",
		f.AgentDir(p.name),
	}, flags...)...)
	return code, stderr
}

// run starts a proxy that has joined.
func (f *fleet) run(p *relay) {
	f.T.Helper()
	p.Program = f.Start(p.name, f.Drover, "proxy", "--data-dir", f.AgentDir(p.name), "--fabric", p.nats, "--http",
		p.http, "--log-level", "debug")
}

// status returns the status of an HTTP answer of a proxy, 0 without an answer.
func (p *relay) status(path string) int {
	//nolint:gosec // the certificate of a proxy has no name of a host
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + p.http + path)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close() // nothing was written
	return resp.StatusCode
}

// line returns what the list of proxies says of one.
func (f *fleet) line(name string) []string {
	f.T.Helper()
	for line := range strings.Lines(f.CLI("proxies", "list")) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[0] == name {
			return fields
		}
	}
	return nil
}

// reached waits until the servers have heard of a proxy.
func (f *fleet) reached(name string) {
	f.T.Helper()
	harness.Eventually(f.T, name+" to be online", func() bool {
		line := f.line(name)
		return len(line) > 0 && line[2] == "online"
	})
}

// carries waits until so many agents are connected to a proxy.
func (f *fleet) carries(name string, agents int) {
	f.T.Helper()
	harness.Eventually(f.T, fmt.Sprintf("%s to carry %d agents", name, agents), func() bool {
		line := f.line(name)
		return len(line) > 0 && line[3] == strconv.Itoa(agents)
	})
}

// agent joins through a proxy and starts.
func (f *fleet) agent(name, ip string, area int, through *relay) *harness.Program {
	f.T.Helper()
	if code, errs := f.Join(name, ip, f.Token(area), "--server", "https://"+through.http); code != 0 {
		f.T.Fatalf("%s cannot join: exit code %d: %s", name, code, errs)
	}
	p := f.StartAgent(name)
	f.Online(fmt.Sprintf("%d:%s", area, ip))
	return p
}

// works has a process started and stopped on hosts.
func (f *fleet) works(hosts ...string) {
	f.T.Helper()
	for _, host := range hosts {
		p, _ := harness.Odd(f.T, nil, binaries.oddd, "works", "plain")
		p.Policy = harness.Object{"start_check_secs": 0}
		f.Want(0, f.Operate(p, 0, host))
		f.Want(0, f.Operate(p, 1, host))
	}
}

// carrier waits until one of two proxies carries the only agent, and returns that one and the other.
func (f *fleet) carrier(a, b *relay) (carrying, idle *relay) {
	f.T.Helper()
	harness.Eventually(f.T, "a proxy to carry the agent", func() bool {
		for _, pair := range [][2]*relay{{a, b}, {b, a}} {
			if f.line(pair[0].name)[3] == "1" && f.line(pair[1].name)[3] == "0" {
				carrying, idle = pair[0], pair[1]
				return true
			}
		}
		return false
	})
	return carrying, idle
}
