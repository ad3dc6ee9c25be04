package broker_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
)

// guessable is how long the last token of a reply subject is below which it could be guessed: 26 letters of base 32 are
// 130 bits.
const guessable = 26

// answering has somebody answer on a subject who speaks NATS without the manners of fabric.Conn.
func answering(t *testing.T, b *broker.Broker, subject string, answer nats.MsgHandler) {
	t.Helper()
	who := b.ServerIdentity()
	conn, err := nats.Connect(b.URL(), nats.UserJWT(func() (string, error) { return who.JWT, nil }, who.Key.Sign))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if _, err := conn.Subscribe(subject, answer); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestReplySubjectsCannotBeGuessed: proxies may publish to every inbox of the servers, so a proxy that sees the reply
// subjects of its own area must learn nothing about those of others.
func TestReplySubjectsCannotBeGuessed(t *testing.T) {
	b := start(t)
	seen := make(chan string, 64)
	answering(t, b, "test.asked", func(m *nats.Msg) {
		seen <- m.Reply
		_ = m.Respond(nil)
	})
	id := b.ServerIdentity()
	server := connect(t, b.URL(), id)
	public, err := id.Key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := server.Request(ctx, "test.asked", []byte("x"))
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		subject := <-seen
		if !strings.HasPrefix(subject, fabric.InboxPrefix(fabric.ServerArea, public)+".") {
			t.Errorf("a reply is awaited on %s, outside the inbox of the one who asks", subject)
		}
		token := subject[strings.LastIndexByte(subject, '.')+1:]
		if len(token) < guessable || known[token] {
			t.Errorf("a reply is awaited on %s: expected %d letters that were not there before", subject, guessable)
		}
		known[token] = true
	}
}

// TestOnlyTheFirstReplyCounts: a second one, and one to a request that was given up, goes to nobody else.
func TestOnlyTheFirstReplyCounts(t *testing.T) {
	b := start(t)
	server := connect(t, b.URL(), b.ServerIdentity())
	arrived, late := make(chan struct{}), make(chan *nats.Msg, 1)
	answering(t, b, "test.twice", func(m *nats.Msg) {
		_ = m.Respond(m.Data)
		_ = m.Respond([]byte("second"))
	})
	answering(t, b, "test.late", func(m *nats.Msg) {
		late <- m
		close(arrived)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := server.Request(ctx, "test.late", nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v, want %v", err, context.Canceled)
	}
	if err := (<-late).Respond([]byte("late")); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		reply, err := server.Request(ctx, "test.twice", []byte(strconv.Itoa(i)))
		cancel()
		if err != nil || string(reply) != strconv.Itoa(i) {
			t.Fatalf("request %d was answered %q, %v", i, reply, err)
		}
	}
}
