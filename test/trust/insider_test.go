package trust_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// tap hears all messages of a fabric, as a broker of an attacker, or whoever has the key of its account.
type tap struct {
	t    *testing.T
	conn *nats.Conn

	mu   sync.Mutex
	seen []*nats.Msg
	// at is called with each message; nil does nothing.
	at func(m *nats.Msg)
}

func newTap(t *testing.T, conn *nats.Conn) *tap {
	t.Helper()
	p := &tap{t: t, conn: conn}
	if _, err := conn.Subscribe(">", func(m *nats.Msg) {
		p.mu.Lock()
		p.seen = append(p.seen, &nats.Msg{Subject: m.Subject, Reply: m.Reply, Data: bytes.Clone(m.Data)})
		at := p.at
		p.mu.Unlock()
		if at != nil {
			at(m)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return p
}

// all returns what was heard on subjects with an ending; empty is all.
func (p *tap) all(ending string) (found []*nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.seen {
		if strings.HasSuffix(m.Subject, ending) {
			found = append(found, m)
		}
	}
	return found
}

// does has each message from now on cause something.
func (p *tap) does(at func(m *nats.Msg)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = at
}

// nobody is the answer of a broker that knows no listener.
func nobody(reply string) *nats.Msg {
	return &nats.Msg{Subject: reply, Header: nats.Header{"Status": []string{"503"}}}
}

// TestAThiefOfTheServersSigner: whoever makes users of the fabric reads no message, repeats all of them for nothing, and
// has nobody believe his own, in the place of a server, of an agent, or of a broker that tells who is connected.
func TestAThiefOfTheServersSigner(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.JoinAndStart("one", "127.0.0.2", 0)
	e, public := f.enrolment("one"), f.publicKey("one")
	heard := newTap(t, f.insider(e))
	p, dir := f.daemon("payroll")
	f.Want(0, f.Operate(p, 0, first))
	f.Want(0, f.Operate(p, restart, first))
	pid := harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))

	kinds := map[frame.Kind]int{}
	for _, m := range heard.all("") {
		for _, text := range []string{dir, p.Name, p.Namespace, "127.0.0.2"} {
			if bytes.Contains(m.Data, []byte(text)) {
				t.Errorf("he reads %q on %s", text, m.Subject)
			}
		}
		if h, err := frame.Read(m.Data); err == nil {
			kinds[h.Kind]++
		}
	}
	for _, kind := range []frame.Kind{frame.Orders, frame.Receipt, frame.Report, frame.Ack} {
		if kinds[kind] == 0 {
			t.Errorf("he hears no %s: then this proves nothing", kind)
		}
	}
	f.repeatAll(heard)
	f.tellAsAServer(heard.conn, e, p)
	f.want(p, pid, dir, 2)

	// He speaks in the place of an agent that is not there.
	answers := heard.all(".r.")
	for _, m := range heard.all("") {
		if strings.HasPrefix(m.Subject, "_INBOX.server.") && len(m.Data) > 0 {
			answers = append(answers, m)
		}
	}
	one.End(syscall.SIGKILL)
	heard.does(func(m *nats.Msg) {
		if !strings.HasPrefix(m.Subject, "drover.v1.0.agent.") || m.Reply == "" {
			return
		}
		for _, old := range answers {
			_ = heard.conn.Publish(m.Reply, old.Data) // the first one counts
		}
	})
	for _, subject := range []string{wire.OrderSubject(0, public), wire.PingSubject(0, public)} {
		if _, err := heard.conn.Subscribe(subject, func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
	}
	f.Away(first)
	f.Want(117, f.Operate(p, restart, first))
	heard.does(nil)
	f.StartAgent("one")
	f.Online(first)
	f.want(p, pid, dir, 2)
}

// want wants a process as it was, and its host to work.
func (f *fleet) want(p *harness.Process, pid int, dir string, starts int) {
	f.T.Helper()
	r := f.Operate(p, 2, first)[first]
	if n := harness.Starts(f.T, dir); r.Code != 0 || r.PID != pid || !harness.Alive(pid) || n != starts {
		f.T.Errorf("the process answers %+v, want pid %d; it was started %d times, want %d", r, pid, n, starts)
	}
}

// repeatAll sends all that was heard again, in its own place and in that of each other kind of message.
func (f *fleet) repeatAll(heard *tap) {
	t := heard.t
	t.Helper()
	all := heard.all("")
	places := map[string]bool{}
	for _, m := range all {
		if strings.HasPrefix(m.Subject, "drover.") {
			places[m.Subject] = true
		}
	}
	for _, m := range all {
		for place := range places {
			if err := heard.conn.PublishRequest(place, heard.conn.NewRespInbox(), m.Data); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasPrefix(m.Subject, "_INBOX.") {
			if err := heard.conn.Publish(m.Subject, m.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := heard.conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// tellAsAServer sends what servers and brokers tell each other, and yesterday's frames, whose keys were good.
func (f *fleet) tellAsAServer(conn *nats.Conn, e wire.Enrolment, p *harness.Process) {
	t, public := f.T, f.publicKey("one")
	t.Helper()
	server, own := filepath.Join(f.ServerDir(), "server"), filepath.Join(f.AgentDir("one"), "agent")
	pair, err := harness.ServerPair(server, own, public, e)
	if err != nil {
		t.Fatal(err)
	}
	held, err := fabric.LoadOrCreateKey(filepath.Join(server, "sealing.nkey"), nkeys.PrefixByteCurve)
	if err != nil {
		t.Fatal(err)
	}
	key, err := frame.PrivateKey(held)
	if err != nil {
		t.Fatal(err)
	}
	among, err := frame.AmongServers(e.Fleet, key)
	if err != nil {
		t.Fatal(err)
	}
	yesterday := time.Now().Add(-24 * time.Hour)
	orders, err := wire.Manifest{
		Issued: yesterday, Expires: yesterday.Add(time.Minute), Orders: []wire.Order{{
			Item: "yesterday", Process: process.ID{Namespace: p.Namespace, Name: p.Name}, Op: process.Stop,
		}},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	order, _, err := pair.Seal(frame.Orders, yesterday, frame.Nonce{}, orders)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := conn.Request(wire.OrderSubject(0, public), order, harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := frame.Read(reply.Data); !errors.As(err, new(*frame.HintError)) {
		t.Errorf("yesterday's order was answered with %.200q", reply.Data)
	}
	news := fmt.Sprintf(`{"version":1,"id":"evil","name":"evil","number":99,"links":[{"k":%q,"l":0}],"leaving":true}`, public)
	old, _, err := among.Seal(frame.News, yesterday, frame.Nonce{}, []byte(news))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*nats.Msg{
		{Subject: "drover.v1.server.news", Data: old},
		{Subject: "drover.v1.server.news", Data: []byte(news)},
		{Subject: "drover.v1.server.known", Data: []byte(news)},
		{Subject: "$SYS.ACCOUNT." + e.Fleet + ".DISCONNECT", Data: []byte(`{"client":{"nkey":"` + public + `"}}`)},
		{Subject: "$SYS.ACCOUNT." + e.Fleet + ".CONNECT", Data: []byte(`{"client":{"nkey":"` + public + `"}}`)},
		{Subject: "$SYS.REQ.ACCOUNT." + e.Fleet + ".CLAIMS.UPDATE", Data: []byte("x")},
	} {
		m.Reply = conn.NewRespInbox()
		if err := conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if list := f.CLI("agents"); strings.Contains(list, "away") || !strings.Contains(list, "online") {
		t.Errorf("the hosts are\n%s", list)
	}
}

// TestAnAbsenceThatIsMadeUp: whoever tells the servers that nobody listens, before an agent answers, delays operations.
// What the caller hears of them is what has happened.
func TestAnAbsenceThatIsMadeUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	heard := newTap(t, f.insider(f.enrolment("one")))
	heard.does(func(m *nats.Msg) {
		if strings.HasPrefix(m.Subject, "drover.v1.0.agent.") && m.Reply != "" {
			_ = heard.conn.PublishMsg(nobody(m.Reply))
		}
	})
	starts := 1
	for range 3 {
		if r := f.Operate(p, restart, first)[first]; r.Code == 0 {
			starts++
		} else {
			t.Logf("a restart ended with %d %s", r.Code, r.Msg)
		}
		if n := harness.Starts(t, dir); n != starts {
			t.Fatalf("the process was started %d times, and callers heard of %d starts", n, starts)
		}
	}
	heard.does(nil)
	f.Online(first)
	f.Want(0, f.Operate(p, restart, first))
}
