package trust_test

import (
	"encoding/json"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"drover/internal/test/harness"
	"drover/internal/wire"
)

// recorder is somebody on the way of an agent's reports.
type recorder struct {
	t      testing.TB
	agent  string // public key
	fleet  string
	conn   *nats.Conn
	seen   *nats.Subscription
	report string // subject
}

// record has an insider see what an agent of area 0 reports from now on.
func (f *fleet) record(name string) *recorder {
	f.T.Helper()
	r := &recorder{t: f.T, agent: f.publicKey(name), fleet: f.enrolment(name).Fleet, conn: f.insider(f.enrolment(name))}
	r.report = wire.ReportSubject(0, r.agent)
	var err error
	if r.seen, err = r.conn.SubscribeSync(r.report); err != nil {
		f.T.Fatal(err)
	}
	if err := r.conn.Flush(); err != nil {
		f.T.Fatal(err)
	}
	return r
}

// next returns the next report that is as wanted, as it was sent.
func (r *recorder) next(want func(report wire.Report, signed bool) bool) []byte {
	r.t.Helper()
	for {
		m, err := r.seen.NextMsg(harness.Patience)
		if err != nil {
			r.t.Fatal(err)
		}
		data, signed, err := wire.OpenReport(m.Data, r.fleet, r.agent)
		var report wire.Report
		if err == nil && json.Unmarshal(data, &report) == nil && want(report, signed) {
			return m.Data
		}
	}
}

func introduces(report wire.Report, _ bool) bool { return report.Hello != nil }

// send sends a report in the agent's place, and returns what it is answered, whoever has signed that.
func (r *recorder) send(data []byte) (ack wire.ReportAck) {
	r.t.Helper()
	reply, err := r.conn.Request(r.report, data, harness.Patience)
	if err != nil {
		r.t.Fatal(err)
	}
	answer := reply.Data
	if answer[0] != '{' {
		answer = answer[2+int(answer[1])*(56+64):]
	}
	if err := json.Unmarshal(answer, &ack); err != nil {
		r.t.Fatal(err)
	}
	return ack
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
	if ack := r.send(recorded); ack.Error == "" || ack.Session == "" {
		t.Errorf("it was answered with %+v", ack)
	}
	if list := f.CLI("ps"); !strings.Contains(list, p.Name) {
		t.Errorf("there is\n%s", list)
	}
	f.Want(0, f.Operate(p, restart, first))
}

// forge sends a heartbeat that the agent has not made, and returns what it is answered.
func (r *recorder) forge(report wire.Report) wire.ReportAck {
	r.t.Helper()
	report.Version = wire.Version
	data, err := json.Marshal(report)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.send(data)
}

// TestAForgedHeartbeatSaysNothingOfTrust: who makes one up gets no keys for the agent, and does not have anybody
// believe that it has the latest.
func TestAForgedHeartbeatSaysNothingOfTrust(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.JoinAndStart("one", "127.0.0.2", 0)
	f.JoinAndStart("two", "127.0.0.3", 0)
	f.Online(first)
	f.Keyed(2)
	r := f.record("one")
	far := wire.TrustHeld{Generation: math.MaxUint64 - 1, Digest: "of nothing"}
	if ack := r.forge(wire.Report{Trust: &far}); len(ack.Trust) > 0 || ack.Prove == "" {
		t.Errorf("it was answered with %+v", ack)
	}
	harness.Signal(t, one.PID(), syscall.SIGSTOP)
	f.CLI("keys", "rotate", "manifest")
	harness.Eventually(t, "the other one to go by the new keys", func() bool { return f.Keys().Reached == 1 })
	latest := f.enrolment("two").TrustHeld
	r.forge(wire.Report{Trust: &latest})
	if k := f.Keys(); k.Online != 2 || k.Reached != 1 {
		t.Errorf("%d hosts are online, and %d go by the keys, want 2 and 1", k.Online, k.Reached)
	}
	harness.Signal(t, one.PID(), syscall.SIGCONT)
	f.Keyed(2)
}
