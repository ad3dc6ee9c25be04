// Package fabric moves bytes between server and agents over core NATS: requests, their replies, and the instant error
// if a subject has no subscriber. It owns connections and their key files; it knows no message and no subject.
// Delivery is at most once, and nothing is kept while a link is down: a sender resends until it gets an answer. The
// embedded broker is a separate package, so that an agent does not link a NATS server.
package fabric

import (
	"context"
	"errors"

	"github.com/nats-io/nkeys"
)

const (
	// MaxMessage is the largest message in bytes that a broker accepts.
	MaxMessage = 8 << 20
	// MaxFromAgents is the largest message that a broker accepts from an agent or a proxy: the broker may hold an
	// incomplete message of each.
	MaxFromAgents = 1<<20 + 64<<10
)

// The reasons why a request has no answer.
var (
	// ErrNobody means that the subject has no subscriber now. The error is immediate.
	ErrNobody = errors.New("no subscriber on the subject")
	// ErrNotConnected means that there is no link to the broker, that the link was lost before the reply, or that the
	// Conn was closed. If the link was lost, the request may have arrived.
	ErrNotConnected = errors.New("not connected to the fabric")
	// ErrTooLarge means that the broker does not accept a message of this size. Nothing was sent.
	ErrTooLarge = errors.New("message is too large for the fabric")
	// ErrForbidden means that the identity has no right to the subject.
	ErrForbidden = errors.New("the fabric forbids the subject")
)

// Identity is the identity of a client at the broker: a user JWT and the key that proves it. The key never travels.
type Identity struct {
	JWT string
	Key nkeys.KeyPair
	// Area is part of the inbox: the number of an agent's or a proxy's area, or ServerArea.
	Area string
}

// ServerArea is the Area of servers, which have no area.
const ServerArea = "server"

// Handler answers one request. Its result is the reply; nil sends no reply. The context ends if the handler does not
// stop in time.
type Handler = func(ctx context.Context, subject string, data []byte) []byte

// inboxRoot is the first part of every inbox.
const inboxRoot = "_INBOX"

// InboxPrefix returns the subject prefix of the inboxes of a public key. Only its holder may listen there, and a
// proxy of the same area. Both arguments may also be templates for the broker.
func InboxPrefix(area, publicKey string) string {
	return inboxRoot + "." + area + "." + publicKey
}
