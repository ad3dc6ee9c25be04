package trust_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	v1 "drover/api/v1"
	"drover/internal/agent"
	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/pki"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// silence is how long an attacker waits for an answer that must not come.
const silence = 2 * time.Second

// enrolment is what an agent goes by.
func (f *fleet) enrolment(name string) wire.Enrolment {
	f.T.Helper()
	return harness.Enrolment(f.T, f.AgentDir(name))
}

// insider is somebody with every right on the fabric: who has stolen the key of its servers' credentials. Replies reach him as they
// reach an agent.
func (f *fleet) insider(e wire.Enrolment) *nats.Conn {
	f.T.Helper()
	who := harness.Insider(f.T, filepath.Join(f.ServerDir(), "server"), e.Fleet)
	trust, err := pki.Trusting(e.CA)
	if err != nil {
		f.T.Fatal(err)
	}
	agent, err := jwt.DecodeUserClaims(e.JWT)
	if err != nil {
		f.T.Fatal(err)
	}
	conn, err := nats.Connect(e.URLs[0], nats.Secure(trust), nats.TLSHandshakeFirst(),
		nats.UserJWT(func() (string, error) { return who.JWT, nil }, who.Key.Sign),
		nats.CustomInboxPrefix(fabric.InboxPrefix(strconv.Itoa(e.Cloud), agent.Subject)))
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(conn.Close)
	return conn
}

// TestARecordedOrderIsWorthNothing: who has seen an order on its way, and sends it again later, to the same agent or to
// another one, is refused.
func TestARecordedOrderIsWorthNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	f.JoinAndStart("two", "127.0.0.3", 0)
	subject := wire.OrderSubject(0, f.publicKey("one"))
	conn := f.insider(f.enrolment("one"))
	seen, err := conn.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	order, err := seen.NextMsg(harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := seen.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	f.Want(0, f.Operate(p, 1, first))
	for name, want := range map[string]string{"one": "copy of an earlier frame", "two": "keys of another pair"} {
		reply, err := conn.Request(wire.OrderSubject(0, f.publicKey(name)), order.Data, silence)
		if err != nil {
			t.Fatal(err)
		}
		_, err = frame.Read(reply.Data)
		if _, hint := errors.AsType[*frame.HintError](err); !hint || !strings.Contains(err.Error(), want) {
			t.Errorf("%s answered %q, %v", name, reply.Data, err)
		}
	}
	f.Operate(p, 2, first) // waits for its turn behind it
	if n := harness.Starts(t, dir); n != 1 {
		t.Errorf("it was carried out %d times", n)
	}
}

// impostor is a broker of an attacker's own, in the place of the server's, that lets everybody in.
func (f *fleet) impostor(e wire.Enrolment, shown *tls.Config) *nats.Conn {
	f.T.Helper()
	return f.broker(address(f.T, e), shown)
}

// broker starts a broker of an attacker's own, which lets everybody in, and connects to it.
func (f *fleet) broker(at string, shown *tls.Config) *nats.Conn {
	f.T.Helper()
	host, text, err := net.SplitHostPort(at)
	if err != nil {
		f.T.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		f.T.Fatal(err)
	}
	var srv *server.Server
	// An agent that knocks while nobody listens may hold the port for a moment, as its own end.
	harness.Eventually(f.T, "the broker of the attacker to have its port", func() bool {
		srv, err = server.NewServer(&server.Options{
			Host: host, Port: port, NoSigs: true, NoLog: true, AlwaysEnableNonce: true, MaxPayload: 8 << 20,
			TLSConfig: shown, TLS: true, TLSHandshakeFirst: true, TLSTimeout: 5,
		})
		if err != nil {
			f.T.Fatal(err)
		}
		srv.Start()
		if srv.ReadyForConnections(time.Second) {
			return true
		}
		srv.Shutdown()
		srv.WaitForShutdown()
		return false
	})
	f.T.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	conn, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(conn.Close)
	return conn
}

// pairOfImpostor is the pair of an agent with somebody who knows all public keys, and has a private key of his own.
func (f *fleet) pairOfImpostor(e wire.Enrolment, public string) *frame.Pair {
	f.T.Helper()
	own, err := nkeys.CreateCurveKeys()
	if err != nil {
		f.T.Fatal(err)
	}
	key, err := frame.PrivateKey(own)
	if err != nil {
		f.T.Fatal(err)
	}
	theirs := harness.SealingKeys(f.T, filepath.Join(f.AgentDir("one"), "agent"))[0]
	pair, err := frame.AtFleet(e.Fleet, key, public, theirs.PublicKey())
	if err != nil {
		f.T.Fatal(err)
	}
	return pair
}

// TestAnImpostorsFabric: without the server's authority nobody is believed; with it, stolen, agents can be reached, and
// obey nobody.
func TestAnImpostorsFabric(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	before, public := f.enrolment("one"), f.publicKey("one")
	f.Server.End(syscall.SIGKILL)

	log := slog.New(slog.DiscardHandler)
	own, err := pki.Open(pki.Config{
		Dir: filepath.Join(f.Dir, "impostor"), Names: []string{"127.0.0.1"}, Now: time.Now,
		Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("with an authority of his own", func(t *testing.T) {
		conn := (&fleet{&harness.Fleet{T: t, Dir: f.Dir, Logs: f.Logs}}).impostor(before, own.ServerTLS())
		harness.Eventually(t, "the agent to refuse it", func() bool {
			return strings.Contains(f.Logs["one"].String(), "cannot trust the server's certificate")
		})
		if _, err := conn.Request(wire.OrderSubject(0, public), nil, time.Second); !errors.Is(err,
			nats.ErrNoResponders) {
			t.Errorf("the agent listens: %v", err)
		}
	})
	stolen, err := pki.Open(pki.Config{
		Dir: filepath.Join(f.ServerDir(), "server", "pki"), Names: []string{"127.0.0.1"},
		Now: time.Now, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.besiege(f.impostor(before, stolen.ServerTLS()), before, p, dir)
}

// besiege has an impostor, to whom agent one comes, try everything that needs no key of the fleet. Process p runs on its
// host.
func (f *fleet) besiege(conn *nats.Conn, before wire.Enrolment, p *harness.Process, dir string) {
	t, public := f.T, f.publicKey("one")
	t.Helper()
	mine, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := mine.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	evil := before
	evil.ManifestKeys, evil.Generation = append(evil.ManifestKeys, theirs), before.Generation+9
	trust, err := wire.SealTrust(public, evil, mine)
	if err != nil {
		t.Fatal(err)
	}
	pair := f.pairOfImpostor(before, public)
	orders, err := wire.Manifest{
		Issued: time.Now(), Expires: time.Now().Add(time.Minute), Orders: []wire.Order{{
			Item: "1", Process: process.ID{Namespace: p.Namespace, Name: p.Name}, Op: process.Unregister,
		}},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	sealed, _, err := pair.Seal(frame.Orders, time.Now(), frame.Nonce{}, orders)
	if err != nil {
		t.Fatal(err)
	}
	reports := make(chan struct{}, 1000)
	ack, err := json.Marshal(wire.ReportAck{
		Version: wire.Version, Trust: trust,
		Desired: &wire.Desired{
			Revision: 99,
			Processes: []wire.Desires{{
				Process: process.ID{Namespace: p.Namespace, Name: p.Name}, Revision: 99,
				Gone: true,
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Subscribe(wire.ReportSubject(0, public), func(m *nats.Msg) {
		h, err := frame.Read(m.Data)
		if err != nil {
			t.Errorf("what the agent says: %v", err)
		}
		answer, _, err := pair.Seal(frame.Ack, time.Now(), h.Nonce, ack)
		if err != nil {
			t.Error(err)
		}
		copy(answer[2:], h.Pair[:]) // as if it were of the agent's pair
		_ = m.Respond(answer)
		select {
		case reports <- struct{}{}:
		default:
		}
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reports:
	case <-time.After(harness.Patience):
		t.Fatal("the agent does not come")
	}
	for name, data := range map[string][]byte{
		"sealed by himself": sealed, "not sealed": orders,
	} {
		if reply, err := conn.Request(wire.OrderSubject(0, public), data, silence); err == nil {
			t.Errorf("what is %s was answered with %s", name, reply.Data)
		}
	}
	pid := harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the agent to go on with what it has", func() bool { return harness.Starts(t, dir) == 2 })
	harness.Eventually(t, "the refusal to be logged", func() bool {
		return strings.Contains(f.Logs["one"].String(), "answer refused: forged frame")
	})
	after := f.enrolment("one")
	if after.Generation != before.Generation || len(after.ManifestKeys) != len(before.ManifestKeys) {
		t.Errorf("the agent goes by %+v", after)
	}
}

// TestAForgedReportIsWorthNothing: who may speak on an agent's subject, as whoever runs a proxy or a broker may, cannot
// have the server believe that the agent had a process, and give that back to it.
func TestAForgedReportIsWorthNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.JoinAndStart("one", "127.0.0.2", 0)
	p, dir := f.daemon("p")
	var evil process.Spec
	evil.ProcessName, evil.Directory, evil.PIDFile = "sleep", dir, filepath.Join(dir, "evil.pid")
	evil.User, evil.Compat = f.user(), &v1.Compat{}
	evil.Start = "touch evil"
	forged, err := json.Marshal(wire.Report{Version: wire.Version, Observed: []wire.Observation{{
		Process: process.ID{Namespace: p.Namespace, Name: "evil"}, Spec: &evil,
		Status: process.Status{Hosted: true, Want: process.WantRunning, Revision: 99, RegisteredAt: time.Now().Unix()},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	public := f.publicKey("one")
	conn := f.insider(f.enrolment("one"))
	seen, err := conn.SubscribeSync(wire.ReportSubject(0, public))
	if err != nil {
		t.Fatal(err)
	}
	f.Want(0, f.Operate(p, 0, first))
	var recorded []byte
	for recorded == nil {
		m, err := seen.NextMsg(harness.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := frame.Read(m.Data); err == nil && h.Kind == frame.Report {
			recorded = m.Data
		}
	}
	if err := seen.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	// As a member with a key of his own, he knows the fleet's public key.
	stranger, err := harness.AgentPair(t.TempDir(), public, f.enrolment("one"))
	if err != nil {
		t.Fatal(err)
	}
	sealed, _, err := stranger.Seal(frame.Report, time.Now(), frame.Nonce{}, forged)
	if err != nil {
		t.Fatal(err)
	}
	relabelled := bytes.Clone(sealed)
	copy(relabelled[2:6], recorded[2:6])
	for name, data := range map[string][]byte{
		"not sealed": forged, "sealed with another key, under the agent's": relabelled,
		"under the head of another report": append(recorded[:38:38], forged...),
		"relabelled as an answer":          append([]byte{1, byte(frame.Ack)}, recorded[2:]...),
	} {
		if reply, err := conn.Request(wire.ReportSubject(0, public), data, silence); err == nil {
			t.Errorf("what is %s was answered with %s", name, reply.Data)
		}
	}
	// A message of unknown keys gets a hint, which says nothing of the fleet.
	reply, err := conn.Request(wire.ReportSubject(0, public), sealed, harness.Patience)
	if err != nil || !strings.Contains(string(reply.Data), "does not have the keys of the message") {
		t.Errorf("what is sealed with another key was answered with %v, %v", reply, err)
	}
	// The agent asks what it should have when it comes back.
	one.End(syscall.SIGKILL)
	f.StartAgent("one")
	f.Online(first)
	f.Want(0, f.Operate(p, 2, first))
	if list := f.CLI("ps"); strings.Contains(list, "evil") || !strings.Contains(list, p.Name) {
		t.Errorf("there is\n%s", list)
	}
	if _, err := os.Stat(filepath.Join(dir, "evil")); err == nil {
		t.Error("the host has run what nobody has ordered")
	}
}

// TestAnAgentHasItsOwnSubjectsOnly: not those of its area's other agents, of proxies, of other areas, nor of the
// servers among themselves.
func TestAnAgentHasItsOwnSubjectsOnly(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	f.JoinAndStart("two", "127.0.0.3", 3)
	e, own, other := f.enrolment("one"), f.publicKey("one"), f.publicKey("two")
	key, err := agent.OwnKey(filepath.Join(f.AgentDir("one"), "agent"))
	if err != nil {
		t.Fatal(err)
	}
	trust, err := pki.Trusting(e.CA)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := fabric.Dial(t.Context(), fabric.DialConfig{
		URLs: e.URLs, Identity: fabric.Identity{JWT: e.JWT, Key: key, Area: "0"}, TLS: trust, Name: "thief",
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	harness.Eventually(t, "the thief to be connected", conn.Connected)
	subjects := []string{
		wire.OrderSubject(0, other), wire.OrderSubject(3, own), wire.OrderSubject(3, other), wire.ReportSubject(3, own),
		wire.ReportSubject(3, other),
		wire.ReportSubject(0, other), wire.ProxyJoinSubject(0, own), wire.ProxyRefreshSubject(0, own),
		wire.ProxyNewsSubject(0, own),
		"drover.v1.server.news", "drover.v1.server.known", "$SYS.REQ.CLAIMS.UPDATE", "_INBOX.server.x",
		"drover.v1.3.server.x.reports",
	}
	for _, subject := range subjects {
		if stop, err := conn.Serve(subject, "", 1, func(context.Context, string, []byte) []byte {
			return nil
		}); !errors.Is(err, fabric.ErrForbidden) {
			t.Errorf("it listens on %s: %v", subject, err)
			if err == nil {
				stop()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if reply, err := conn.Request(ctx, subject, []byte(`{"version":1}`)); err == nil {
			t.Errorf("it is answered on %s: %s", subject, reply)
		}
		cancel()
	}
	harness.Eventually(t, "the attempts to be on record", func() bool {
		log := f.CLI("audit", "--action", "fabric", "-o", "json")
		return strings.Contains(log, "Subscription Violation") && strings.Contains(log, "Publish Violation") &&
			strings.Contains(log, own)
	})
}
