package servers_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"drover/internal/test/harness"
	"drover/internal/test/pgtest"
)

// site is a fleet of several servers: one database, a cluster of brokers, and whoever uses them.
type site struct {
	t        *testing.T
	dir      string
	database string
	pg       *pgtest.Server
	brokers  []*node
	servers  []*node
	client   *http.Client
}

// node is a program of the site, which may be killed and started again.
type node struct {
	s    *site
	name string
	// dir is its data directory, url where its API is, clients where it listens for them, leaves where it does for
	// proxies.
	dir, url        string
	clients, leaves string
	binary          string
	args            []string
	log             *harness.Log

	mu      sync.Mutex
	running *harness.Program
}

// newSite starts brokers and servers. Without brokers the servers embed them, and join those to each other.
func newSite(t *testing.T, brokers, servers int) *site {
	t.Helper()
	s := newDatabase(t)
	first := filepath.Join(s.dir, "server1")
	s.startBrokers(first, brokers)
	var together [][]string
	if brokers == 0 {
		together = s.together(servers)
	}
	keys := filepath.Join(s.dir, "keys.tar")
	for i := range servers {
		dir := filepath.Join(s.dir, fmt.Sprintf("server%d", i+1))
		if i > 0 {
			s.must("server", "keys", "import", keys, "--data-dir", dir)
		}
		if brokers == 0 {
			s.startServer(dir, together[i]...)
		} else {
			s.startServer(dir)
		}
		if i == 0 {
			s.must("server", "keys", "export", keys, "--data-dir", first)
		}
	}
	s.trust(first)
	return s
}

// together are the flags of servers that embed brokers.
func (s *site) together(servers int) [][]string {
	s.t.Helper()
	var fabrics, clusters []string
	for range servers {
		fabrics = append(fabrics, harness.FreeAddress(s.t))
		clusters = append(clusters, harness.FreeAddress(s.t))
	}
	flags := make([][]string, servers)
	for i := range flags {
		flags[i] = []string{"--fabric", fabrics[i], "--cluster", clusters[i], "--proxies", harness.FreeAddress(s.t)}
		for j := range fabrics {
			flags[i] = append(flags[i], "--advertise", fabrics[j])
			if j != i {
				flags[i] = append(flags[i], "--route", clusters[j])
			}
		}
	}
	return flags
}

// newDatabase starts a database for a site.
func newDatabase(t *testing.T) *site {
	t.Helper()
	pg := pgtest.Own(t)
	if err := pg.Start(); err != nil {
		t.Fatal(err)
	}
	return &site{t: t, dir: harness.Workdir(t), pg: pg, database: pg.Database(t)}
}

// startBrokers starts a cluster of brokers for the keys in a data directory.
func (s *site) startBrokers(keys string, count int) {
	s.t.Helper()
	var routes []string
	for range count {
		routes = append(routes, harness.FreeAddress(s.t))
	}
	for i, cluster := range routes {
		n := s.node(fmt.Sprintf("nats%d", i+1), binaries.nats)
		n.clients, n.leaves = harness.FreeAddress(s.t), harness.FreeAddress(s.t)
		args := []string{
			"server", "nats-config", "--data-dir", keys, "--name", n.name, "--listen", n.clients,
			"--proxies", n.leaves, "--out", n.dir, "--dir", n.dir,
		}
		for _, address := range []string{n.clients, n.leaves, cluster} {
			host, _ := harness.SplitAddress(s.t, address)
			args = append(args, "--host", host)
		}
		if count > 1 {
			args = append(args, "--cluster", cluster)
			for j, route := range routes {
				if j != i {
					args = append(args, "--route", route)
				}
			}
		}
		s.must(args...)
		n.args = []string{"-c", filepath.Join(n.dir, "nats-server.conf")}
		s.brokers = append(s.brokers, n)
		n.start()
	}
	for _, n := range s.brokers {
		harness.Eventually(s.t, n.name+" to listen", n.listens)
	}
}

// listens reports whether a broker takes connections.
func (n *node) listens() bool {
	conn, err := (&net.Dialer{}).DialContext(n.s.t.Context(), "tcp", n.clients)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was said
	return true
}

// startServer starts one more server, on a data directory that has the keys.
func (s *site) startServer(dir string, flags ...string) *node {
	s.t.Helper()
	n := s.node(filepath.Base(dir), binaries.drover)
	n.dir = dir
	n.args = append([]string{
		"server", "--data-dir", dir, "--http", harness.FreeAddress(s.t), "--database", s.database, "--log-level",
		"debug",
	}, flags...)
	for _, b := range s.brokers {
		n.args = append(n.args, "--nats", "tls://"+b.clients, "--advertise-proxies", b.leaves)
	}
	s.servers = append(s.servers, n)
	n.start()
	n.url = n.program().URL()
	return n
}

func (s *site) node(name, binary string) *node {
	n := &node{s: s, name: name, dir: filepath.Join(s.dir, name), binary: binary, log: &harness.Log{}}
	n.log.ShowIfFailed(s.t, name)
	return n
}

// start starts the program, again after it has ended.
func (n *node) start() {
	n.s.t.Helper()
	p := harness.Launch(n.s.t, n.log, harness.Environment("/nonexistent", harness.FirstApp()...), n.binary, n.args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = p
}

func (n *node) program() *harness.Program {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running
}

// restart starts a program that was killed, and waits until it is there again.
func (n *node) restart() {
	n.s.t.Helper()
	n.start()
	if n.binary == binaries.drover {
		n.program().URL()
	}
}

// run runs drover to its end.
func (s *site) run(args ...string) harness.Finished {
	s.t.Helper()
	return harness.Finish(s.t, "", harness.Environment("/nonexistent", harness.FirstApp()...), binaries.drover, args...)
}

// must runs drover, which must succeed, and returns what it prints.
func (s *site) must(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.Code != 0 {
		s.t.Fatalf("drover %q: exit code %d: %s", args, r.Code, r.Errors)
	}
	return r.Out
}

// trust makes a client that verifies the servers.
func (s *site) trust(dir string) {
	s.t.Helper()
	pem, err := os.ReadFile(filepath.Join(dir, "server", "pki", "ca.pem"))
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		s.t.Fatal("ca.pem holds no certificate")
	}
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	s.t.Cleanup(s.client.CloseIdleConnections)
}

// agent has a host join area 0 by a server, starts its agent, and waits until every server shows it.
func (s *site) agent(name, ip string, by *node) *node {
	s.t.Helper()
	return s.agentOf(0, name, ip, by, by.url)
}

// agentOf is agent for any area, and for a host that joins at a proxy, with a token of a server.
func (s *site) agentOf(area int, name, ip string, by *node, at string) *node {
	s.t.Helper()
	a := s.node(name, binaries.agent)
	s.join(binaries.agent, by, area, "", "join", "--server", at, "--token", "-", "--data-dir", a.dir, "--ip", ip)
	a.args = []string{"run", "--data-dir", a.dir, "--log-level", "debug"}
	a.start()
	for _, n := range s.servers {
		n.shows(fmt.Sprintf("%d:%s", area, ip), "online")
	}
	return a
}

// join runs a command that reads a token, of a role or of an agent, which a server makes.
func (s *site) join(binary string, by *node, area int, role string, args ...string) {
	s.t.Helper()
	create := []string{
		"token", "create", "--area", fmt.Sprint(area), "--uses", "1", "--ttl", "1h", "--data-dir",
		by.dir,
	}
	if role != "" {
		create = append(create, "--role", role)
	}
	r := harness.Finish(s.t, s.must(create...), harness.Environment("/nonexistent"), binary, args...)
	if r.Code != 0 {
		s.t.Fatalf("%q: exit code %d: %s", args, r.Code, r.Errors)
	}
}

// proxy has a proxy join an area by a server and starts it. It returns where hosts join.
func (s *site) proxy(name string, area int, by *node) (p *node, url string) {
	s.t.Helper()
	p = s.node(name, binaries.drover)
	http, fabric := harness.FreeAddress(s.t), harness.FreeAddress(s.t)
	s.join(binaries.drover, by, area, "proxy", "proxy", "join", "--server", by.url, "--token", "-", "--name", name,
		"--advertise", fabric, "--data-dir", p.dir)
	p.args = []string{"proxy", "--data-dir", p.dir, "--fabric", fabric, "--http", http, "--log-level", "debug"}
	p.start()
	harness.Eventually(s.t, name+" to be online", func() bool {
		for line := range strings.Lines(s.must("proxies", "list", "--data-dir", by.dir)) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] == name && fields[2] == "online" {
				return true
			}
		}
		return false
	})
	return p, "https://" + http
}

// presence is what a server shows of a host; empty where it does not know it.
func (n *node) presence(host string) string {
	n.s.t.Helper()
	for line := range strings.Lines(n.s.must("agents", "--data-dir", n.dir)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == host {
			return fields[2]
		}
	}
	return ""
}

// shows waits until a server shows so.
func (n *node) shows(host, presence string) {
	n.s.t.Helper()
	harness.Eventually(n.s.t, fmt.Sprintf("%s to show %s as %q", n.name, host, presence),
		func() bool { return n.presence(host) == presence })
}

// caller calls one server.
func (n *node) caller() harness.Caller { return harness.Caller{URL: n.url, Client: n.s.client} }

// post calls the servers in turn, beginning with one, as a load balancer does: the next one where nobody listens. A
// call that was under way when its server died is not made again: it may have been taken.
func (s *site) post(first int, name string, body any) (data harness.Object, err error) {
	for i := range s.servers {
		data, err = s.servers[(first+i)%len(s.servers)].caller().GSE(name, body)
		if failure, ok := errors.AsType[*net.OpError](err); !ok || failure.Op != "dial" {
			return data, err
		}
	}
	return data, err
}

// get reads a path of a server without credentials.
func (n *node) get(path string) (status int, text string) {
	n.s.t.Helper()
	return harness.Get(n.s.t, n.s.client, n.url+path)
}
