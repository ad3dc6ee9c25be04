package trust_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
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

	"drover/internal/agent"
	"drover/internal/fabric"
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

// insider is somebody with every right on the fabric: who has stolen the key of its account. Replies reach him as they
// reach an agent.
func (f *fleet) insider(e wire.Enrolment) *nats.Conn {
	f.T.Helper()
	account, err := fabric.LoadOrCreateKey(filepath.Join(f.ServerDir(), "server", "broker", "account.nk"),
		nkeys.PrefixByteAccount)
	if err != nil {
		f.T.Fatal(err)
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		f.T.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		f.T.Fatal(err)
	}
	token, err := jwt.NewUserClaims(public).Encode(account)
	if err != nil {
		f.T.Fatal(err)
	}
	trust, err := pki.Trusting(e.CA)
	if err != nil {
		f.T.Fatal(err)
	}
	agent, err := jwt.DecodeUserClaims(e.JWT)
	if err != nil {
		f.T.Fatal(err)
	}
	conn, err := nats.Connect(e.URLs[0], nats.Secure(trust), nats.TLSHandshakeFirst(),
		nats.UserJWT(func() (string, error) { return token, nil }, user.Sign),
		nats.CustomInboxPrefix(fabric.InboxPrefix(strconv.Itoa(e.Cloud), agent.Subject)))
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(conn.Close)
	return conn
}

// TestARecordedOrderIsWorthNothing: who has seen an order on its way, and sends it again later, has it answered and not
// carried out.
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
	order, err := seen.NextMsg(silence)
	if err != nil {
		t.Fatal(err)
	}
	if err := seen.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	f.Want(0, f.Operate(p, 1, first))
	for _, name := range []string{"one", "two"} {
		reply, err := conn.Request(wire.OrderSubject(0, f.publicKey(name)), order.Data, silence)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := wire.OpenReceipt(reply.Data, order.Data, f.publicKey(name))
		if err != nil {
			t.Fatal(err)
		}
		var receipt wire.Receipt
		if err := json.Unmarshal(answer, &receipt); err != nil {
			t.Fatal(err)
		}
		if refused := strings.Contains(receipt.Error, "another agent"); refused != (name == "two") {
			t.Errorf("%s answered %s", name, reply.Data)
		}
	}
	f.Operate(p, 2, first) // waits for its turn behind it
	if n := harness.Starts(t, dir); n != 1 {
		t.Errorf("it was carried out %d times", n)
	}
}

// impostor is a broker of an attacker's own, in the place of the server's, that lets everybody in.
func (f *fleet) impostor(e wire.Enrolment, keys *pki.Keeper) *nats.Conn {
	f.T.Helper()
	at, err := url.Parse(e.URLs[0])
	if err != nil {
		f.T.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		f.T.Fatal(err)
	}
	srv, err := server.NewServer(&server.Options{
		Host: at.Hostname(), Port: port, NoSigs: true, NoLog: true, AlwaysEnableNonce: true,
		TLSConfig: keys.ServerTLS(), TLS: true, TLSHandshakeFirst: true, TLSTimeout: 5,
	})
	if err != nil {
		f.T.Fatal(err)
	}
	srv.Start()
	f.T.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(harness.Patience) {
		f.T.Fatal("the impostor does not run")
	}
	conn, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(conn.Close)
	return conn
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
		conn := (&fleet{&harness.Fleet{T: t, Dir: f.Dir, Logs: f.Logs}}).impostor(before, own)
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
	sealed := func(m wire.Manifest) []byte {
		t.Helper()
		m.Agent, m.Issued, m.Expires = public, time.Now(), time.Now().Add(time.Minute)
		data, err := wire.Seal(m, mine)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	conn := f.impostor(before, stolen)
	reports := make(chan struct{}, 1000)
	ack, err := json.Marshal(wire.ReportAck{
		Version: wire.Version, Trust: sealed(wire.Manifest{Trust: &evil}),
		Desired: sealed(wire.Manifest{Desired: &wire.Desired{
			Revision: 99,
			Processes: []wire.Desires{{
				Process: process.ID{Namespace: p.Namespace, Name: p.Name}, Revision: 99,
				Gone: true,
			}},
		}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Subscribe(wire.ReportSubject(0, public), func(m *nats.Msg) {
		report, _, err := wire.OpenReport(m.Data, before.Fleet, public)
		if err != nil {
			t.Errorf("what the agent says: %v", err)
		}
		answer, err := wire.SealAnswer(ack, report, public, mine)
		if err != nil {
			t.Error(err)
		}
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
		"signed by himself": sealed(wire.Manifest{Orders: []wire.Order{{
			Item:    "1",
			Process: process.ID{Namespace: p.Namespace, Name: p.Name}, Op: process.Unregister,
		}}}),
		"not signed": []byte(`{"manifest":"e30=","key":"` + before.ManifestKeys[0] + `"}`),
	} {
		if reply, err := conn.Request(wire.OrderSubject(0, public), data, silence); err == nil {
			t.Errorf("what is %s was answered with %s", name, reply.Data)
		}
	}
	pid := harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the agent to go on with what it has", func() bool { return harness.Starts(t, dir) == 2 })
	// Only an answer to a report that tells something must be signed: the restart is such news, a heartbeat is not.
	harness.Eventually(t, "the refusal to be logged", func() bool {
		return strings.Contains(f.Logs["one"].String(), "answer refused: signed by a key that is not pinned")
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
	evil.Identity = process.Identity{
		ProcName: "sleep", SetupPath: dir, PIDPath: filepath.Join(dir, "evil.pid"),
		User: f.user(),
	}
	evil.Commands.Start = "touch evil"
	evil.Policy.Kind = process.Resident
	forged, err := json.Marshal(wire.Report{Version: wire.Version, Observed: []wire.Observation{{
		Process: process.ID{Namespace: p.Namespace, Name: "evil"}, Spec: &evil,
		Status: process.Status{Hosted: true, Want: process.WantRunning, Revision: 99, RegisteredAt: time.Now().Unix()},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	public, fleet := f.publicKey("one"), f.enrolment("one").Fleet
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
		if _, signed, err := wire.OpenReport(m.Data, fleet, public); err == nil && signed {
			recorded = m.Data
		}
	}
	if err := seen.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	stranger, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := wire.SealReport(forged, fleet, stranger)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"not signed": forged, "signed by another": signed,
		"under a signature of another report": append(recorded[:2+56+64:2+56+64], forged...),
	} {
		if reply, err := conn.Request(wire.ReportSubject(0, public), data, silence); err == nil {
			t.Errorf("what is %s was answered with %s", name, reply.Data)
		}
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
