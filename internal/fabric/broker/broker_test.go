package broker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/fabric/fabrictest"
)

const (
	patience = 30 * time.Second
	testArea = 5
	// Some of these tests come back to the port of last time: at 127.0.0.1 another program would have it by chance.
	ownHost = "127.93.0.1"
	anyPort = ownHost + ":0"
)

func orders(agent string) string  { return "test.agent." + agent + ".orders" }
func reports(agent string) string { return "test.server." + agent + ".reports" }

// testLog shows what was logged when a test fails.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// startWith starts a broker on loopback, with the rights of agents that these tests go by.
func startWith(t *testing.T, c broker.Config) *broker.Broker {
	t.Helper()
	c.Listen, c.Log = anyPort, testLog(t)
	c.Agents = broker.Rights{
		Publish:   []string{"test.server.{{subject()}}.>"},
		Subscribe: []string{"test.agent.{{subject()}}.>"},
	}
	b, err := broker.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Shutdown)
	return b
}

func startIn(t *testing.T, dir string) *broker.Broker {
	t.Helper()
	return startWith(t, broker.Config{Dir: dir})
}

func start(t *testing.T) *broker.Broker { return startIn(t, filepath.Join(t.TempDir(), "fabric")) }

// agent is a user with the rights of an agent.
type agent struct {
	*fabric.Conn
	key      string
	up, down chan struct{}
}

// credential is who an agent is.
type credential struct {
	fabric.Identity
	key string
}

// issue makes an agent's credential.
func issue(t *testing.T, b *broker.Broker) credential {
	t.Helper()
	pair, key := fabrictest.NewKey(t)
	token, err := b.IssueAgent(key, testArea)
	if err != nil {
		t.Fatal(err)
	}
	return credential{fabric.Identity{JWT: token, Key: pair, Area: strconv.Itoa(testArea)}, key}
}

// newAgent issues a credential and connects with it.
func newAgent(t *testing.T, b *broker.Broker) *agent {
	t.Helper()
	who := issue(t, b)
	a := connect(t, b.URL(), who.Identity)
	a.key = who.key
	return a
}

// connect dials, connected or not.
func connect(t *testing.T, url string, id fabric.Identity) *agent {
	t.Helper()
	a := &agent{up: make(chan struct{}, 16), down: make(chan struct{}, 16)}
	var err error
	a.Conn, err = fabric.Dial(t.Context(), fabric.DialConfig{
		URLs:        []string{url},
		Identity:    id,
		Name:        t.Name(),
		Log:         testLog(t),
		OnConnected: func() { a.up <- struct{}{} },
		OnLost:      func() { a.down <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func await(t *testing.T, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(patience):
		t.Fatalf("%s: nothing in %v", what, patience)
	}
}

func echo(_ context.Context, _ string, data []byte) []byte { return data }

func TestContract(t *testing.T) {
	t.Parallel()
	fabrictest.Run(t, func(t *testing.T) fabrictest.Ends {
		b := start(t)
		a := newAgent(t, b)
		s := connect(t, b.URL(), b.ServerIdentity())
		return fabrictest.Ends{
			Server: s, Agent: a,
			ServerSubject: reports(a.key), AgentSubject: orders(a.key),
		}
	})
}

func TestAgentCannotListenBeyondItsOwn(t *testing.T) {
	b := start(t)
	a, other := newAgent(t, b), newAgent(t, b)
	for _, subject := range []string{
		">", "*", "test.>", "test.*.*.orders", "_INBOX.>", "$SYS.>",
		orders(other.key), "test.agent." + other.key + ".>", "test.agent.*.orders", "test.agent.>",
		reports(a.key), reports(other.key),
		fabric.InboxPrefix("5", other.key) + ".>", fabric.InboxPrefix("*", "*") + ".>",
	} {
		for _, queue := range []string{"", "q"} {
			stop, err := a.Serve(subject, queue, 1, echo)
			if !errors.Is(err, fabric.ErrForbidden) {
				t.Errorf("listening on %q in queue %q: got %v, want %v", subject, queue, err, fabric.ErrForbidden)
			}
			if err == nil {
				stop()
			}
		}
	}
}

func TestAgentCannotPublishBeyondItsOwn(t *testing.T) {
	b := start(t)
	a, other := newAgent(t, b), newAgent(t, b)
	server := connect(t, b.URL(), b.ServerIdentity())
	var mu sync.Mutex
	var heard []string
	stop, err := server.Serve(">", "", 1, func(_ context.Context, subject string, _ []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		// The server also hears its own replies to the reports that are allowed.
		if subject != reports(a.key) && !strings.HasPrefix(subject, fabric.InboxPrefix("5", a.key)) {
			heard = append(heard, subject)
		}
		return []byte{}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ended, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for _, subject := range []string{
		reports(other.key), orders(other.key), orders(a.key), "test.server.reports", "anything",
		fabric.InboxPrefix("5", other.key) + ".x", "$SYS.REQ.SERVER.PING",
	} {
		asking.Go(func() {
			if _, err := a.Request(ended, subject, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("request on %q: got %v, want no answer at all", subject, err)
			}
		})
	}
	// A request that is allowed and sent last can't overtake the others; so first let them be sent.
	for range 100 {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		if _, err := a.Request(ctx, reports(a.key), nil); err != nil {
			t.Fatalf("own report: %v", err)
		}
		stop()
	}
	cancel()
	asking.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(heard) > 0 {
		t.Errorf("the server heard of %q", heard)
	}
}

// Having been refused as a publisher doesn't spoil the right to listen on the same subject.
func TestRefusedPublisherMayListen(t *testing.T) {
	b := start(t)
	a := newAgent(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error)
	go func() {
		_, err := a.Request(ctx, orders(a.key), nil)
		asked <- err
	}()
	// Nobody serves reports: the answer to that comes behind the refusal once the first request has been sent.
	for range 100 {
		if _, err := a.Request(t.Context(), reports(a.key), nil); !errors.Is(err, fabric.ErrNobody) {
			t.Fatalf("got %v, want %v", err, fabric.ErrNobody)
		}
	}
	if _, err := a.Serve(orders(a.key), "", 1, echo); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("the forbidden request ended with %v, want %v", err, context.Canceled)
	}
}

// A reply subject is chosen by whoever asks; the server must not publish on it with its own rights.
func TestReplyGoesToInboxesOnly(t *testing.T) {
	b := start(t)
	server := connect(t, b.URL(), b.ServerIdentity())
	rogue := dialRaw(t, b)
	victim := newAgent(t, b)
	reached := make(chan struct{}, 1)
	if _, err := victim.Serve(orders(victim.key), "", 1, func(context.Context, string, []byte) []byte {
		reached <- struct{}{}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	handled := make(chan struct{}, 1)
	if _, err := server.Serve("test.server.*.reports", "", 1, func(context.Context, string, []byte) []byte {
		handled <- struct{}{}
		return []byte("forged")
	}); err != nil {
		t.Fatal(err)
	}
	if err := rogue.conn.PublishRequest(reports(rogue.key), orders(victim.key), []byte("x")); err != nil {
		t.Fatal(err)
	}
	await(t, "the report", handled)
	server.Close() // has flushed whatever the handler replied
	victim.Close() // has handled whatever arrived
	select {
	case <-reached:
		t.Error("a reply reached another agent's orders")
	default:
	}
}

func TestWrongCredentialsAreRefused(t *testing.T) {
	b, stranger := start(t), start(t)
	own := newAgent(t, b)
	foreign := issue(t, stranger)
	stolen, err := b.IssueAgent(own.key, testArea)
	if err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]fabric.Identity{
		"another operator's agent":  foreign.Identity,
		"another operator's server": stranger.ServerIdentity(),
		"a JWT without its key":     {JWT: stolen, Key: foreign.Key, Area: "5"},
		"no JWT":                    {Key: foreign.Key, Area: "5"},
	} {
		a := connect(t, b.URL(), id)
		if a.Connected() {
			t.Errorf("%s was let in", name)
		}
		if _, err := a.Request(t.Context(), "test.x", nil); !errors.Is(err, fabric.ErrNotConnected) {
			t.Errorf("%s: request ended with %v, want %v", name, err, fabric.ErrNotConnected)
		}
	}
}

func TestIssueAgentWantsAUserKey(t *testing.T) {
	b := start(t)
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	public, err := account.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "x", "U123", public} {
		if token, err := b.IssueAgent(key, testArea); err == nil {
			t.Errorf("key %q got a JWT: %s", key, token)
		}
	}
}

func TestReconnectAfterRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fabric")
	first := startIn(t, dir)
	a := newAgent(t, first)
	await(t, "first connect", a.up)
	if _, err := a.Serve(orders(a.key), "", 1, echo); err != nil {
		t.Fatal(err)
	}
	first.Shutdown()
	await(t, "loss", a.down)
	if a.Connected() {
		t.Error("still connected after the broker has gone")
	}
	if _, err := a.Request(t.Context(), reports(a.key), nil); !errors.Is(err, fabric.ErrNotConnected) {
		t.Errorf("request without a link: got %v, want %v", err, fabric.ErrNotConnected)
	}
	if _, err := a.Serve(orders(a.key)+".late", "", 1, echo); err != nil {
		t.Errorf("cannot serve without a link: %v", err)
	}
	second := startIn(t, dir)
	if second.URL() != first.URL() {
		t.Fatalf("the broker came back at %s, want %s", second.URL(), first.URL())
	}
	await(t, "reconnect", a.up)
	// The answer shows that the broker has read what the agent sent before: its renewed subscriptions.
	if _, err := a.Request(t.Context(), reports(a.key), nil); !errors.Is(err, fabric.ErrNobody) {
		t.Errorf("request before a server is there: got %v, want %v", err, fabric.ErrNobody)
	}
	server := connect(t, second.URL(), second.ServerIdentity())
	for _, subject := range []string{orders(a.key), orders(a.key) + ".late"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := server.Request(ctx, subject, []byte("x")); err != nil {
			t.Errorf("request on %s after the restart: %v", subject, err)
		}
		cancel()
	}
}

func TestLostLinkEndsRequestsUnderWay(t *testing.T) {
	b := start(t)
	a := newAgent(t, b)
	server := connect(t, b.URL(), b.ServerIdentity())
	begun, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	if _, err := server.Serve(reports(a.key), "", 1, func(context.Context, string, []byte) []byte {
		close(begun)
		<-release
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	go func() {
		<-begun
		b.Shutdown()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := a.Request(ctx, reports(a.key), nil); !errors.Is(err, fabric.ErrNotConnected) {
		t.Errorf("got %v, want %v", err, fabric.ErrNotConnected)
	}
}

func TestConnectsOnceThereIsABroker(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fabric")
	b := startIn(t, dir)
	id := issue(t, b).Identity
	b.Shutdown()
	a := connect(t, b.URL(), id)
	if a.Connected() {
		t.Fatal("connected to nothing")
	}
	startIn(t, dir)
	await(t, "connect", a.up)
	if !a.Connected() {
		t.Error("OnConnected was called without a link")
	}
}

func TestTakenPort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fabric")
	b := startIn(t, dir)
	b.Shutdown()
	address := strings.TrimPrefix(b.URL(), "nats://")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if again := startIn(t, dir); again.URL() == b.URL() {
		t.Errorf("the broker claims %s, which is taken", b.URL())
	}
	_, err = broker.Start(t.Context(), broker.Config{Dir: dir, Listen: address, Log: testLog(t)})
	if err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("a fixed port that is taken: got %v, want an error that names %s", err, address)
	}
}

func TestKeysArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fabric")
	startIn(t, dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]string{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		modes[e.Name()] = info.Mode().String()
	}
	want := fmt.Sprint(map[string]string{
		"account.pub": "-rw-------", "system.pub": "-rw-------", "agent-signer.nk": "-rw-------",
		"proxy-signer.nk": "-rw-------", "server-signer.nk": "-rw-------",
		"port": "-rw-------",
	})
	if got := fmt.Sprint(modes); got != want {
		t.Errorf("files are %v, want %v", got, want)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("directory has mode %v, want 0700", info.Mode().Perm())
	}
}

func TestCloseEndsHandlersThatDoNotReturn(t *testing.T) {
	t.Parallel() // it waits for as long as handlers are given
	b := start(t)
	a := newAgent(t, b)
	server := connect(t, b.URL(), b.ServerIdentity())
	begun := make(chan struct{})
	if _, err := server.Serve(reports(a.key), "", 1, func(ctx context.Context, _ string, data []byte) []byte {
		close(begun)
		<-ctx.Done()
		return data
	}); err != nil {
		t.Fatal(err)
	}
	replied := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := a.Request(ctx, reports(a.key), []byte("x"))
		replied <- err
	}()
	<-begun
	closed := make(chan struct{})
	go func() {
		server.Close()
		close(closed)
	}()
	await(t, "close", closed)
	if err := <-replied; err != nil {
		t.Errorf("the handler's last reply was lost: %v", err)
	}
	if _, err := server.Request(t.Context(), orders(a.key), nil); !errors.Is(err, fabric.ErrNotConnected) {
		t.Errorf("request after Close: got %v, want %v", err, fabric.ErrNotConnected)
	}
	if _, err := server.Serve("test.x", "", 1, echo); !errors.Is(err, fabric.ErrNotConnected) {
		t.Errorf("serve after Close: got %v, want %v", err, fabric.ErrNotConnected)
	}
	server.Close()
}
