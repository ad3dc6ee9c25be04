package broker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/fabric/fabrictest"
	"drover/internal/pki"
	"drover/internal/pki/pkitest"
)

// Subjects as drover has them: the area first, then who it is about.
func areaOrders(area int, agent string) string {
	return "test." + strconv.Itoa(area) + ".agent." + agent + ".orders"
}

func areaReports(area int, agent string) string {
	return "test." + strconv.Itoa(area) + ".server." + agent + ".reports"
}

func areaPieces(area int, agent string) string {
	return "test." + strconv.Itoa(area) + ".server." + agent + ".pieces"
}

// network is a broker that takes proxies.
type network struct {
	*broker.Broker
	t       *testing.T
	manager *pki.Manager
	dir     string
	config  broker.Config
	server  *fabric.Conn
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, manager: pkitest.New(t), dir: filepath.Join(t.TempDir(), "hub")}
	n.config = broker.Config{
		Dir: n.dir, Listen: anyPort, Leaves: anyPort, TLS: n.manager.ServerTLS(), Log: testLog(t),
		Agents: broker.Rights{
			Publish:   []string{"test.{{tag(area)}}.server.{{subject()}}.>"},
			Subscribe: []string{"test.{{tag(area)}}.agent.{{subject()}}.>"},
		},
		Proxies: broker.Rights{
			Publish:   []string{"test.{{tag(area)}}.server.>", "test.{{tag(area)}}.proxy.{{subject()}}.>"},
			Subscribe: []string{"test.{{tag(area)}}.agent.>", "test.{{tag(area)}}.server.*.pieces"},
		},
	}
	n.start()
	return n
}

// start starts the hub, on the ports of last time.
func (n *network) start() {
	n.t.Helper()
	var err error
	if n.Broker, err = broker.Start(n.t.Context(), n.config); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.Shutdown)
	n.config.Leaves = net.JoinHostPort(ownHost, strconv.Itoa(n.LeafPort()))
	n.server = n.dial(n.URL(), n.ServerIdentity())
}

func (n *network) dial(url string, id fabric.Identity) *fabric.Conn {
	n.t.Helper()
	c, err := fabric.Dial(n.t.Context(), fabric.DialConfig{
		URLs: []string{url}, Identity: id,
		TLS: trusting(n.t, n.manager), Name: n.t.Name(), Log: testLog(n.t),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.Close)
	return c
}

// user makes the credential of an agent or a proxy of an area.
func (n *network) user(area int, issue func(string, int) (string, error)) credential {
	n.t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		n.t.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		n.t.Fatal(err)
	}
	token, err := issue(key, area)
	if err != nil {
		n.t.Fatal(err)
	}
	return credential{fabric.Identity{JWT: token, Key: pair, Area: strconv.Itoa(area)}, key}
}

// relay starts a relay of an area.
func (n *network) relay(area int) (*broker.Relay, credential) {
	n.t.Helper()
	id := n.user(area, n.IssueProxy)
	return n.relayAs(id), id
}

func (n *network) relayAs(id credential) *broker.Relay {
	n.t.Helper()
	account, err := n.Account()
	if err != nil {
		n.t.Fatal(err)
	}
	r, err := broker.StartRelay(n.t.Context(), broker.RelayConfig{
		Dir: filepath.Join(n.t.TempDir(), "relay"), Listen: "127.0.0.1:0", TLS: n.manager.ServerTLS(), Account: account,
		Hubs: []string{n.config.Leaves}, HubTLS: trusting(n.t, n.manager), Identity: id.Identity, Log: testLog(n.t),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(r.Shutdown)
	return r
}

// eventually polls what nobody gives a signal of.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("%s: not in %v", what, patience)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// reaches asks until it is answered: interest takes its time through a relay.
func reaches(t *testing.T, c *fabric.Conn, subject string) {
	t.Helper()
	eventually(t, "an answer on "+subject, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reply, err := c.Request(ctx, subject, []byte("x"))
		return err == nil && string(reply) == "x"
	})
}

// reported serves the reports of an area as a server does.
func (n *network) reported(area int) {
	n.t.Helper()
	for _, subject := range []string{"test.*.server.*.reports", areaReports(area, "*")} {
		if _, err := n.server.Serve(subject, "servers", 4, echo); err != nil {
			n.t.Fatal(err)
		}
	}
}

func TestContractThroughARelay(t *testing.T) {
	t.Parallel()
	fabrictest.Run(t, func(t *testing.T) fabrictest.Ends {
		n := newNetwork(t)
		r, _ := n.relay(3)
		id := n.user(3, n.IssueAgent)
		agent := n.dial(r.URL(), id.Identity)
		eventually(t, "the relay to be joined", r.Joined)
		// The way is open in both directions once a question has gone each.
		stop, err := n.server.Serve(areaReports(3, "*"), "", 1, echo)
		if err != nil {
			t.Fatal(err)
		}
		reaches(t, agent, areaReports(3, id.key))
		stop()
		absent(t, agent, areaReports(3, id.key))
		if stop, err = agent.Serve(areaOrders(3, id.key), "", 1, echo); err != nil {
			t.Fatal(err)
		}
		reaches(t, n.server, areaOrders(3, id.key))
		stop()
		absent(t, n.server, areaOrders(3, id.key))
		marks := &atomic.Int64{}
		return fabrictest.Ends{
			Server:        through{n.server, agent, areaReports(3, id.key), marks},
			Agent:         through{agent, n.server, areaOrders(3, id.key), marks},
			ServerSubject: areaReports(3, id.key), AgentSubject: areaOrders(3, id.key),
		}
	})
}

// through is one end of a relay. What it begins or ends to listen to reaches the other end a little later, which
// through waits for.
type through struct {
	*fabric.Conn
	other   *fabric.Conn
	subject string
	marks   *atomic.Int64
}

// Serve implements fabrictest.Messenger.
func (e through) Serve(subject, queue string, workers int, fn fabric.Handler) (func(), error) {
	stop, err := e.Conn.Serve(subject, queue, workers, fn)
	if err != nil {
		return nil, err
	}
	ended := func() {
		stop()
		_ = e.settle() // the test says what is missing
	}
	return sync.OnceFunc(ended), e.settle()
}

// settle waits until the other end has heard of all that this one began and ended to listen to: it hears of that in
// order.
func (e through) settle() error {
	mark := fmt.Sprintf("%s.mark%d", e.subject, e.marks.Add(1))
	unmark, err := e.Conn.Serve(mark, "", 1, echo)
	if err != nil {
		return err
	}
	defer unmark()
	for until := time.Now().Add(patience); time.Now().Before(until); {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		_, err := e.other.Request(ctx, mark, nil)
		cancel()
		if err == nil {
			return nil
		}
	}
	return errors.New("interest did not arrive")
}

// absent asks until it is answered that nobody listens. What is under way when a relay loses its hub gets no answer at
// all.
func absent(t *testing.T, c *fabric.Conn, subject string) {
	t.Helper()
	eventually(t, "nobody to listen on "+subject, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Request(ctx, subject, nil)
		return errors.Is(err, fabric.ErrNobody)
	})
}

// TestAReportReachesOneServer: although servers listen for all areas, and for each that has a proxy by itself.
func TestAReportReachesOneServer(t *testing.T) {
	n := newNetwork(t)
	var heard atomic.Int64
	for _, server := range []*fabric.Conn{n.server, n.dial(n.URL(), n.ServerIdentity())} {
		for _, subject := range []string{"test.*.server.*.reports", areaReports(3, "*")} {
			_, err := server.Serve(subject, "servers", 4, func(_ context.Context, _ string, data []byte) []byte {
				if string(data) == "count" {
					heard.Add(1)
				}
				return data
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	r, _ := n.relay(3)
	for name, url := range map[string]string{"direct": n.URL(), "through a relay": r.URL()} {
		id := n.user(3, n.IssueAgent)
		agent := n.dial(url, id.Identity)
		reaches(t, agent, areaReports(3, id.key))
		heard.Store(0)
		for range 100 {
			if _, err := agent.Request(t.Context(), areaReports(3, id.key), []byte("count")); err != nil {
				t.Fatal(err)
			}
		}
		reaches(t, agent, areaReports(3, id.key))
		if got := heard.Load(); got != 100 {
			t.Errorf("%s: 100 reports reached servers %d times", name, got)
		}
	}
}

// TestAProxyAnswersItsOwnAgents: what it answers in the place of the servers, it answers to the agents of its relay
// only. Without it the servers answer.
func TestAProxyAnswersItsOwnAgents(t *testing.T) {
	n := newNetwork(t)
	says := func(word string) fabric.Handler {
		return func(context.Context, string, []byte) []byte { return []byte(word) }
	}
	if _, err := n.server.Serve(areaPieces(3, "*"), "servers", 4, says("server")); err != nil {
		t.Fatal(err)
	}
	one, proxy := n.relay(3)
	other, _ := n.relay(3)
	answer := map[string]func() string{}
	for name, url := range map[string]string{"its own": one.URL(), "another's": other.URL(), "direct": n.URL()} {
		id := n.user(3, n.IssueAgent)
		agent := n.dial(url, id.Identity)
		answer[name] = func() string {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			reply, err := agent.Request(ctx, areaPieces(3, id.key), []byte("x"))
			if err != nil {
				return err.Error()
			}
			return string(reply)
		}
		eventually(t, "the server to answer an agent: "+name, func() bool { return answer[name]() == "server" })
	}
	stop, err := n.dial(one.URL(), proxy.Identity).Serve(areaPieces(3, "*"), "servers", 4, says("proxy"))
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		for name, want := range map[string]string{"its own": "proxy", "another's": "server", "direct": "server"} {
			if got := answer[name](); got != want {
				t.Fatalf("an agent, %s, is answered %q, want %q", name, got, want)
			}
		}
	}
	stop()
	eventually(t, "the server to answer again", func() bool { return answer["its own"]() == "server" })
}

func TestAbsenceCrossesARelay(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.reported(3)
	r, _ := n.relay(3)
	id := n.user(3, n.IssueAgent)
	agent := n.dial(r.URL(), id.Identity)
	stop, err := agent.Serve(areaOrders(3, id.key), "", 1, echo)
	if err != nil {
		t.Fatal(err)
	}
	reaches(t, n.server, areaOrders(3, id.key))
	reaches(t, agent, areaReports(3, id.key))
	stop()
	absent(t, n.server, areaOrders(3, id.key))
	n.Shutdown()
	absent(t, agent, areaReports(3, id.key))
	if !agent.Connected() {
		t.Error("the agent has lost its relay with the hub")
	}
	n.start()
	n.reported(3)
	reaches(t, agent, areaReports(3, id.key))
}

// TestAProxyIsWorthOneArea: who holds a proxy's key neither listens to another area nor speaks for it or for servers.
func TestAProxyIsWorthOneArea(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.reported(3)
	n.reported(4)
	victim := n.user(4, n.IssueAgent)
	reachable := n.dial(n.URL(), victim.Identity)
	if _, err := reachable.Serve(areaOrders(4, victim.key), "", 1, echo); err != nil {
		t.Fatal(err)
	}
	thief := n.user(3, n.IssueProxy)

	// As a client of the hub.
	direct := n.dial(n.URL(), thief.Identity)
	eventually(t, "the thief to be connected", direct.Connected)
	for _, subject := range []string{
		">", "test.>", "test.*.agent.>", areaOrders(4, victim.key), areaOrders(4, "*"), areaReports(3, "*"),
		areaReports(4, victim.key), "_INBOX.>",
		fabric.InboxPrefix("4", victim.key) + ".>", fabric.InboxPrefix(fabric.ServerArea, ">"), "$SYS.>",
	} {
		if stop, err := direct.Serve(subject, "", 1, echo); !errors.Is(err, fabric.ErrForbidden) {
			t.Errorf("it listens on %s: %v", subject, err)
			if err == nil {
				stop()
			}
		}
	}
	refused := func(c *fabric.Conn, subject string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if reply, err := c.Request(ctx, subject, []byte("x")); err == nil {
			t.Errorf("it is answered on %s: %s", subject, reply)
		}
	}
	refused(direct, areaReports(4, victim.key))
	refused(direct, areaOrders(4, victim.key))
	refused(direct, areaOrders(3, victim.key))

	// As a leaf node that lets everybody in, and so asks for all there is.
	r := n.openRelay(thief)
	insider, err := nats.Connect(r, nats.Secure(trusting(t, n.manager)), nats.TLSHandshakeFirst())
	if err != nil {
		t.Fatal(err)
	}
	defer insider.Close()
	heard := make(chan string, 64)
	for _, subject := range []string{
		"test.4.>", "test.*.server.>", areaOrders(4, "*"), areaOrders(4, victim.key),
		"_INBOX.4.>", "_INBOX.server.>",
	} {
		for _, subscribe := range []func(string, nats.MsgHandler) (*nats.Subscription, error){
			insider.Subscribe, func(s string, h nats.MsgHandler) (*nats.Subscription, error) {
				return insider.QueueSubscribe(s, "servers", h)
			},
		} {
			if _, err := subscribe(subject, func(m *nats.Msg) { heard <- m.Subject }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := insider.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		reaches(t, n.server, areaOrders(4, victim.key))
		reaches(t, reachable, areaReports(4, victim.key))
	}
	if _, err := n.server.Request(t.Context(), areaOrders(4, "nobody"), nil); !errors.Is(err, fabric.ErrNobody) {
		t.Errorf("a listener without rights makes an absent agent look present: %v", err)
	}
	// What it says itself it hears, so this comes first.
	if err := insider.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case subject := <-heard:
		t.Errorf("through a leaf node it has heard of %s", subject)
	default:
	}
	for _, subject := range []string{
		areaReports(4, victim.key), areaOrders(4, victim.key),
		fabric.InboxPrefix("4", victim.key) + ".x",
	} {
		if m, err := insider.Request(subject, []byte("x"), 500*time.Millisecond); err == nil {
			t.Errorf("through a leaf node it is answered on %s: %s", subject, m.Data)
		}
	}
}

func TestARemovedProxyIsCutOff(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.reported(3)
	r, id := n.relay(3)
	kept, _ := n.relay(3)
	who := n.user(3, n.IssueAgent)
	agent := n.dial(r.URL(), who.Identity)
	reaches(t, agent, areaReports(3, who.key))
	eventually(t, "the other proxy to be joined", kept.Joined)
	if err := n.Revoke(id.key); err != nil {
		t.Fatal(err)
	}
	absent(t, agent, areaReports(3, who.key))
	if !kept.Joined() {
		t.Error("the other proxy was cut off")
	}
	if err := n.Restore(id.key); err != nil {
		t.Fatal(err)
	}
	reaches(t, agent, areaReports(3, who.key))
}

func TestARemovedAgentIsCutOffFromItsRelay(t *testing.T) {
	n := newNetwork(t)
	n.reported(3)
	r, _ := n.relay(3)
	who, other := n.user(3, n.IssueAgent), n.user(3, n.IssueAgent)
	agent := n.dial(r.URL(), who.Identity)
	stays := n.dial(r.URL(), other.Identity)
	reaches(t, agent, areaReports(3, who.key))
	reaches(t, stays, areaReports(3, other.key))
	if err := n.Revoke(who.key); err != nil {
		t.Fatal(err)
	}
	account, err := n.Account()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Update(account); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent to be cut off", func() bool { return !agent.Connected() })
	if !stays.Connected() || !r.Joined() {
		t.Error("somebody else was cut off")
	}
	foreign, err := newNetwork(t).Account()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Update(foreign); err == nil {
		t.Error("another account is taken")
	}
}

func TestRejoin(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.reported(3)
	r, _ := n.relay(3)
	who := n.user(3, n.IssueAgent)
	agent := n.dial(r.URL(), who.Identity)
	reaches(t, agent, areaReports(3, who.key))
	if err := r.Rejoin(); err != nil {
		t.Fatal(err)
	}
	reaches(t, agent, areaReports(3, who.key))
	if !agent.Connected() || r.Clients() != 1 {
		t.Errorf("agents were cut off: %d are there", r.Clients())
	}
}

// TestSendAway: the agents of a proxy go to another one, and the proxy itself stays.
func TestSendAway(t *testing.T) {
	n := newNetwork(t)
	n.reported(3)
	one, proxy := n.relay(3)
	two, _ := n.relay(3)
	own := n.dial(one.URL(), proxy.Identity)
	who := n.user(3, n.IssueAgent)
	agent, err := fabric.Dial(t.Context(), fabric.DialConfig{
		URLs: []string{one.URL(), two.URL()}, Identity: who.Identity, TLS: trusting(t, n.manager), Name: t.Name(),
		Log: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.Close)
	reaches(t, agent, areaReports(3, who.key))
	from, to := one, two
	if one.Clients() != 2 { // the first address is a random one
		from, to = two, one
	}
	staying := from.Clients() - 1
	if err := from.SendAway(); err != nil || !from.Joined() {
		t.Fatalf("%v; it has a connection to the hub: %t", err, from.Joined())
	}
	reaches(t, agent, areaReports(3, who.key))
	eventually(t, "the agent at the other proxy", func() bool {
		return from.Clients() == staying && to.Clients() == 2-staying
	})
	if !own.Connected() {
		t.Error("the proxy has sent itself away")
	}
}

// TestAHubOfAnotherAuthorityIsNotJoined: neither one with another certificate, nor one of another account.
func TestAHubOfAnotherAuthorityIsNotJoined(t *testing.T) {
	n, other := newNetwork(t), newNetwork(t)
	account, err := n.Account()
	if err != nil {
		t.Fatal(err)
	}
	id := n.user(3, n.IssueProxy)
	for name, verified := range map[string]*pki.Manager{
		"another certificate": n.manager,
		"another account":     other.manager,
	} {
		r, err := broker.StartRelay(t.Context(), broker.RelayConfig{
			Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: n.manager.ServerTLS(), Account: account,
			Hubs:   []string{other.config.Leaves},
			HubTLS: trusting(t, verified), Identity: id.Identity, Log: testLog(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		agent := n.dial(r.URL(), n.user(3, n.IssueAgent).Identity)
		eventually(t, "an agent to be let in without a hub", agent.Connected)
		if r.Joined() {
			t.Errorf("%s: it is joined", name)
		}
		r.Shutdown()
	}
}
