package browser_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"drover/internal/agent"
	"drover/internal/agent/admission"
	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// liar is a program that has joined as an agent, and reports what it likes.
type liar struct {
	t         testing.TB
	key       nkeys.KeyPair
	enrolment wire.Enrolment
	public    string
	pair      *frame.Pair
	conn      *nats.Conn
	session   string
	events    uint64

	mu          sync.Mutex
	reports     int64
	incarnation string // of the database, as the server has named it
	// answered are the times after which the server has answered reports.
	answered []time.Duration
}

// newLiar joins a fleet as the host with an address.
func newLiar(f *harness.Fleet, ip string) *liar {
	f.T.Helper()
	l := &liar{t: f.T, session: fmt.Sprintf("s%d", time.Now().UnixNano())}
	dir := filepath.Join(f.Dir, "liar-"+ip)
	var err error
	l.enrolment, err = admission.Join(f.T.Context(), admission.Config{
		Dir: dir, Server: f.URL, Token: f.Token(0), IP: ip, Build: "liar",
	})
	l.must(err)
	l.key, err = agent.OwnKey(dir)
	l.must(err)
	l.public, err = l.key.PublicKey()
	l.must(err)
	l.pair, err = harness.AgentPair(dir, l.public, l.enrolment)
	l.must(err)
	l.conn, err = nats.Connect(l.enrolment.URLs[0], nats.TLSHandshakeFirst(), nats.NoReconnect(),
		nats.Timeout(harness.Patience),
		nats.Secure(&tls.Config{InsecureSkipVerify: true}), //nolint:gosec // it has nothing to lose
		nats.CustomInboxPrefix(fabric.InboxPrefix(strconv.Itoa(l.enrolment.Cloud), l.public)),
		nats.UserJWT(func() (string, error) { return l.enrolment.JWT, nil }, l.key.Sign))
	l.must(err)
	f.T.Cleanup(l.conn.Close)
	_, err = l.conn.SubscribeSync(wire.PingSubject(l.enrolment.Cloud, l.public)) // a host that listens for none is away
	l.must(err)
	return l
}

func (l *liar) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// next encodes the next report.
func (l *liar) next(r wire.Report) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports++
	r.Version, r.Session, r.Number, r.At = wire.Version, l.session, l.reports, time.Now().UnixMilli()
	r.Incarnation, r.Whole = l.incarnation, r.Hello == nil
	return wire.EncodeReport(r, r.Events)
}

// stay has the server hear of the host until the test ends, as it hears of an agent that is there.
func (l *liar) stay() {
	l.t.Helper()
	go func() {
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-l.t.Context().Done():
				return
			}
			report, err := l.next(wire.Report{})
			if err == nil {
				report, _, err = l.pair.Seal(frame.Report, time.Now(), frame.Nonce{}, report)
			}
			if err == nil {
				// The last one meets the end of the server.
				_ = l.conn.Publish(wire.ReportSubject(l.enrolment.Cloud, l.public), report)
			}
		}
	}()
}

// tell sends a report, and waits for the server's answer.
func (l *liar) tell(r wire.Report) wire.ReportAck {
	l.t.Helper()
	report, err := l.next(r)
	l.must(err)
	data, nonce, err := l.pair.Seal(frame.Report, time.Now(), frame.Nonce{}, report)
	l.must(err)
	answer, err := l.conn.Request(wire.ReportSubject(l.enrolment.Cloud, l.public), data, harness.Patience)
	l.must(err)
	_, opened, err := l.pair.Open(frame.Ack, answer.Data, nonce)
	l.must(err)
	var ack wire.ReportAck
	l.must(json.Unmarshal(opened, &ack))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.incarnation = ack.Incarnation
	return ack
}

// event is an event as an agent encodes it.
func (l *liar) event(id process.ID, kind process.EventKind, text string) []byte {
	l.t.Helper()
	l.events++
	line, err := json.Marshal(process.Event{
		Stream: l.session, Seq: l.events, At: time.Now().UnixMilli(), Process: id, Kind: kind, Output: text,
		From: process.StateRunning, To: process.StateGivenUp,
		Cause: process.Cause{ID: process.CauseExitStatus, Text: text, Evidence: []string{text}},
		Actor: process.Actor{User: text},
	})
	l.must(err)
	return line
}

// introduction is the first report of a session.
func introduction(l *liar) wire.Report {
	return wire.Report{Hello: &wire.Hello{
		Cloud: l.enrolment.Cloud, IP: l.enrolment.IP, Build: "1.2.3", BootID: "boot", Started: time.Now().Unix(),
		Host: wire.Host{OS: "linux", Arch: "x86_64", CPUs: 4, Memory: 8 << 30, Distribution: "debian", Version: "12"},
	}}
}

// observation is what an agent says of a process that it knows.
func observation(namespace, name string, number int, s process.Status) wire.Observation {
	s.Known, s.Hosted, s.Revision, s.ReportedAt = true, true, uint64(number+1), time.Now().Unix()
	if s.Instance.PID == 0 {
		s.Instance.PID = -1
	}
	return wire.Observation{Process: process.ID{Namespace: namespace, Name: name}, Status: s}
}
