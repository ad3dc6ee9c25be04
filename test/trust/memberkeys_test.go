package trust_test

import (
	"crypto/ecdh"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/frame"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// ownKeys are the private sealing keys of an agent, the newest first.
func (f *fleet) ownKeys(name string) []*ecdh.PrivateKey {
	f.T.Helper()
	return harness.SealingKeys(f.T, filepath.Join(f.AgentDir(name), "agent"))
}

// pairWith is an agent's side of its pair with a key of the fleet.
func pairWith(t *testing.T, agent string, key *ecdh.PrivateKey, fleet, public string) *frame.Pair {
	t.Helper()
	of, err := frame.PublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := frame.AtMember(agent, key, fleet, of)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// opened counts the messages of the servers that a thief of a key opens.
func opened(t *testing.T, heard *tap, pairs ...*frame.Pair) (n int) {
	t.Helper()
	for _, m := range heard.all("") {
		h, err := frame.Read(m.Data)
		if err != nil || h.Kind != frame.Orders {
			continue
		}
		for _, pair := range pairs {
			if _, _, err := pair.Open(frame.Orders, m.Data, frame.Nonce{}); err == nil {
				n++
			}
		}
	}
	return n
}

// TestAnOldKeyOfAHost: the fleet replaces its sealing key, and each host its own. Whoever has stolen the former key of a
// host reads nothing that was sent later. He cannot replace the key, and speaks for nobody once the fleet's former key is
// dropped.
func TestAnOldKeyOfAHost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	p, dir := f.daemon("p")
	before, public := f.enrolment("one"), f.publicKey("one")
	stolen := f.ownKeys("one")[0]
	first1 := before.SealingKeys[0]
	heard := newTap(t, f.insider(before))
	f.Want(0, f.Operate(p, 0, first))
	if opened(t, heard, pairWith(t, public, stolen, before.Fleet, first1)) == 0 {
		t.Fatal("the thief opens nothing that was sealed with his key: then this proves nothing")
	}
	f.RotateKey("sealing", 1)
	f.Want(0, f.Operate(p, restart, first)) // the agent may have taken its new key into use only now
	harness.Eventually(t, "the agent to use another key", func() bool {
		keys := f.ownKeys("one")
		return len(keys) == 2 && !keys[0].Equal(stolen) && keys[1].Equal(stolen)
	})
	now := f.enrolment("one").SealingKeys[0]
	pairs := []*frame.Pair{
		pairWith(t, public, stolen, before.Fleet, first1), pairWith(t, public, stolen, before.Fleet, now),
	}
	// The agent announces its key with its next report.
	harness.Eventually(t, "orders that the thief cannot open", func() bool {
		count := opened(t, heard, pairs...)
		f.Want(0, f.Operate(p, restart, first))
		return opened(t, heard, pairs...) == count
	})
	if newest := f.ownKeys("one")[0]; opened(t, heard, pairWith(t, public, newest, before.Fleet, now)) == 0 {
		t.Error("nothing is sealed with the agent's new key")
	}

	var ack wire.ReportAck // the last one
	speak := func(r wire.Report) []byte {
		t.Helper()
		r.Version, r.Incarnation = wire.Version, ack.Incarnation
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		data, nonce, err := pairs[1].Seal(frame.Report, time.Now(), frame.Nonce{}, text)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := heard.conn.Request(wire.ReportSubject(0, public), data, harness.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if _, answer, err := pairs[1].Open(frame.Ack, reply.Data, nonce); err == nil {
			if err := json.Unmarshal(answer, &ack); err != nil {
				t.Fatal(err)
			}
		}
		return reply.Data
	}
	own, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	theirsPublic, err := theirs.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	forged, err := wire.SignSealing(wire.SealingChange{Key: theirsPublic, Since: now, At: time.Now()}, before.Fleet, own)
	if err != nil {
		t.Fatal(err)
	}
	speak(wire.Report{}) // a report counts if it names the incarnation of the database
	if _, err := frame.Read(speak(wire.Report{Sealing: forged})); err != nil {
		t.Errorf("the former key counts no more before the fleet's is dropped: %v", err)
	}
	starts := harness.Starts(t, dir)
	f.Want(0, f.Operate(p, restart, first))
	f.CLI("keys", "drop", "sealing", f.key("sealing", "former"))
	f.Keyed(1)
	hinted(t, "a report with the former key", speak(wire.Report{}), "does not have the keys of the message")
	f.Want(0, f.Operate(p, restart, first))
	if n := harness.Starts(t, dir); n != starts+2 {
		t.Errorf("the process was started %d times, want %d", n, starts+2)
	}
	harness.Eventually(t, "the agent to drop its former key", func() bool { return len(f.ownKeys("one")) == 1 })
	if log := f.Logs["server"].String(); !strings.Contains(log, "cannot take new sealing key of an agent") {
		t.Error("the server does not log that somebody tried to replace the key of a host")
	}
}

// TestCopiesOfBeforeAChangeOfKeys: a database and a host that are restored from copies of before a change of the sealing
// keys come back by themselves, and the host makes another key.
func TestCopiesOfBeforeAChangeOfKeys(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	agent := f.JoinAndStart("one", "127.0.0.2", 0)
	p, _ := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	database := filepath.Join(f.ServerDir(), "server", "drover.db")
	files := []string{
		filepath.Join(f.AgentDir("one"), "agent", "sealing.nkey"),
		filepath.Join(f.AgentDir("one"), "agent", "enrolment.json"),
	}
	f.Server.End(syscall.SIGTERM)
	copied := map[string][]byte{}
	for _, path := range append(files, database) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		copied[path] = data
	}
	restore := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			if err := os.WriteFile(path, copied[path], 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.StartServer()
	f.Online(first)
	changed := func(than *ecdh.PrivateKey) {
		t.Helper()
		harness.Eventually(t, "the host to use another key", func() bool {
			keys := f.ownKeys("one")
			return len(keys) == 2 && !keys[0].Equal(than)
		})
		f.Want(0, f.Operate(p, restart, first))
	}
	original := f.ownKeys("one")[0]
	f.RotateKey("sealing", 1)
	changed(original)
	second1 := f.ownKeys("one")[0]

	f.Server.End(syscall.SIGTERM)
	restore(database)
	f.StartServer()
	f.Online(first)
	f.Want(0, f.Operate(p, restart, first))
	if keys := f.ownKeys("one"); !keys[0].Equal(second1) {
		t.Error("the host has made another key for a database of before")
	}

	agent.End(syscall.SIGKILL)
	restore(files...)
	f.StartAgent("one")
	f.Online(first)
	harness.Eventually(t, "the restored host to take orders", func() bool { return f.Operate(p, restart, first)[first].Code == 0 })
	changed(original)
	if keys := f.ownKeys("one"); keys[0].Equal(second1) {
		t.Error("the host has a key that it has lost")
	}
}
