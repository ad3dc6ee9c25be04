package trust_test

import (
	"encoding/json"
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

	"drover/internal/agent"
	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/pki"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// hostile is somebody who has an agent's key, and speaks for it.
type hostile struct {
	t       *testing.T
	key     nkeys.KeyPair
	public  string
	pair    *frame.Pair
	subject string
	conn    *nats.Conn
	number  int64
	// incarnation is that of the database, as the server has named it: reports for another one do not count.
	incarnation string
}

// turn makes an agent that does not run hostile.
func (f *fleet) turn(t *testing.T, name string) *hostile {
	t.Helper()
	e := f.enrolment(name)
	h := &hostile{t: t, public: f.publicKey(name)}
	h.subject = wire.ReportSubject(e.Cloud, h.public)
	var err error
	if h.pair, err = harness.AgentPair(filepath.Join(f.AgentDir(name), "agent"), h.public, e); err != nil {
		t.Fatal(err)
	}
	if h.key, err = agent.OwnKey(filepath.Join(f.AgentDir(name), "agent")); err != nil {
		t.Fatal(err)
	}
	trust, err := pki.Trusting(e.CA)
	if err != nil {
		t.Fatal(err)
	}
	h.conn, err = nats.Connect(e.URLs[0], nats.Secure(trust), nats.TLSHandshakeFirst(),
		nats.CustomInboxPrefix(fabric.InboxPrefix(strconv.Itoa(e.Cloud), h.public)),
		nats.UserJWT(func() (string, error) { return e.JWT, nil }, h.key.Sign))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.conn.Close)
	return h
}

// seal seals a report.
func (h *hostile) seal(report []byte) (data []byte, nonce frame.Nonce) {
	h.t.Helper()
	data, nonce, err := h.pair.Seal(frame.Report, time.Now(), frame.Nonce{}, report)
	if err != nil {
		h.t.Fatal(err)
	}
	return data, nonce
}

// lines are events as an agent's log has them.
func lines(events ...process.Event) [][]byte {
	all := make([][]byte, len(events))
	for i, e := range events {
		all[i], _ = json.Marshal(e) // a number that has no JSON would be missed
	}
	return all
}

// tell sends a report as the next one of the agent's session, and returns what it is answered.
func (h *hostile) tell(r wire.Report) (ack wire.ReportAck) {
	h.t.Helper()
	h.number++
	r.Version, r.Session, r.Number = wire.Version, "s9", h.number
	r.Incarnation, r.Whole = h.incarnation, r.Hello == nil
	data, err := wire.EncodeReport(r, r.Events)
	if err != nil {
		h.t.Fatal(err)
	}
	sealed, nonce := h.seal(data)
	reply, err := h.conn.Request(h.subject, sealed, harness.Patience)
	if err != nil {
		h.t.Fatal(err)
	}
	_, answer, err := h.pair.Open(frame.Ack, reply.Data, nonce)
	if err != nil {
		h.t.Fatalf("%q: %v", reply.Data, err)
	}
	if err := json.Unmarshal(answer, &ack); err != nil {
		h.t.Fatalf("%q: %v", answer, err)
	}
	h.incarnation = ack.Incarnation
	return ack
}

// TestOneHostCannotTakeTheServersMemory: reports of few bytes that would take gigabytes, many at a time, cost next to
// nothing, and another host works meanwhile.
func TestOneHostCannotTakeTheServersMemory(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("good", "127.0.0.3", 0)
	if code, errs := f.Join("evil", "127.0.0.2", f.Token(0)); code != 0 {
		t.Fatal(errs)
	}
	h := f.turn(t, "evil")
	var bombs [][]byte
	for _, parts := range [][2]string{
		{"{}\n" + `{"breach":{"scores":[{}`, `]}}`},
		{`{"version":1,"observed":[{"status":{"runs":[{}`, `]}}]}`},
		{`{"version":1,"hello":{"disk":{"records":{"":{}`, `}}}}`},
	} {
		bomb, _ := h.seal([]byte(parts[0] + strings.Repeat(",{}", wire.MaxReport/3-100) + parts[1]))
		bombs = append(bombs, bomb)
	}
	before := harness.Peak(t, f.Server.PID())
	var sending sync.WaitGroup
	for range 8 {
		sending.Go(func() {
			for _, bomb := range slices.Repeat(bombs, 4) {
				if err := h.conn.Publish(h.subject, bomb); err != nil {
					t.Errorf("it was not sent: %v", err)
				}
			}
		})
	}
	sending.Wait()
	p, _ := f.daemon("p")
	f.Want(0, f.Operate(p, 0, second))
	f.Want(0, f.Operate(p, 1, second))
	if ack := h.tell(wire.Report{}); ack.Error != "" {
		t.Logf("the evil host is answered %q", ack.Error)
	}
	after := harness.Peak(t, f.Server.PID())
	t.Logf("the server held %d MB at most before, and %d after that", before, after)
	if after > 400 {
		t.Errorf("the server has taken %d MB", after)
	}
	f.Server.End(syscall.SIGTERM)
}

// TestOneHostSpeaksForItselfOnly: what a host says of an event ends no line of a stream, and so forges no event of
// another host; and a flood of its own costs nobody else's history.
func TestOneHostSpeaksForItselfOnly(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("good", "127.0.0.3", 0)
	p, _ := f.daemon("p")
	f.Want(0, f.Operate(p, 0, second))
	if code, errs := f.Join("evil", "127.0.0.2", f.Token(0)); code != 0 {
		t.Fatal(errs)
	}
	h := f.turn(t, "evil")
	if ack := h.tell(wire.Report{Hello: &wire.Hello{IP: "127.0.0.2", Build: "evil"}}); ack.Error != "" {
		t.Fatal(ack.Error)
	}
	name := process.ID{Namespace: "web", Name: "mine"}
	forged := process.EventKind(
		"exited\ndata: {}\n\nid: 3\nevent: given-up\ndata: {\"cursor\":3,\"host\":{\"id\":\"0:10.0.0.1\"},\"name\":\"db\"}\n\nevent: x")
	long := strings.Repeat("x", 100<<10)
	now := time.Now().UnixMilli()
	ack := h.tell(wire.Report{Events: lines(
		process.Event{Stream: "s", Seq: 1, At: now, Process: name, Kind: forged},
		process.Event{
			Stream: "s", Seq: 2, At: now, Process: name, Kind: process.EventExited, From: "running\n\nid: 9", Output: long,
			Cause: process.Cause{Text: long, Evidence: []string{long, long}},
		},
		process.Event{
			Stream: "s", Seq: 3, At: now, Process: process.ID{Namespace: long, Name: "x"}, Kind: process.EventExited,
		},
	)})
	if ack.Error != "" {
		t.Fatal(ack.Error)
	}
	followed := f.Start("follower", f.Drover, "events", "-f", "-o", "json", "--data-dir", f.ServerDir())
	harness.Eventually(t, "the follower to see the host's own event",
		func() bool { return strings.Contains(followed.Out.String(), `"mine"`) })
	followed.End(syscall.SIGTERM)
	if seen := followed.Out.String(); strings.Contains(seen, "10.0.0.1") || strings.Contains(seen, "given-up") {
		t.Errorf("it has seen\n%s", seen)
	}
	var list []struct {
		Kind, Name, From, Output string
		Host                     struct{ ID string }
	}
	if err := json.Unmarshal([]byte(f.CLI("events", "--hosts", first, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Name != "mine" || list[0].From != "" || len(list[0].Output) > 20<<10 {
		t.Errorf("there are %d events of it: %.300v", len(list), list)
	}
	waits := false
	for seq := uint64(10); seq < 30_000 && !waits; seq += 500 {
		var flood []process.Event
		for i := range uint64(500) {
			flood = append(flood, process.Event{
				Stream: "s", Seq: seq + i, At: now + int64(seq), Process: name,
				Kind: process.EventExited,
			})
		}
		waits = strings.Contains(h.tell(wire.Report{Events: lines(flood...)}).Error, "too many events")
	}
	if !waits {
		t.Error("a host may tell of as many events as it likes")
	}
	if list := f.CLI("events", "--hosts", second, "-o", "json"); !strings.Contains(list, "started") {
		t.Errorf("the history of another host is\n%s", list)
	}
	if err := json.Unmarshal([]byte(f.CLI("events", "--hosts", first, "--limit", "12000", "-o", "json")),
		&list); err != nil {
		t.Fatal(err)
	}
	if len(list) > 11_000 {
		t.Errorf("%d events of one host are kept", len(list))
	}
}
