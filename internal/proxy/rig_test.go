package proxy

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/fabric/fabrictest"
	"drover/internal/frame"
	"drover/internal/pki"
	"drover/internal/pki/pkitest"
	"drover/internal/wire"
)

// authority is what a server has to make a proxy with.
type authority struct {
	manager *pki.Manager
	broker  *broker.Broker
	// fleet is the name of the fleet, key its sealing key, and public the public half of that.
	fleet  string
	key    *ecdh.PrivateKey
	public string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0",
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Shutdown)
	sealing, public := fabrictest.NewSealingKey(t)
	key, err := frame.PrivateKey(sealing)
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := account.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return &authority{manager: pkitest.New(t), broker: b, fleet: fleet, key: key, public: public}
}

// pair is the servers' side of the pair with a proxy.
func (a *authority) pair(t *testing.T, id identity) *frame.Pair {
	t.Helper()
	text, _, _ := id.sealing.Newest()
	public, err := frame.PublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := frame.AtFleet(a.fleet, a.key, id.public, public)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// enrolment is what it gives a proxy.
func (a *authority) enrolment(t *testing.T, id identity, area int) wire.ProxyEnrolment {
	t.Helper()
	jwt, err := a.broker.IssueProxy(id.public, area)
	if err != nil {
		t.Fatal(err)
	}
	account, err := a.broker.Account()
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.RequestCertificate(id.tls)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.manager.CertifyProxy(request, area, id.public)
	if err != nil {
		t.Fatal(err)
	}
	return wire.ProxyEnrolment{
		Area: area, Name: "one", JWT: jwt, Hubs: []string{"192.0.2.1:7352"}, CA: a.manager.CA(),
		Fleet: a.fleet, SealingKeys: []string{a.public}, Account: account,
		Certificate: cert, Digest: "first",
	}
}

// joined is what a proxy of area 3 holds that has joined.
func joined(t *testing.T, a *authority) *enrolmentState {
	t.Helper()
	dir := t.TempDir()
	id, err := ownIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := save(dir, a.enrolment(t, id, 3)); err != nil {
		t.Fatal(err)
	}
	h, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// servers answer a proxy as they are told.
type servers struct {
	pair   *frame.Pair // opens what is asked, and seals what is answered
	mu     sync.Mutex
	silent bool
	// swap replaces an answer on its way; nil if nobody does.
	swap   func(verb string, reply []byte) []byte
	sent   map[string][]byte // the last answers, by the last word of the subject
	digest string
	answer wire.RefreshAnswer
	asked  map[string]int       // by the last word of the subject
	times  map[string]time.Time // when the last question was sealed
	relay  wire.RelayedJoin     // the last one
	// question is the nonce of the last question.
	question frame.Nonce
}

func (s *servers) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	s.mu.Lock()
	verb := subject[strings.LastIndex(subject, ".")+1:]
	if s.asked == nil {
		s.asked, s.sent, s.times = map[string]int{}, map[string][]byte{}, map[string]time.Time{}
	}
	s.asked[verb]++
	silent := s.silent
	s.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reply, err := s.reply(verb, data)
	if err != nil {
		return nil, err
	}
	s.sent[verb] = bytes.Clone(reply)
	if s.swap != nil {
		reply = s.swap(verb, reply)
	}
	return reply, nil
}

// reply answers a question as a server does.
func (s *servers) reply(verb string, data []byte) ([]byte, error) {
	kinds, ok := map[string][2]frame.Kind{
		"beat": {frame.Beat, frame.Digest}, "refresh": {frame.Refresh, frame.Enrolment},
		"join": {frame.Join, frame.Joined},
	}[verb]
	if !ok {
		return nil, errors.New("nobody asks that: " + verb)
	}
	head, body, err := s.pair.Open(kinds[0], bytes.Clone(data), frame.Nonce{})
	if err != nil {
		return nil, err
	}
	s.times[verb], s.question = head.Time, head.Nonce
	var answer any
	switch verb {
	case "beat":
		answer = wire.BeatAck{Version: wire.Version, Digest: s.digest}
	case "refresh":
		answer = s.answer
	case "join":
		if err := json.Unmarshal(body, &s.relay); err != nil {
			return nil, err
		}
		answer = wire.RelayedAnswer{
			Version: wire.Version, Status: 200, Body: []byte("welcome"),
			Header: map[string]string{wire.ProofHeader: "proof"},
		}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	reply, _, err := s.pair.Seal(kinds[1], time.Now(), head.Nonce, text)
	return reply, err
}

// change is the notice of a change, sealed at this time.
func (s *servers) change(t *testing.T, at time.Time) []byte {
	t.Helper()
	data, _, err := s.pair.Seal(frame.Change, at, frame.Nonce{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (s *servers) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *servers) count(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[verb]
}

// street is a way to the servers.
type street struct {
	mu       sync.Mutex
	joined   bool
	rejoined int
	sentAway int
	accounts []string
}

func (w *street) Joined() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.joined
}

func (w *street) Rejoin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rejoined++
	return nil
}

func (w *street) SendAway() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sentAway++
	return nil
}

func (w *street) Clients() int { return 8 }

func (w *street) Update(account string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accounts = append(w.accounts, account)
	return nil
}

func (w *street) sentAways() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sentAway
}

func (w *street) rejoins() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rejoined
}

var (
	_ requester = (*fabric.Conn)(nil)
	_ leafLink  = (*broker.Relay)(nil)
)

// otherKey makes an identity of somebody else.
func otherKey(t *testing.T) identity {
	t.Helper()
	id, err := ownIdentity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !nkeys.IsValidPublicUserKey(id.public) {
		t.Fatalf("its key is %q", id.public)
	}
	return id
}

// pemOf counts the certificates in a text.
func pemOf(text string) (n int) {
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		n++
	}
	return n
}
