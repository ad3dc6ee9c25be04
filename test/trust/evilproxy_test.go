package trust_test

import (
	"bufio"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	v1 "drover/api/v1"
	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/pki"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// evilProxy is what somebody makes of a proxy that he has taken over: it has the proxy's files, and no other.
type evilProxy struct {
	f         *fleet
	enrolment wire.ProxyEnrolment
	key       nkeys.KeyPair
	shown     *tls.Config
	at        string // where agents come
	conns     struct {
		agents, servers *nats.Conn
	}

	mu sync.Mutex
	// holds decides what is held back, by subject; nil passes all on. held is that.
	holds func(m *nats.Msg) bool
	held  []*nats.Msg
	// alters changes what passes, requests and answers; nil changes nothing. twice passes each request twice.
	alters func(m *nats.Msg)
	twice  bool
	// gives answers questions about packages; nil answers none.
	gives func(question []byte) []byte
}

// area is that of the proxy.
const area = 3

// takeOver has a proxy join, and an agent that is told to go there.
func takeOver(t *testing.T) *evilProxy {
	t.Helper()
	f := newFleet(t, "--proxies", harness.FreeAddress(t))
	e := &evilProxy{f: f, at: harness.FreeAddress(t)}
	dir := f.AgentDir("evil")
	if code, _, errs := f.Run("evil", f.Token(area, "--role", "proxy"), f.Drover,
		"proxy", "join", "--server", f.URL, "--token", "-", "--name", "evil", "--advertise", e.at, "--data-dir",
		dir); code != 0 {
		t.Fatalf("the proxy cannot join: %s", errs)
	}
	data, err := os.ReadFile(filepath.Join(dir, "proxy", "enrolment.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &e.enrolment); err != nil {
		t.Fatal(err)
	}
	if e.key, err = fabric.LoadOrCreateKey(filepath.Join(dir, "proxy", "proxy.nk"), nkeys.PrefixByteUser); err != nil {
		t.Fatal(err)
	}
	var signer crypto.Signer
	if signer, err = pki.ProxyKey(filepath.Join(dir, "proxy", "tls.key")); err != nil {
		t.Fatal(err)
	}
	cert := tls.Certificate{PrivateKey: signer}
	for block, rest := pem.Decode([]byte(e.enrolment.Certificate)); block != nil; block, rest = pem.Decode(rest) {
		cert.Certificate = append(cert.Certificate, block.Bytes)
	}
	e.shown = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if code, errs := f.Join("one", "127.0.0.2", f.Token(area)); code != 0 {
		t.Fatalf("the agent cannot join: %s", errs)
	}
	if urls := f.enrolment("one").URLs; !slices.Equal(urls, []string{"tls://" + e.at}) {
		t.Fatalf("the agent goes to %q", urls)
	}
	return e
}

// challenge has whoever connects sign a text, and returns what came of that: CONNECT, or an ended connection.
func (e *evilProxy) challenge(text string) (signature string) {
	e.f.T.Helper()
	var l net.Listener
	var err error
	// An agent that knocks while nobody listens may hold the port for a moment: it can be given the same one for its
	// own end.
	harness.Eventually(e.f.T, "the port of the proxy", func() bool {
		l, err = tls.Listen("tcp", e.at, e.shown)
		return err == nil
	})
	defer l.Close() //nolint:errcheck // nothing was written
	conn, err := l.Accept()
	if err != nil {
		e.f.T.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the reader has had what counts
	if err := conn.SetDeadline(time.Now().Add(harness.Patience)); err != nil {
		e.f.T.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{
		"server_id": "N", "version": "2.10.0", "proto": 1, "headers": true,
		"max_payload": 1 << 20, "auth_required": true, "tls_required": true, "nonce": text,
	})
	if err != nil {
		e.f.T.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "INFO %s\r\n", info); err != nil {
		return ""
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return ""
	}
	var answer struct {
		Signature string `json:"sig"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "CONNECT ")), &answer); err != nil {
		e.f.T.Fatalf("%q: %v", line, err)
	}
	return answer.Signature
}

// pose lets agents in, whoever they are, and passes on what is not held.
func (e *evilProxy) pose() {
	t := e.f.T
	t.Helper()
	e.conns.agents = e.f.broker(e.at, e.shown)
	e.conns.servers = e.reach()
	pass := func(from, to *nats.Conn, subject string) {
		if _, err := from.Subscribe(subject, func(m *nats.Msg) {
			go e.pass(m, to)
		}); err != nil {
			t.Fatal(err)
		}
		if err := from.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	// With a wildcard the server would not take the agent for a connected one.
	public := e.f.publicKey("one")
	for _, subject := range []string{
		wire.OrderSubject(area, public), wire.PingSubject(area, public), wire.LogSubject(area, public),
	} {
		pass(e.conns.servers, e.conns.agents, subject)
	}
	pass(e.conns.agents, e.conns.servers, fmt.Sprintf("drover.v1.%d.server.>", area))
}

// reach connects to the servers as the proxy may.
func (e *evilProxy) reach() *nats.Conn {
	t := e.f.T
	t.Helper()
	if code, errs := e.f.Join("nearby", "127.0.0.9", e.f.Token(0)); code != 0 {
		t.Fatalf("a host beside the server cannot join: %s", errs)
	}
	nearby := e.f.enrolment("nearby")
	trust, err := pki.Trusting(nearby.CA)
	if err != nil {
		t.Fatal(err)
	}
	public, err := e.key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(nearby.URLs[0], nats.Secure(trust), nats.TLSHandshakeFirst(),
		nats.CustomInboxPrefix(fabric.InboxPrefix(strconv.Itoa(area), public)),
		nats.UserJWT(func() (string, error) { return e.enrolment.JWT, nil }, e.key.Sign))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// pass passes a request on, and its answer back, unless it is held.
func (e *evilProxy) pass(m *nats.Msg, to *nats.Conn) {
	e.mu.Lock()
	held := e.holds != nil && e.holds(m)
	if held {
		e.held = append(e.held, m)
	}
	alters, twice, gives := e.alters, e.twice, e.gives
	e.mu.Unlock()
	if held {
		return
	}
	if gives != nil && strings.HasSuffix(m.Subject, ".packages") {
		_ = m.Respond(gives(m.Data))
		return
	}
	if alters != nil {
		alters(m)
	}
	if twice {
		_, _ = e.forward(m, to)
	}
	reply, err := e.forward(m, to)
	if err != nil {
		return
	}
	answer := &nats.Msg{Subject: m.Reply, Data: reply}
	if alters != nil {
		alters(answer)
	}
	_ = m.RespondMsg(answer)
}

// forward passes a request on, and returns its answer.
func (e *evilProxy) forward(m *nats.Msg, to *nats.Conn) ([]byte, error) {
	if to == e.conns.servers {
		return e.ask(m.Subject, m.Data, harness.Patience)
	}
	reply, err := to.Request(m.Subject, m.Data, harness.Patience)
	if err != nil {
		return nil, err
	}
	return reply.Data, nil
}

// ask asks a server in the name of an agent, and hears what that one is answered.
func (e *evilProxy) ask(subject string, data []byte, patience time.Duration) ([]byte, error) {
	_, agent, err := wire.ReportAgent(subject)
	if err != nil {
		return nil, err
	}
	inbox := fabric.InboxPrefix(strconv.Itoa(area), agent) + "." + nats.NewInbox()
	heard, err := e.conns.servers.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer heard.Unsubscribe() //nolint:errcheck // the connection is over then
	if err := e.conns.servers.PublishRequest(subject, inbox, data); err != nil {
		return nil, err
	}
	reply, err := heard.NextMsg(patience)
	if err != nil {
		return nil, err
	}
	return reply.Data, nil
}

// hold holds back from now on what is chosen; nil passes all on.
func (e *evilProxy) hold(what func(m *nats.Msg) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holds = what
}

// acts changes what the proxy does from now on.
func (e *evilProxy) acts(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// orders returns the orders that are held.
func (e *evilProxy) orders() []*nats.Msg {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.held), func(m *nats.Msg) bool { return !isOrder(m) })
}

func isOrder(m *nats.Msg) bool { return strings.HasSuffix(m.Subject, ".orders") }

// host is that of the agent behind the proxy.
const behind = "3:127.0.0.2"

// TestAProxyCannotHaveAnythingSigned: whoever has taken over a proxy is asked by agents for a challenge, and may choose
// it. What it gets signed by that is worth nothing: no report in the name of the host, and so no process that the
// server would have the host run.
func TestAProxyCannotHaveAnythingSigned(t *testing.T) {
	t.Parallel()
	e := takeOver(t)
	f := e.f
	public := f.publicKey("one")
	dir := harness.Workdir(t)
	var evil process.Spec
	evil.ProcessName, evil.Directory, evil.PIDFile = "sleep", dir, filepath.Join(dir, "evil.pid")
	evil.User, evil.Compat = f.user(), &v1.Compat{}
	evil.Start = "touch " + dir + "/evil"
	forged, err := json.Marshal(wire.Report{
		Version: wire.Version, Session: "s", Number: 1, Hello: &wire.Hello{Cloud: area, IP: "127.0.0.2", Build: "evil"},
		Observed: []wire.Observation{{
			Process: process.ID{Namespace: "web", Name: "backdoor"}, Spec: &evil,
			Status: process.Status{
				Hosted: true, Want: process.WantRunning, Revision: 1099,
				RegisteredAt: time.Now().Unix(),
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	statement := fmt.Sprintf("drover report 1\nfrom %s\nsaid %x\n", public, sha256.Sum256(forged))
	agent := f.StartAgent("one")
	for name, text := range map[string]string{
		"the statement of a report": statement, "32 letters": strings.Repeat("d", 32),
		"a digest": "\x10 32 bytes that are a digest {};\n",
	} {
		if signature := e.challenge(text); signature != "" {
			t.Errorf("the agent signs %s: %s", name, signature)
		}
	}
	signature := e.challenge("bm9uY2Utb2YtMTE")
	if signature == "" {
		t.Fatal("the agent signs no challenge: then this proves nothing")
	}
	raw, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || len(raw) != 64 {
		t.Fatalf("the signature is %q, %v", signature, err)
	}
	e.pose()
	subject := wire.ReportSubject(area, public)
	for name, made := range map[string][]byte{"that of a challenge": raw, "none": make([]byte, 64)} {
		sealed := slices.Concat([]byte{1, 1}, []byte(public), made, forged)
		if reply, err := e.ask(subject, sealed, silence); err == nil {
			t.Errorf("with %s as its signature the server answers %s", name, reply)
		}
	}
	f.Online(behind)
	if list := f.CLI("ps"); strings.Contains(list, "backdoor") {
		t.Errorf("there is\n%s", list)
	}
	agent.End(syscall.SIGTERM)
	if _, err := os.Stat(filepath.Join(dir, "evil")); err == nil {
		t.Error("the host has run what nobody has ordered")
	}
}

// TestAHeldOrderDoesNotBeginLater: a proxy that holds an order until it has ended for its caller, and hands it over
// then, has it carried out no more, whatever else it holds: pings and reports while the caller waits, and the agent's
// question afterwards.
func TestAHeldOrderDoesNotBeginLater(t *testing.T) {
	t.Parallel()
	e := takeOver(t)
	f := e.f
	e.pose()
	f.StartAgent("one")
	f.Online(behind)
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, behind))
	pid := harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))

	e.hold(func(*nats.Msg) bool { return true })
	r := f.Operate(p, 1, behind)[behind]
	if r.Code != 117 {
		t.Fatalf("the stop that is held ends with %d %s", r.Code, r.Msg)
	}
	held := e.orders()
	if len(held) == 0 {
		t.Fatal("no order is held")
	}
	// All that is held is handed over while the agent's reports, and so its questions, are held on.
	e.hold(func(m *nats.Msg) bool { return !isOrder(m) && strings.Contains(m.Subject, ".server.") })
	for _, m := range held {
		if _, err := e.conns.agents.Request(m.Subject, m.Data, silence); err != nil {
			t.Logf("the agent gives no receipt: %v", err)
		}
	}
	if !harness.Alive(pid) {
		t.Fatal("the held order was carried out")
	}
	e.hold(nil)
	for _, m := range held {
		if reply, err := e.conns.agents.Request(m.Subject, m.Data, silence); err != nil {
			t.Logf("the agent gives no receipt: %v", err)
		} else if _, err := frame.Read(reply.Data); !errors.As(err, new(*frame.HintError)) {
			t.Errorf("the agent gives a receipt to a copy: %v", err)
		}
	}
	f.Online(behind)
	if r := f.Operate(p, 2, behind)[behind]; r.Code != 0 || r.PID != pid {
		t.Errorf("after that it answers %+v", r)
	}
	f.Want(0, f.Operate(p, restart, behind)) // waits for its turn behind what was held
	if n := harness.Starts(t, dir); n != 2 {
		t.Errorf("it was started %d times, want 2", n)
	}
	harness.Eventually(t, "the agent to say what became of the held order", func() bool {
		return strings.Contains(f.Logs["one"].String(), "cancelled: the operation was not begun")
	})
}
