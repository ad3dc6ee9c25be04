package trust_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"drover/internal/frame"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// public is the name of the proxy.
func (e *evilProxy) public() string {
	e.f.T.Helper()
	public, err := e.key.PublicKey()
	if err != nil {
		e.f.T.Fatal(err)
	}
	return public
}

// pair is the proxy's side of its pair with the fleet.
func (e *evilProxy) pair() *frame.Pair {
	e.f.T.Helper()
	pair, err := harness.AgentPair(filepath.Join(e.f.AgentDir("evil"), "proxy"), e.public(),
		wire.Enrolment{Fleet: e.enrolment.Fleet, SealingKeys: e.enrolment.SealingKeys})
	if err != nil {
		e.f.T.Fatal(err)
	}
	return pair
}

// beat is a heartbeat that the proxy has sealed, with the nonce that its answer is about.
func (e *evilProxy) beat(pair *frame.Pair, at time.Time) (data []byte, nonce frame.Nonce) {
	e.f.T.Helper()
	text, err := json.Marshal(wire.Beat{Version: wire.Version, Build: "evil", Agents: 7})
	if err != nil {
		e.f.T.Fatal(err)
	}
	data, nonce, err = pair.Seal(frame.Beat, at, frame.Nonce{}, text)
	if err != nil {
		e.f.T.Fatal(err)
	}
	return data, nonce
}

// online reports whether the servers believe that the proxy is online.
func (e *evilProxy) online() bool {
	e.f.T.Helper()
	list := e.f.CLI("proxies", "list")
	if !strings.Contains(list, "evil") {
		e.f.T.Fatalf("the proxy is not in the register:\n%s", list)
	}
	return strings.Contains(list, "online")
}

// answered sends a message to the servers as the proxy may, and reports whether a frame came back.
func (e *evilProxy) answered(conn *nats.Conn, subject string, data []byte) bool {
	e.f.T.Helper()
	reply, err := conn.Request(subject, data, silence)
	if err != nil {
		return false
	}
	_, err = frame.Read(reply.Data)
	return err == nil && !errors.As(err, new(*frame.HintError))
}

// TestTheNameOfAProxyIsNotEnough: whoever has a proxy's credentials for the fabric, or is between it and the servers,
// does not have its sealing key. Nothing that such a thief sends is answered, and the proxy does not seem to be online.
func TestTheNameOfAProxyIsNotEnough(t *testing.T) {
	t.Parallel()
	e := takeOver(t)
	conn, public := e.reach(), e.public()
	pair := e.pair()
	beat, nonce := e.beat(pair, time.Time{})
	reply, err := conn.Request(wire.ProxyBeatSubject(area, public), beat, harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	head, _, err := pair.Open(frame.Digest, reply.Data, nonce)
	if err != nil || head.Time.IsZero() {
		t.Fatalf("the proxy itself is answered %+v, %v: then this proves nothing", head, err)
	}
	forged := append(bytes.Clone(beat[:38]), `{"version":1,"agents":7}`...)
	forged = append(forged, make([]byte, 16)...)
	dated := bytes.Clone(beat)
	binary.BigEndian.PutUint64(dated[6:], uint64(head.Time.UnixMilli())) //nolint:gosec // not below 0
	for name, data := range map[string][]byte{
		"nothing": nil, "in the clear": []byte(`{"version":1,"agents":7}`), "with a seal of zeros": forged,
		"with another time": dated,
	} {
		for _, subject := range []string{
			wire.ProxyBeatSubject(area, public), wire.ProxyRefreshSubject(area, public),
			wire.ProxyJoinSubject(area, public),
		} {
			if e.answered(conn, subject, bytes.Clone(data)) {
				t.Errorf("%s: %s is answered", subject, name)
			}
		}
	}
	if e.online() {
		t.Error("the proxy seems to be online")
	}
	recent, _ := e.beat(pair, time.Now()) // with the key
	if !e.answered(conn, wire.ProxyBeatSubject(area, public), bytes.Clone(recent)) || !e.online() {
		t.Fatal("a beat of the proxy does not show that it is online: then this proves nothing")
	}
	harness.Eventually(t, "the proxy to be away, however often its last beat is sent again", func() bool {
		e.answered(conn, wire.ProxyBeatSubject(area, public), bytes.Clone(recent))
		e.answered(conn, wire.ProxyBeatSubject(area, public), bytes.Clone(beat))
		return !e.online()
	})
}

// TestTheKeysOfAProxyAreNoAgents: whoever has all keys of a proxy speaks for the proxy, and for no host: neither by the
// name of a host, nor as a host with the proxy's name.
func TestTheKeysOfAProxyAreNoAgents(t *testing.T) {
	t.Parallel()
	e := takeOver(t)
	f, pair := e.f, e.pair()
	conn, public := e.reach(), e.public()
	agent := f.publicKey("one")
	report := func() []byte {
		text, err := json.Marshal(wire.Report{
			Version: wire.Version, Session: "s", Number: 1, Hello: &wire.Hello{Cloud: area, IP: "127.0.0.66", Build: "evil"},
		})
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := pair.Seal(frame.Report, time.Now(), frame.Nonce{}, text)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if e.answered(conn, wire.ReportSubject(area, public), report()) {
		t.Error("a report by the name of the proxy is answered")
	}
	named := report()
	own, err := harness.AgentPair(filepath.Join(f.AgentDir("one"), "agent"), agent, f.enrolment("one"))
	if err != nil {
		t.Fatal(err)
	}
	id := own.ID()
	copy(named[2:], id[:])
	for name, data := range map[string][]byte{
		"with the keys of the proxy": report(), "that names the host's keys": named,
	} {
		if reply, err := e.ask(wire.ReportSubject(area, agent), data, silence); err == nil {
			if _, err := frame.Read(reply); !errors.As(err, new(*frame.HintError)) {
				t.Errorf("a report %s is answered %q", name, reply)
			}
		}
	}
	// Kinds of agents do not pass for those of proxies, and the other way round.
	for _, subject := range []string{wire.ProxyBeatSubject(area, public), wire.ProxyRefreshSubject(area, public)} {
		if e.answered(conn, subject, report()) {
			t.Errorf("%s: a report is answered", subject)
		}
	}
	if list := f.CLI("agents"); strings.Contains(list, "127.0.0.66") || strings.Contains(list, public) {
		t.Errorf("the proxy has made a host:\n%s", list)
	}
	beat, _ := e.beat(pair, time.Now())
	if !e.answered(conn, wire.ProxyBeatSubject(area, public), beat) {
		t.Error("a beat of the proxy is not answered: then this proves nothing")
	}
}
