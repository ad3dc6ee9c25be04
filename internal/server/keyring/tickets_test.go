package keyring_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/pki/pkitest"
	"drover/internal/server/keyring"
)

// ticketSecret is what the servers of the fleet know.
const ticketSecret = "0123456789abcdef0123456789abcdef"

// ticketed is a server of the fleet, and the revision of its keys.
type ticketed struct {
	*keyring.Tickets
	listener *tls.Config
	revision int
}

func openTickets(t *testing.T, db *facts, listener *tls.Config, secret string) *ticketed {
	t.Helper()
	s := &ticketed{listener: listener.Clone(), revision: 1}
	var err error
	s.Tickets, err = keyring.OpenTickets(t.Context(), keyring.TicketConfig{
		Facts: db, Secrets: func() ([][]byte, error) { return [][]byte{[]byte(secret)}, nil }, Revision: func() int { return s.revision }, Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Resume(s.listener)
	return s
}

// run runs it in a bubble, until the test ends.
func (s *ticketed) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// client is somebody who resumes sessions if he can.
func client() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, ServerName: "x", //nolint:gosec // looks at sessions only
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
}

// latestOnly is a cache that does not replace its session, so that a test offers the same one again.
type latestOnly struct{ tls.ClientSessionCache }

func (latestOnly) Put(string, *tls.ClientSessionState) {}

// frozen keeps the session that a client has.
func frozen(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.ClientSessionCache = latestOnly{c.ClientSessionCache}
	return c
}

// shake connects, and reports whether a session was resumed. It uses the network: in a bubble no time passes meanwhile.
func (s *ticketed) shake(t *testing.T, c *tls.Config) (resumed bool) {
	t.Helper()
	state, err := s.connect(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return state.DidResume
}

func (s *ticketed) connect(t *testing.T, c *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := at.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = tls.Server(conn, s.listener).Write([]byte("x")) // the client tells how it ends
	}()
	conn, err := tls.Dial("tcp", at.Addr().String(), c)
	if err != nil {
		<-served
		return tls.ConnectionState{}, err
	}
	_, err = conn.Read(make([]byte, 1))
	_ = conn.Close()
	<-served
	return conn.ConnectionState(), err
}

// TestASessionOutlivesItsServer: a server that starts again, and another one of the fleet, resume it; who has the
// database alone does not.
func TestASessionOutlivesItsServer(t *testing.T) {
	listener, db := pkitest.New(t, "x").ServerTLS(), &facts{kept: map[string]string{}}
	c := client()
	if openTickets(t, db, listener, ticketSecret).shake(t, c) {
		t.Fatal("a session is resumed that nobody has made")
	}
	if !openTickets(t, db, listener, ticketSecret).shake(t, c) {
		t.Error("the session has not outlived its server")
	}
	if text := db.kept["tickets"]; text == "" || strings.Contains(text, "{") {
		t.Errorf("the database has %q", text)
	}
	thief := &facts{kept: maps.Clone(db.kept)}
	if openTickets(t, thief, listener, strings.Repeat("x", 32)).shake(t, c) {
		t.Error("a copy of the database is enough to resume a session")
	}
}

// TestATicketKeyIsGoneAfterThreeDays: it makes tickets for one day, resumes sessions for two more, and is then neither
// used nor stored.
func TestATicketKeyIsGoneAfterThreeDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &facts{kept: map[string]string{}}
		s := openTickets(t, db, pkitest.New(t, "x").ServerTLS(), ticketSecret)
		s.run(t)
		c := client()
		s.shake(t, c)
		first := stored(t, db)
		for _, step := range []struct {
			wait    time.Duration
			keys    int
			resumed bool
		}{
			{23 * time.Hour, 1, true},
			{2 * time.Hour, 2, true},
			{24 * time.Hour, 3, true},
			{22 * time.Hour, 3, true},
			{2 * time.Hour, 3, false},
			{30 * 24 * time.Hour, 3, false},
		} {
			time.Sleep(step.wait)
			synctest.Wait()
			keys := stored(t, db)
			if len(keys) != step.keys || strings.Contains(strings.Join(keys, " "), first[0]) != step.resumed {
				t.Errorf("after %s more there are %d keys, the first was %q: %q", step.wait, len(keys), first, keys)
			}
			if s.shake(t, frozen(c)) != step.resumed {
				t.Errorf("after %s more it is wrong that a session is resumed: %v", step.wait, !step.resumed)
			}
		}
	})
}

// stored returns the keys in the database.
func stored(t *testing.T, db *facts) (keys []string) {
	t.Helper()
	db.mu.Lock()
	text := db.kept["tickets"]
	db.mu.Unlock()
	block, err := aes.NewCipher([]byte(ticketSecret))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := aead.Open(nil, nil, sealed, []byte("tickets"))
	if err != nil {
		t.Fatal(err)
	}
	var kept struct {
		Keys []struct{ Key json.RawMessage }
	}
	if err := json.Unmarshal(plain, &kept); err != nil {
		t.Fatal(err)
	}
	for _, k := range kept.Keys {
		keys = append(keys, string(k.Key))
	}
	return keys
}

// TestAChangeOfTheKeysEndsAllSessions: on all servers, and with a server that does not know of the change yet, too.
func TestAChangeOfTheKeysEndsAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener, db := pkitest.New(t, "x").ServerTLS(), &facts{kept: map[string]string{}}
		one, two := openTickets(t, db, listener, ticketSecret), openTickets(t, db, listener, ticketSecret)
		one.run(t)
		two.run(t)
		c := client()
		one.shake(t, c)
		one.revision = 2
		one.Changed()
		synctest.Wait() // no time passes
		if one.shake(t, frozen(c)) {
			t.Error("the server resumes a session of before")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if two.shake(t, frozen(c)) {
			t.Error("another server resumes a session of before")
		}
		two.shake(t, c)
		if !one.shake(t, frozen(c)) {
			t.Error("the servers do not share the new keys")
		}
	})
}

// TestTicketKeysWithoutTheDatabase: a server goes on with its keys, and does not keep one for longer.
func TestTicketKeysWithoutTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &facts{kept: map[string]string{}}
		s := openTickets(t, db, pkitest.New(t, "x").ServerTLS(), ticketSecret)
		s.run(t)
		c := client()
		s.shake(t, c)
		db.mu.Lock()
		db.err = errors.New("on fire")
		db.mu.Unlock()
		time.Sleep(24*time.Hour + time.Minute)
		synctest.Wait()
		if !s.shake(t, frozen(c)) {
			t.Error("the session ended with the database")
		}
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if s.shake(t, frozen(c)) {
			t.Error("the key is still in use")
		}
	})
}

// TestTwoServersMakeATicketKeyAtOnce: the one that is late uses the key of the other one.
func TestTwoServersMakeATicketKeyAtOnce(t *testing.T) {
	listener, db := pkitest.New(t, "x").ServerTLS(), &facts{kept: map[string]string{}}
	other := &facts{kept: map[string]string{}}
	c := client()
	openTickets(t, other, listener, ticketSecret).shake(t, c)
	db.between = func() { db.kept, db.between = other.kept, nil }
	if !openTickets(t, db, listener, ticketSecret).shake(t, c) {
		t.Error("it uses a key of its own")
	}
}

// TestSessionsNeedTLS13: an older client connects no more, because a thief of the keys could read what it says.
func TestSessionsNeedTLS13(t *testing.T) {
	s := openTickets(t, &facts{kept: map[string]string{}}, pkitest.New(t, "x").ServerTLS(), ticketSecret)
	c := client()
	c.MaxVersion = tls.VersionTLS12
	if _, err := s.connect(t, c); err == nil {
		t.Error("a client without TLS 1.3 is let in")
	}
	if _, err := s.connect(t, client()); err != nil {
		t.Errorf("a client with TLS 1.3 is not let in: %v", err)
	}
}
