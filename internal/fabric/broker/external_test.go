package broker_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/fabric/fabrictest"
	"drover/internal/pki"
	"drover/internal/pki/pkitest"
	"drover/internal/test/harness"
)

// outside is a cluster of brokers with the configuration that ConfigureNode makes, as somebody else runs them.
type outside struct {
	t     *testing.T
	k     *pki.Manager
	keys  broker.ExternalConfig
	nodes []*server.Server
	of    []broker.Node
	urls  []string
}

func startOutside(t *testing.T, nodes int) *outside {
	t.Helper()
	o := &outside{t: t, k: pkitest.New(t), keys: broker.ExternalConfig{
		Dir: filepath.Join(t.TempDir(), "fabric"), Log: testLog(t),
		Agents: broker.Rights{
			Publish:   []string{"test.server.{{subject()}}.>"},
			Subscribe: []string{"test.agent.{{subject()}}.>"},
		},
	}}
	var clusters []string
	for range nodes {
		clusters = append(clusters, harness.FreeAddress(t))
	}
	for i, cluster := range clusters {
		n := broker.Node{
			Name: "n" + strconv.Itoa(i), Listen: harness.FreeAddress(t), Leaves: harness.FreeAddress(t),
			Cluster: cluster, Dir: t.TempDir(),
		}
		for j, other := range clusters {
			if j != i {
				n.Routes = append(n.Routes, other)
			}
		}
		cert, key, err := o.k.IssueNode([]string{host(t, n.Listen), host(t, n.Cluster)})
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{
			broker.CertFile: cert, broker.KeyFile: key, broker.CAFile: []byte(o.k.CA()),
		} {
			if err := os.WriteFile(filepath.Join(n.Dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		o.urls = append(o.urls, "tls://"+n.Listen)
		o.of, o.nodes = append(o.of, n), append(o.nodes, nil)
		o.configure(i)
		o.run(i)
	}
	return o
}

// configure writes the configuration of a broker.
func (o *outside) configure(i int) {
	o.t.Helper()
	var text bytes.Buffer
	if err := broker.ConfigureNode(&text, o.keys, o.of[i]); err != nil {
		o.t.Fatal(err)
	}
	o.holdsNoSecret(text.String())
	if err := os.WriteFile(filepath.Join(o.of[i].Dir, broker.ConfigFile), text.Bytes(), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// reconfigure gives all brokers another configuration, one after the other.
func (o *outside) reconfigure() {
	o.t.Helper()
	for i := range o.nodes {
		o.configure(i)
		o.nodes[i].Shutdown()
		o.nodes[i].WaitForShutdown()
		o.run(i)
		o.whole()
	}
}

// holdsNoSecret fails the test where a text has one of the keys in it.
func (o *outside) holdsNoSecret(text string) {
	o.t.Helper()
	files, err := filepath.Glob(filepath.Join(o.keys.Dir, "*.nk"))
	if err != nil || len(files) < 3 {
		o.t.Fatalf("keys are %q, %v", files, err)
	}
	for _, file := range files {
		seed, err := os.ReadFile(file)
		if err != nil {
			o.t.Fatal(err)
		}
		if strings.Contains(text, strings.TrimSpace(string(seed))) {
			o.t.Errorf("the configuration holds the seed of %s", filepath.Base(file))
		}
	}
}

func host(t *testing.T, address string) string {
	t.Helper()
	host, _ := harness.SplitAddress(t, address)
	return host
}

// run starts a broker, again after it has ended.
func (o *outside) run(i int) {
	o.t.Helper()
	opts, err := server.ProcessConfigFile(filepath.Join(o.of[i].Dir, broker.ConfigFile))
	if err != nil {
		o.t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	srv, err := server.NewServer(opts)
	if err != nil {
		o.t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(patience) {
		o.t.Fatal("the broker does not start")
	}
	o.nodes[i] = srv
	o.t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
}

// whole waits until all brokers know each other.
func (o *outside) whole() {
	o.t.Helper()
	eventually(o.t, "a cluster", func() bool {
		for _, n := range o.nodes {
			if n.NumRoutes() == 0 && len(o.nodes) > 1 {
				return false
			}
		}
		return true
	})
}

func (o *outside) tls() *tls.Config { return trusting(o.t, o.k) }

// server opens the fabric as one server does, and keeps the brokers told.
func (o *outside) server(revoked ...string) *broker.External {
	o.t.Helper()
	cfg := o.keys
	cfg.URLs, cfg.TLS, cfg.Revoked = o.urls, o.tls(), revoked
	x, err := broker.OpenExternal(cfg)
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(o.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := x.Run(ctx); err != nil {
			o.t.Error(err)
		}
	})
	o.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return x
}

// agent issues a credential and connects with it to one broker.
func (o *outside) agent(x *broker.External, at int) *agent {
	o.t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		o.t.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		o.t.Fatal(err)
	}
	token, err := x.IssueAgent(key, testArea)
	if err != nil {
		o.t.Fatal(err)
	}
	return &agent{key: key, Conn: o.dial(fabric.Identity{JWT: token, Key: pair, Area: strconv.Itoa(testArea)}, at)}
}

func (o *outside) dial(id fabric.Identity, at int) *fabric.Conn {
	o.t.Helper()
	c, err := fabric.Dial(o.t.Context(), fabric.DialConfig{
		URLs: o.urls[at : at+1], Identity: id, TLS: o.tls(),
		Name: o.t.Name(), Log: testLog(o.t),
	})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(c.Close)
	return c
}

func TestContractOutside(t *testing.T) {
	t.Parallel()
	fabrictest.Run(t, func(t *testing.T) fabrictest.Ends {
		o := startOutside(t, 1)
		x := o.server()
		a := o.agent(x, 0)
		return fabrictest.Ends{
			Server: o.dial(x.ServerIdentity(), 0), Agent: a.Conn, ServerSubject: reports(a.key),
			AgentSubject: orders(a.key),
		}
	})
}

// TestRevokedOutside: who is revoked by one server is cut off wherever it is, whichever server made its credential.
func TestRevokedOutside(t *testing.T) {
	o := startOutside(t, 3)
	o.whole()
	first, second := o.server(), o.server()
	removed, kept := o.agent(first, 0), o.agent(second, 1)
	for _, a := range []*agent{removed, kept} {
		if !a.Connected() {
			t.Fatal("an agent is not let in")
		}
		if _, err := a.Serve(orders(a.key), "", 1, echo); err != nil {
			t.Fatal(err)
		}
	}
	s := o.dial(second.ServerIdentity(), 2)
	answers := func(a *agent) bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reply, err := s.Request(ctx, orders(a.key), []byte("x"))
		return err == nil && string(reply) == "x"
	}
	eventually(t, "both to answer", func() bool { return answers(removed) && answers(kept) })
	if err := second.Revoke(removed.key); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent to be cut off", func() bool { return !removed.Connected() })
	if !answers(kept) {
		t.Error("the other agent was cut off")
	}
	// The first server has not heard of it: what it says must not let the agent in for good.
	if err := first.RefreshRevoked(func() ([]string, error) { return []string{removed.key}, nil }); err != nil {
		t.Fatal(err)
	}
	// A broker that was down takes it from the others or from the servers.
	o.nodes[0].Shutdown()
	o.nodes[0].WaitForShutdown()
	o.run(0)
	o.whole()
	if answers(removed) {
		t.Error("a revoked agent answers")
	}
	for _, x := range []*broker.External{first, second} {
		if err := x.Restore(removed.key); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the agent to be let in again", func() bool { return removed.Connected() && answers(removed) })
}

// TestRevokedBefore: brokers that were started anew, with nothing on their disks, are told at the first connection.
func TestRevokedBefore(t *testing.T) {
	o := startOutside(t, 1)
	x := o.server()
	a := o.agent(x, 0)
	if !a.Connected() {
		t.Fatal("the agent is not let in")
	}
	o.server(a.key)
	eventually(t, "the agent to be cut off", func() bool { return !a.Connected() })
}

// TestStrangersOutside: neither another fleet's agents nor the server's own user of the system account can do what they
// should not.
func TestStrangersOutside(t *testing.T) {
	o, other := startOutside(t, 1), startOutside(t, 1)
	x, y := o.server(), other.server()
	o.urls, other.urls = other.urls, o.urls
	if a := other.agent(y, 0); a.Connected() {
		t.Error("an agent of another fleet is let in")
	}
	o.urls, other.urls = other.urls, o.urls
	a := o.agent(x, 0)
	for _, subject := range []string{
		"$SYS.>", "$SYS.REQ.CLAIMS.UPDATE", "drover.v1.server.news",
		"drover.v1.server.>",
	} {
		if stop, err := a.Serve(subject, "", 1, echo); err == nil {
			stop()
			t.Errorf("an agent listens on %s", subject)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if reply, err := a.Request(ctx, "$SYS.REQ.CLAIMS.UPDATE", []byte("x")); err == nil {
		t.Errorf("an agent speaks to the system account: %s", reply)
	}
	if text := fmt.Sprint(x.URLs()); !strings.Contains(text, "tls://127.") {
		t.Errorf("URLs are %s", text)
	}
}
