package trust_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/frame"
	"drover/internal/pki"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// address is where agents find the server.
func address(t testing.TB, e wire.Enrolment) string {
	t.Helper()
	at, err := url.Parse(e.URLs[0])
	if err != nil {
		t.Fatal(err)
	}
	return at.Host
}

// orderTo is a body that orders an operation on a process.
func orderTo(t *testing.T, p *harness.Process, op process.Op) []byte {
	t.Helper()
	body, err := wire.Manifest{
		Issued: time.Now(), Expires: time.Now().Add(time.Minute), Orders: []wire.Order{{
			Item: fmt.Sprint(time.Now().UnixNano()), Process: process.ID{Namespace: p.Namespace, Name: p.Name}, Op: op,
		}},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// hinted wants the answer of somebody who does not open a frame.
func hinted(t *testing.T, what string, answer []byte, want string) {
	t.Helper()
	if _, err := frame.Read(answer); !errors.As(err, new(*frame.HintError)) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s was answered with %.300q, want a hint of %q", what, answer, want)
	}
}

// TestAnOldSealingKey: whoever has stolen a sealing key of the fleet, and comes after it was replaced and dropped,
// commands nobody and speaks for nobody, though he also has the key of the account.
func TestAnOldSealingKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	before, public := f.enrolment("one"), f.publicKey("one")
	own := filepath.Join(f.AgentDir("one"), "agent")
	fleetSide, err := harness.ServerPair(filepath.Join(f.ServerDir(), "server"), own, public, before)
	if err != nil {
		t.Fatal(err)
	}
	// The secret of the pair is one for both sides, so a thief of the fleet's key can seal as this one.
	memberSide, err := harness.AgentPair(own, public, before)
	if err != nil {
		t.Fatal(err)
	}
	seal := func(pair *frame.Pair, kind frame.Kind, body []byte) []byte {
		data, _, err := pair.Seal(kind, time.Now(), frame.Nonce{}, body)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	conn := f.insider(before)
	ask := func(subject string, data []byte) []byte {
		reply, err := conn.Request(subject, data, harness.Patience)
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		return reply.Data
	}
	report := func() []byte {
		text, err := json.Marshal(wire.Report{
			Version: wire.Version, Session: "t9", Number: 1, Hello: &wire.Hello{IP: "127.0.0.2", Build: "evil"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return seal(memberSide, frame.Report, text)
	}
	if _, err := frame.Read(ask(wire.OrderSubject(0, public), seal(fleetSide, frame.Ping, nil))); err == nil {
		t.Error("the agent takes a ping for an order")
	}
	if _, err := frame.Read(ask(wire.PingSubject(0, public), seal(fleetSide, frame.Ping, nil))); err != nil {
		t.Fatalf("the present key opens nothing, then this proves nothing: %v", err)
	}
	f.RotateKey("sealing", 1)
	f.CLI("keys", "drop", "sealing", f.key("sealing", "former"))
	f.Keyed(1)
	hinted(t, "an order", ask(wire.OrderSubject(0, public), seal(fleetSide, frame.Orders, orderTo(t, p, process.Stop))),
		"keys of another pair")
	hinted(t, "a ping", ask(wire.PingSubject(0, public), seal(fleetSide, frame.Ping, nil)), "keys of another pair")
	hinted(t, "a report", ask(wire.ReportSubject(0, public), report()), "does not have the keys of the message")
	f.Want(0, f.Operate(p, 2, first))
	if n := harness.Starts(t, dir); n != 1 || !harness.Alive(harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))) {
		t.Errorf("the process was started %d times, or has ended", n)
	}
	if list := f.CLI("agents", "-o", "json"); strings.Contains(list, "evil") {
		t.Errorf("the hosts are\n%s", list)
	}
}

// clientHello reads the extensions of the first message of a client of TLS, as anybody on the network can.
func clientHello(t *testing.T, conn net.Conn) map[uint16][]byte {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(harness.Patience)); err != nil {
		t.Fatal(err)
	}
	var record [5]byte
	if _, err := io.ReadFull(conn, record[:]); err != nil || record[0] != 22 {
		t.Fatalf("%x: %v", record, err)
	}
	data := make([]byte, binary.BigEndian.Uint16(record[3:]))
	if _, err := io.ReadFull(conn, data); err != nil {
		t.Fatal(err)
	}
	data = data[4+2+32:]                               // kind and length, version, random
	data = data[1+int(data[0]):]                       // session id
	data = data[2+int(binary.BigEndian.Uint16(data)):] // cipher suites
	data = data[1+int(data[0]):]                       // compression
	all, data := map[uint16][]byte{}, data[2:]         // length of the extensions
	for len(data) > 0 {
		end := 4 + int(binary.BigEndian.Uint16(data[2:]))
		all[binary.BigEndian.Uint16(data)] = data[4:end]
		data = data[end:]
	}
	return all
}

// Extensions of a ClientHello (RFC 8446).
const (
	preSharedKey = 41
	earlyData    = 42
	keyModes     = 45
	keyShare     = 51
)

// oneSession is a cache with one session.
type oneSession struct{ state *tls.ClientSessionState }

func (o oneSession) Get(string) (*tls.ClientSessionState, bool) { return o.state, true }
func (o oneSession) Put(string, *tls.ClientSessionState)        {}

// sessionOf is the session of a ticket that somebody has seen on the network, as a thief of the ticket keys opens it.
func sessionOf(t *testing.T, stolen *tls.Config, ticket, certificate []byte) *tls.ClientSessionState {
	t.Helper()
	state, err := stolen.UnwrapSession(ticket, tls.ConnectionState{})
	if err != nil || state == nil {
		t.Fatalf("the stolen keys do not open the ticket: %v", err)
	}
	data, err := state.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Clone(data[:len(data)-6]) // without the empty lists of certificates
	data[2] = 2                            // the session of a client
	size := func(n int) []byte { return []byte{byte(n >> 16), byte(n >> 8), byte(n)} }
	data = append(append(data, size(len(certificate)+5)...), size(len(certificate))...)
	data = append(append(data, certificate...), 0, 0, 0, 0, 0)
	data = binary.BigEndian.AppendUint64(data, uint64(time.Now().Add(time.Hour).Unix())) //nolint:gosec // after 1970
	data = binary.BigEndian.AppendUint32(data, 0)
	if state, err = tls.ParseSessionState(data); err != nil {
		t.Fatal(err)
	}
	session, err := tls.NewResumptionState(ticket, state)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// enter connects to the server by a session, or without, and presents an agent's token with a signature by a key.
func enter(t *testing.T, at string, session *tls.ClientSessionState, jwt string, key nkeys.KeyPair) (
	resumed bool, answer string,
) {
	t.Helper()
	cfg := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} //nolint:gosec // a thief does not care
	if session != nil {
		cfg.ClientSessionCache = oneSession{session}
	}
	conn, err := tls.Dial("tcp", at, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // all was read
	if err := conn.SetDeadline(time.Now().Add(harness.Patience)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Nonce string `json:"nonce"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		t.Fatal(err)
	}
	signature, err := key.Sign([]byte(info.Nonce))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{
		"jwt": jwt, "sig": base64.RawURLEncoding.EncodeToString(signature), "protocol": 1, "lang": "go",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s\r\nPING\r\n", text); err != nil {
		t.Fatal(err)
	}
	for !strings.HasPrefix(line, "PONG") && !strings.HasPrefix(line, "-ERR") {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return conn.ConnectionState().DidResume, strings.TrimSpace(line)
}

// TestAStolenTicketKeyOpensNoDoor: who has the ticket keys of a server, and has recorded how an agent resumes its
// session, has the secret of that session. It decrypts nothing: each connection has an exchange of its own. It lets him
// in as nobody, and it is worth nothing after the fleet has replaced a key.
func TestAStolenTicketKeyOpensNoDoor(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	e := f.enrolment("one")
	f.Server.End(syscall.SIGKILL)
	stolen := f.stolenTicketKeys()
	own, err := pki.Open(pki.Config{
		Dir: filepath.Join(f.Dir, "passer-by"), Names: []string{"127.0.0.1"}, Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := own.ServerTLS().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	harness.Eventually(t, "the port of the server", func() bool {
		l, err = net.Listen("tcp", address(t, e))
		return err == nil
	})
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	hello := clientHello(t, conn)
	_ = errors.Join(conn.Close(), l.Close())
	if _, early := hello[earlyData]; early || len(hello[keyShare]) < 32 || !bytes.Equal(hello[keyModes], []byte{1, 1}) {
		t.Errorf("the agent offers to resume without an exchange: modes %x, %d bytes of shares, early data %v",
			hello[keyModes], len(hello[keyShare]), early)
	}
	offered := hello[preSharedKey]
	if len(offered) < 4 {
		t.Fatal("the agent resumes nothing: then this proves nothing")
	}
	ticket := bytes.Clone(offered[4 : 4+int(binary.BigEndian.Uint16(offered[2:]))])
	session := sessionOf(t, stolen, ticket, shown.Certificate[0])

	f.StartServer()
	f.Online(first)
	thief, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	resumed, answer := enter(t, address(t, e), session, e.JWT, thief)
	if !resumed {
		t.Error("the thief cannot resume the session: then this proves nothing")
	}
	if !strings.Contains(answer, "Authorization Violation") {
		t.Errorf("the thief is let in: %s", answer)
	}
	f.RotateKey("manifest", 1)
	harness.Eventually(t, "the ticket to be worth nothing", func() bool {
		resumed, answer = enter(t, address(t, e), session, e.JWT, thief)
		return !resumed
	})
	if !strings.Contains(answer, "Authorization Violation") {
		t.Errorf("the thief is let in: %s", answer)
	}
}
