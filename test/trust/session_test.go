package trust_test

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"drover/internal/frame"
	"drover/internal/pki"
	"drover/internal/server/keyring"
	"drover/internal/server/store/sqlite"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// links returns how often an agent has connected, by whether it has resumed a session.
func (f *fleet) links(name string) (full, resumed int) {
	for line := range strings.Lines(f.Logs[name].String()) {
		if strings.Contains(line, "connected to fabric") {
			if strings.Contains(line, "resumed=true") {
				resumed++
			} else {
				full++
			}
		}
	}
	return full, resumed
}

// TestSessionsOutliveAKilledServer: agents come back without a full handshake.
func TestSessionsOutliveAKilledServer(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	for n := range 2 {
		f.Server.End(syscall.SIGKILL)
		f.StartServer()
		f.Online(first)
		harness.Eventually(t, "the agent to say that it has connected", func() bool { // the server may know it before
			full, resumed := f.links("one")
			return full+resumed > n+1
		})
		if full, resumed := f.links("one"); full != 1 || resumed != n+1 {
			t.Fatalf("after %d deaths of the server: %d full handshakes, %d resumed sessions", n+1, full, resumed)
		}
	}
}

// stolenTicketKeys is the TLS of somebody who has the ticket keys of a server, and a certificate of his own making.
func (f *fleet) stolenTicketKeys() *tls.Config {
	f.T.Helper()
	log := slog.New(slog.DiscardHandler)
	own, err := pki.Open(pki.Config{
		Dir: filepath.Join(f.Dir, "thief"), Names: []string{"127.0.0.1"}, Now: time.Now, Log: log,
	})
	if err != nil {
		f.T.Fatal(err)
	}
	db, err := sqlite.Open(f.T.Context(), filepath.Join(f.ServerDir(), "server", "drover.db"), log)
	if err != nil {
		f.T.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // it was read only
	ring, err := keyring.Open(keyring.Config{Dir: filepath.Join(f.ServerDir(), "server"), Now: time.Now, Log: log})
	if err != nil {
		f.T.Fatal(err)
	}
	keys, err := keyring.OpenTickets(f.T.Context(), keyring.TicketConfig{
		Facts: db, Secrets: func() ([][]byte, error) { return ring.Secrets("keys of session tickets") },
		Revision: func() int { return 0 }, Now: time.Now, Log: log,
	})
	if err != nil {
		f.T.Fatal(err)
	}
	shown := own.ServerTLS()
	keys.Resume(shown)
	return shown
}

// TestAStolenTicketKey: who has the ticket keys of a server, and not its certificate, can pose as the server to an agent
// that has a session. He can read nothing, and nobody believes him. The agent goes back to its server, and does not
// come to him again after the fleet has replaced a key.
func TestAStolenTicketKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("one", "127.0.0.2", 0)
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	before, public := f.enrolment("one"), f.publicKey("one")
	f.Server.End(syscall.SIGKILL)
	stolen := f.stolenTicketKeys()
	pair, err := harness.ServerPair(filepath.Join(f.ServerDir(), "server"), filepath.Join(f.AgentDir("one"), "agent"),
		public, before)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("in his hands", func(t *testing.T) {
		thief := &fleet{&harness.Fleet{T: t, Dir: f.Dir, Logs: f.Logs}}
		conn := thief.impostor(before, stolen)
		heard, err := conn.SubscribeSync(wire.ReportSubject(0, public))
		if err != nil {
			t.Fatal(err)
		}
		thief.besiege(conn, before, p, dir)
		if full, resumed := f.links("one"); full != 1 || resumed != 1 {
			t.Errorf("the agent came to him by %d full handshakes and %d resumed sessions", full-1, resumed)
		}
		messages, _, err := heard.Pending()
		if err != nil || messages == 0 {
			t.Fatalf("he hears nothing: then this test proves nothing: %v", err)
		}
		said := ""
		for range messages {
			m, err := heard.NextMsg(silence)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{dir, "127.0.0.2"} {
				if strings.Contains(string(m.Data), text) {
					t.Errorf("he reads %q on %s", text, m.Subject)
				}
			}
			_, plain, err := pair.Open(frame.Report, m.Data, frame.Nonce{})
			if err != nil {
				t.Error(err)
			}
			said += string(plain)
		}
		if !strings.Contains(said, "127.0.0.2") {
			t.Errorf("the agent has said nothing that he could read: %s", said)
		}
	})
	f.StartServer()
	f.Online(first)
	f.Want(0, f.Operate(p, 2, first))
	f.RotateKey("manifest", 1)
	f.Server.End(syscall.SIGKILL)
	conn := f.impostor(before, stolen)
	harness.Eventually(t, "the agent to refuse him", func() bool {
		return strings.Contains(f.Logs["one"].String(), "cannot trust the server's certificate")
	})
	if _, err := conn.Request(wire.OrderSubject(0, public), nil, time.Second); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("the agent listens: %v", err)
	}
}
