package proxy

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/pki"
	"drover/internal/pki/pkitest"
	"drover/internal/wire"
)

// authority is what a server has to make a proxy with.
type authority struct {
	keeper *pki.Keeper
	broker *broker.Broker
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
	return &authority{pkitest.New(t), b}
}

// enrolment is what it gives a proxy.
func (a *authority) enrolment(t *testing.T, id identity, area int) wire.ProxyEnrolment {
	t.Helper()
	jwt, err := a.broker.IssueProxy(id.public, area)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := a.broker.Trust()
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.RequestCertificate(id.tls)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.keeper.CertifyProxy(request, area, id.public)
	if err != nil {
		t.Fatal(err)
	}
	return wire.ProxyEnrolment{
		Area: area, Name: "one", JWT: jwt, Hubs: []string{"192.0.2.1:7352"}, CA: a.keeper.CA(),
		Operator: trust.Operator, Account: trust.Account,
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
	keepers.Store(dir, a.keeper)
	if err := save(dir, a.enrolment(t, id, 3)); err != nil {
		t.Fatal(err)
	}
	h, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// keepers are those of the servers, by the directories of proxies that have joined them.
var keepers sync.Map

// servers answer a proxy as they are told.
type servers struct {
	keeper *pki.Keeper // signs what is answered; nil: nobody does
	replay []byte      // what is answered in the place of an answer
	sent   []byte      // what was answered last
	mu     sync.Mutex
	silent bool
	digest string
	answer wire.RefreshAnswer
	asked  map[string]int // by the last word of the subject
	last   wire.RefreshRequest
}

func (s *servers) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	s.mu.Lock()
	verb := subject[strings.LastIndex(subject, ".")+1:]
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[verb]++
	silent, digest, answer := s.silent, s.digest, s.answer
	if verb == "refresh" {
		_ = json.Unmarshal(data, &s.last)
	}
	s.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	switch verb {
	case "beat":
		return json.Marshal(wire.BeatAck{Version: wire.Version, Digest: digest})
	case "refresh":
		return s.sealed(data, answer)
	case "join":
		return json.Marshal(wire.RelayedAnswer{
			Version: wire.Version, Status: 200, Body: []byte("welcome"),
			Header: map[string]string{wire.ProofHeader: "proof"},
		})
	}
	return nil, errors.New("nobody asks that: " + subject)
}

// sealed signs an answer as a server does.
func (s *servers) sealed(question []byte, answer wire.RefreshAnswer) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replay != nil {
		return s.replay, nil
	}
	data, err := json.Marshal(answer)
	if err != nil || s.keeper == nil {
		return data, err
	}
	made, err := s.keeper.Prove(wire.ProvenRefresh(question, data))
	if err != nil {
		return nil, err
	}
	proof, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	s.sent, err = json.Marshal(wire.SealedRefresh{Answer: data, Proof: proof})
	return s.sent, err
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

func (w *street) Clients() int { return 8 }

func (w *street) Update(account string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accounts = append(w.accounts, account)
	return nil
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
