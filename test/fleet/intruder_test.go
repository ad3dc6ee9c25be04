package fleet_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"drover/internal/agent"
	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/pki"
	"drover/internal/process"
	"drover/internal/spec"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// stolen is who an agent is, from its disk.
type stolen struct {
	key string
	fabric.Identity
	enrolment wire.Enrolment
	tls       *tls.Config
	pair      *frame.Pair
}

func (f *fleet) steal(name string) stolen {
	f.T.Helper()
	dir := filepath.Join(f.AgentDir(name), "agent")
	e := harness.Enrolment(f.T, f.AgentDir(name))
	key, err := agent.OwnKey(dir)
	if err != nil {
		f.T.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		f.T.Fatal(err)
	}
	trust, err := pki.Trusting(e.CA)
	if err != nil {
		f.T.Fatal(err)
	}
	pair, err := harness.AgentPair(dir, public, e)
	if err != nil {
		f.T.Fatal(err)
	}
	return stolen{public, fabric.Identity{JWT: e.JWT, Key: key, Area: strconv.Itoa(e.Cloud)}, e, trust, pair}
}

// connect dials the fabric.
func (f *fleet) connect(id fabric.Identity, s stolen) *fabric.Conn {
	f.T.Helper()
	conn, err := fabric.Dial(f.T.Context(), fabric.DialConfig{
		URLs: s.enrolment.URLs, Identity: id, TLS: s.tls, Name: "intruder",
		Log: slog.New(slog.NewTextHandler(f.T.Output(), nil)),
	})
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(conn.Close)
	harness.Eventually(f.T, "the intruder to be connected", conn.Connected)
	return conn
}

// silence is how long an intruder waits for an answer that must not come.
const silence = 2 * time.Second

func ask(conn *fabric.Conn, subject string, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	return conn.Request(ctx, subject, data)
}

// TestAStolenAgentIsWorthOneHost: with the credentials of one agent nobody listens to another, speaks for it or
// commands it.
func TestAStolenAgentIsWorthOneHost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	f.JoinAndStart("two", "127.0.0.3", 3)
	thief, victim := f.steal("one"), f.steal("two")
	conn := f.connect(thief.Identity, thief)
	for _, subject := range []string{
		wire.OrderSubject(3, victim.key), wire.OrderSubject(0, victim.key), wire.OrderSubject(0, "*"),
		wire.OrderSubject(3, thief.key), wire.AnyReportSubject,
		wire.ReportsOf(0), wire.ReportSubject(3, victim.key), "drover.>", ">", "_INBOX.>", "_INBOX.0.>",
		fabric.InboxPrefix("3", victim.key) + ".>",
		fabric.InboxPrefix("3", thief.key) + ".>", fabric.InboxPrefix(fabric.ServerArea, ">"),
	} {
		stop, err := conn.Serve(subject, "", 1, func(context.Context, string, []byte) []byte { return nil })
		if !errors.Is(err, fabric.ErrForbidden) {
			t.Errorf("it listens on %s: %v", subject, err)
			if err == nil {
				stop()
			}
		}
	}
	report, err := json.Marshal(wire.Report{Version: wire.Version, Hello: &wire.Hello{
		Cloud: 3, IP: "127.0.0.3",
		Build: "forged",
	}})
	if err != nil {
		t.Fatal(err)
	}
	sealed, nonce, err := thief.pair.Seal(frame.Report, time.Now(), frame.Nonce{}, report)
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{
		wire.ReportSubject(3, victim.key), wire.ReportSubject(0, victim.key),
		wire.ReportSubject(3, thief.key), wire.OrderSubject(3, victim.key),
	} {
		if reply, err := ask(conn, subject, sealed); err == nil {
			t.Errorf("it is answered on %s: %s", subject, reply)
		}
	}
	// It may speak for itself, but not under other names than it has joined with.
	reply, err := ask(conn, wire.ReportSubject(0, thief.key), sealed)
	if err != nil {
		t.Fatal(err)
	}
	if _, answer, err := thief.pair.Open(frame.Ack, reply, nonce); err != nil || strings.Contains(string(answer), "error") {
		t.Errorf("it cannot speak for itself: %s, %v", answer, err)
	}
	list := f.CLI("agents", "-o", "wide")
	if strings.Count(list, "3:127.0.0.3 ") != 2 || !strings.Contains(list, "0:127.0.0.2 ") ||
		!strings.Contains(list, victim.key) {
		t.Errorf("it has moved:\n%s", list)
	}
	for line := range strings.Lines(list) {
		if strings.Contains(line, "forged") && !strings.Contains(line, thief.key) {
			t.Errorf("it has spoken for another: %s", line)
		}
	}
	// The key alone, with a credential that it signs itself, is nobody.
	claims := jwt.NewUserClaims(thief.key)
	forged, err := claims.Encode(ownAccount(t))
	if err != nil {
		t.Fatal(err)
	}
	self, err := fabric.Dial(t.Context(), fabric.DialConfig{
		URLs: thief.enrolment.URLs, Identity: fabric.Identity{JWT: forged, Key: thief.Key, Area: "0"}, TLS: thief.tls,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(self.Close)
	if self.Connected() {
		t.Error("a credential of a stranger's account is let in")
	}
}

func ownAccount(t *testing.T) nkeys.KeyPair {
	t.Helper()
	key, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestAHijackedFabricCommandsNobody: who holds every key of the fabric can reach an agent, and is refused there.
func TestAHijackedFabricCommandsNobody(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	f.JoinAndStart("two", "127.0.0.3", 3)
	one, two := f.steal("one"), f.steal("two")
	conn := f.connect(harness.Insider(t, filepath.Join(f.ServerDir(), "server"), one.enrolment.Fleet), one)
	pairOf := func(server, name string, to stolen) *frame.Pair {
		t.Helper()
		pair, err := harness.ServerPair(server, filepath.Join(f.AgentDir(name), "agent"), to.key, to.enrolment)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	servers := filepath.Join(f.ServerDir(), "server")
	genuine, other, own := pairOf(servers, "one", one), pairOf(servers, "two", two), pairOf(t.TempDir(), "one", one)
	p, dir := f.daemon("p")
	manifest := func(expires time.Duration) []byte {
		t.Helper()
		body, err := wire.Manifest{Issued: time.Now(), Expires: time.Now().Add(expires), Orders: []wire.Order{{
			Item: "1", Process: process.ID{Namespace: p.Namespace, Name: p.Name}, Op: process.Start,
			Spec: &process.Spec{
				ProcessName: "oddd", Directory: dir, PIDFile: dir + "/oddd.pid", User: "root",
				Start: p.Control["start_cmd"].(string), Compat: &spec.Compat{},
			},
		}}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	sealed := func(pair *frame.Pair, kind frame.Kind) []byte {
		t.Helper()
		data, _, err := pair.Seal(kind, time.Now(), frame.Nonce{}, manifest(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	altered := sealed(genuine, frame.Orders)
	altered[len(altered)-1] ^= 1
	relabelled := sealed(own, frame.Orders)
	copy(relabelled[2:6], altered[2:6])
	for name, data := range map[string][]byte{
		"not sealed":                      manifest(time.Minute),
		"sealed by another key":           sealed(own, frame.Orders),
		"sealed by a key under this name": relabelled,
		"altered":                         altered,
		"for another agent":               sealed(other, frame.Orders),
		"a question":                      sealed(genuine, frame.Question),
		"nothing that can be read":        []byte("\xff"),
	} {
		reply, err := ask(conn, wire.OrderSubject(one.enrolment.Cloud, one.key), data)
		if err == nil {
			_, err = frame.Read(reply)
		}
		if !errors.As(err, new(*frame.HintError)) {
			t.Errorf("%s: it is answered %q, %v", name, reply, err)
		}
	}
	expired, nonce, err := genuine.Seal(frame.Orders, time.Now(), frame.Nonce{}, manifest(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	reply, err := ask(conn, wire.OrderSubject(one.enrolment.Cloud, one.key), expired)
	if err == nil {
		_, _, err = genuine.Open(frame.Receipt, reply, nonce)
	}
	if err != nil {
		t.Errorf("what the server could have sealed is answered %q, %v", reply, err)
	}
	// What is sealed and has expired is taken, and its outcome is that it was not begun. A query waits for its turn
	// behind it.
	f.Operate(p, 2, first)
	if n := harness.Starts(t, dir); n != 0 {
		t.Errorf("forged orders were carried out %d times", n)
	}
	f.Want(0, f.Operate(p, 0, first)) // the agent still does what its server says
	if n := harness.Starts(t, dir); n != 1 {
		t.Errorf("a real order was carried out %d times", n)
	}
}
