package trust_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"drover/internal/fabric"
	"drover/internal/fabric/fabrictest"
	"drover/internal/frame"
	"drover/internal/pki"
	"drover/internal/release"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// TestAProxyThatReadsAltersAndRepeats: whoever has a proxy reads no message. What it alters or gives as the answer to
// another question counts as lost, and what it repeats counts once.
func TestAProxyThatReadsAltersAndRepeats(t *testing.T) {
	t.Parallel()
	e := takeOver(t)
	f := e.f
	p, dir := f.daemon("payroll")
	var mu sync.Mutex
	kinds := map[frame.Kind]int{}
	e.alters = func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		for _, text := range []string{dir, p.Name, "127.0.0.2"} {
			if bytes.Contains(m.Data, []byte(text)) {
				t.Errorf("the proxy reads %q on %s", text, m.Subject)
			}
		}
		if h, err := frame.Read(m.Data); err == nil {
			kinds[h.Kind]++
		}
	}
	e.pose()
	f.StartAgent("one")
	f.Online(behind)
	f.Want(0, f.Operate(p, 0, behind))
	starts := 1
	mu.Lock()
	for _, kind := range []frame.Kind{frame.Orders, frame.Receipt, frame.Report, frame.Ack} {
		if kinds[kind] == 0 {
			t.Errorf("the proxy hears no %s: then this proves nothing", kind)
		}
	}
	mu.Unlock()

	before := func(data, former []byte) []byte {
		if former == nil {
			return data
		}
		return former
	}
	for _, c := range []struct {
		what   string
		kind   frame.Kind
		change func(data, former []byte) []byte
	}{
		{"the time", frame.Orders, func(data, _ []byte) []byte { data[13]++; return data }},
		{"the body", frame.Receipt, func(data, _ []byte) []byte { data[len(data)-1]++; return data }},
		{"the kind", frame.Report, func(data, _ []byte) []byte { data[1]++; return data }},
		{"the nonce", frame.Ack, func(data, _ []byte) []byte { data[20]++; return data }},
		{"the length", frame.Orders, func(data, _ []byte) []byte { return data[:len(data)-1] }},
		{"all", frame.Report, before},
		{"all", frame.Ack, before},
	} {
		var former []byte
		altered := 0
		e.acts(func() {
			e.alters = func(m *nats.Msg) {
				mu.Lock()
				defer mu.Unlock()
				h, err := frame.Read(m.Data)
				if err != nil || h.Kind != c.kind || altered > 0 {
					return
				}
				own := bytes.Clone(m.Data)
				if m.Data = c.change(m.Data, former); !bytes.Equal(own, m.Data) {
					altered++
				}
				former = own
			}
		})
		r := f.Operate(p, restart, behind)[behind]
		if r.Code == 0 {
			starts++
		}
		if n := harness.Starts(t, dir); n != starts {
			t.Fatalf("%s of %s: %d started, %d told: %+v", c.what, c.kind, n, starts, r)
		}
		t.Logf("%s of %s was altered %d times: %d %s", c.what, c.kind, altered, r.Code, r.Msg)
	}
	e.acts(func() { e.alters, e.twice = nil, true })
	f.Want(0, f.Operate(p, restart, behind))
	e.acts(func() { e.twice = false })
	f.Online(behind)
	if n := harness.Starts(t, dir); n != starts+1 {
		t.Errorf("the process was started %d times, want %d", n, starts+1)
	}
}

// TestAProxyBeyondItsArea: whoever has a proxy of one area does not have hosts of another seem to be connected, and does
// not end the connection of another proxy.
func TestAProxyBeyondItsArea(t *testing.T) {
	t.Parallel()
	e := takeOver(t)
	f := e.f
	agent := f.JoinAndStart("beyond", "127.0.0.3", 0)
	public := f.publicKey("beyond")
	trust, err := pki.Trusting(e.enrolment.CA)
	if err != nil {
		t.Fatal(err)
	}
	id := fabric.Identity{JWT: e.enrolment.JWT, Key: e.key}
	leaf := func(name string) *fabrictest.Leaf {
		return fabrictest.DialLeaf(t, e.enrolment.Hubs[0], trust, id, name, e.enrolment.Fleet)
	}
	plain := leaf("evil")
	plain.Say("LS+ " + wire.PingSubject(0, public))
	select {
	case <-plain.Ended():
	case <-time.After(harness.Patience):
		t.Error("the proxy may listen for an agent of another area")
	}
	wide := leaf("evil")
	wide.Say("LS+ drover.v1.*.agent.*.ping")
	wide.Say("LS+ drover.v1.*.server.*.reports servers 1000000")
	f.Want(0, f.Operate(f.spare(second), 0, second)) // its reports reach the server
	agent.Kill()
	harness.Eventually(t, "the server to notice the subscription", func() bool {
		return strings.Contains(f.Logs["server"].String(), "somebody listens to the subjects of all agents")
	})
	f.Away(second)
}

// spare is a process of another host.
func (f *fleet) spare(host string) *harness.Process {
	f.T.Helper()
	p, _ := f.daemon("spare")
	p.Host = host
	return p
}

// TestAProxyThatForgesPackages: whoever has a proxy answers its hosts' questions about versions of the agent, and they
// take nothing that their owner has not signed.
func TestAProxyThatForgesPackages(t *testing.T) {
	t.Parallel()
	e := takeOver(t)
	f := e.f
	must := func(args ...string) string {
		code, out, errs := f.Run("owner", "", f.Drover, args...)
		if code != 0 {
			t.Fatalf("drover %q: exit code %d: %s", args, code, errs)
		}
		return strings.TrimSpace(out)
	}
	key, program := filepath.Join(f.Dir, "release.key"), filepath.Join(f.Dir, "program")
	public := must("packages", "keygen", key)
	text, err := os.ReadFile(f.Agent)
	if err == nil {
		err = os.WriteFile(program, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	must("packages", "sign", program, "--key", key, "--version", "9.9.9")
	f.CLI("packages", "add", program)

	_, evil, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	forged := []byte("#!/bin/sh\nid > " + f.Dir + "/taken\n")
	signed, err := release.Seal(release.Describe("9.9.9", runtime.GOARCH, 1, forged), evil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	e.pose()
	var asked atomic.Int64
	honest := func(question []byte) []byte {
		reply, err := e.conns.servers.Request(wire.ProxyPackagesSubject(area, e.public()), question, harness.Patience)
		if err != nil {
			return wire.PackageBusy()
		}
		return reply.Data
	}
	agent := f.StartAgent("one", "--release-keys", public, "--trial-time", "1m")
	f.Online(behind)
	pid := agent.PID()
	for name, gives := range map[string]func(q wire.PackageQuestion, question []byte) []byte{
		"text and pieces": func(q wire.PackageQuestion, _ []byte) []byte {
			if q.Piece == nil {
				return wire.PackageData(signed)
			}
			return wire.PackageData(forged)
		},
		"pieces": func(q wire.PackageQuestion, question []byte) []byte {
			if q.Piece == nil {
				return honest(question)
			}
			return wire.PackageData(forged)
		},
	} {
		asked.Store(0)
		e.acts(func() {
			e.gives = func(question []byte) []byte {
				asked.Add(1)
				var q wire.PackageQuestion
				if err := json.Unmarshal(question, &q); err != nil {
					t.Errorf("the host asks %q", question)
				}
				return gives(q, question)
			}
		})
		id := strings.TrimSpace(f.CLI("agents", "upgrade", behind, "--to", "9.9.9", "--no-wait"))
		status := ""
		harness.Eventually(t, "the end of the upgrade", func() bool {
			status = f.CLI("rollout", "status", id)
			return strings.Contains(status, " failed ") || strings.Contains(status, " ok ")
		})
		if !strings.Contains(status, " failed ") || asked.Load() == 0 {
			t.Errorf("with forged %s, after %d questions, the upgrade is\n%s", name, asked.Load(), status)
		}
	}
	if _, err := os.Stat(filepath.Join(f.Dir, "taken")); err == nil {
		t.Error("the host has run what its owner has not signed")
	}
	if agent.Ended() || agent.PID() != pid {
		t.Error("the agent has ended")
	}
	if list := f.CLI("agents"); strings.Contains(list, "9.9.9") {
		t.Errorf("the hosts are\n%s", list)
	}
}
