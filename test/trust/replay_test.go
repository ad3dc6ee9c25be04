package trust_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"drover/internal/frame"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// recorder is somebody on the way of an agent's reports.
type recorder struct {
	t     testing.TB
	agent string // public key
	// at opens what the agent seals, as only a server can.
	at     *frame.Pair
	conn   *nats.Conn
	seen   *nats.Subscription
	report string // subject
}

// record has an insider see what an agent of area 0 reports from now on.
func (f *fleet) record(name string) *recorder {
	f.T.Helper()
	e := f.enrolment(name)
	r := &recorder{t: f.T, agent: f.publicKey(name), conn: f.insider(e)}
	r.report = wire.ReportSubject(0, r.agent)
	var err error
	if r.at, err = harness.ServerPair(filepath.Join(f.ServerDir(), "server"), filepath.Join(f.AgentDir(name), "agent"),
		r.agent, e); err != nil {
		f.T.Fatal(err)
	}
	if r.seen, err = r.conn.SubscribeSync(r.report); err != nil {
		f.T.Fatal(err)
	}
	if err := r.conn.Flush(); err != nil {
		f.T.Fatal(err)
	}
	return r
}

// next returns the next report that is as wanted, as it was sent.
func (r *recorder) next(want func(report wire.Report) bool) []byte {
	r.t.Helper()
	for {
		m, err := r.seen.NextMsg(harness.Patience)
		if err != nil {
			r.t.Fatal(err)
		}
		_, data, err := r.at.Open(frame.Report, bytes.Clone(m.Data), frame.Nonce{})
		if err != nil {
			r.t.Fatalf("what the agent says: %v", err)
		}
		report, err := wire.ReadReport(data)
		if err == nil && want(*report) {
			return m.Data
		}
	}
}

func introduces(report wire.Report) bool { return report.Hello != nil }

// send sends a report in the agent's place. The answer is sealed for the agent: silence shows that there is none.
func (r *recorder) send(data []byte) (answered bool) {
	r.t.Helper()
	_, err := r.conn.Request(r.report, data, silence)
	if err != nil && !errors.Is(err, nats.ErrTimeout) {
		r.t.Fatal(err)
	}
	return err == nil
}

// TestARecordedIntroductionIsWorthNothing: an agent's introduction of before does not take the place of what it has
// said since, and the agent goes on.
func TestARecordedIntroductionIsWorthNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0).End(syscall.SIGTERM)
	r := f.record("one")
	before := f.StartAgent("one")
	recorded := r.next(introduces)
	before.End(syscall.SIGTERM)
	f.StartAgent("one")
	r.next(introduces)
	f.Online(first)
	p, _ := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	if err := r.seen.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	r.send(recorded)
	if list := f.CLI("ps"); !strings.Contains(list, p.Name) {
		t.Errorf("there is\n%s", list)
	}
	f.Want(0, f.Operate(p, restart, first))
}

// TestAForgedHeartbeatSaysNothingOfTrust: who makes one up gets no answer, and does not have anybody believe that the
// agent is there or has the latest keys.
func TestAForgedHeartbeatSaysNothingOfTrust(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.JoinAndStart("one", "127.0.0.2", 0)
	f.JoinAndStart("two", "127.0.0.3", 0)
	f.Online(first)
	f.Keyed(2)
	r := f.record("one")
	recorded := r.next(func(report wire.Report) bool { return report.Hello == nil && report.Trust != nil })
	harness.Signal(t, one.PID(), syscall.SIGSTOP)
	f.CLI("keys", "rotate", "manifest")
	harness.Eventually(t, "the other one to go by the new keys", func() bool { return f.Keys().Reached == 1 })
	latest := f.enrolment("two").TrustHeld
	forged, err := json.Marshal(wire.Report{Version: wire.Version, Trust: &latest})
	if err != nil {
		t.Fatal(err)
	}
	if r.send(forged) {
		t.Error("what is not sealed was answered")
	}
	if r.send(append(recorded[:38:38], forged...)) {
		t.Error("a forgery was answered")
	}
	harness.Eventually(t, "the host to be away, whatever is said in its place", func() bool {
		r.send(recorded)
		return f.Keys().Online == 1
	})
	if k := f.Keys(); k.Reached != 1 {
		t.Errorf("%d hosts go by the keys, want 1", k.Reached)
	}
	harness.Signal(t, one.PID(), syscall.SIGCONT)
	f.Keyed(2)
}
