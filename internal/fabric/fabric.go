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
	// MaxMessage is the largest message in bytes that a broker takes.
	MaxMessage = 8 << 20
	// MaxFromAgents is the largest that it takes of an agent or a proxy: of each it may hold a part of one that does not come.
	MaxFromAgents = 1<<20 + 64<<10
)

// Reasons why a request was not answered.
var (
	// ErrNobody means that nothing listens on the subject now. It is known at once.
	ErrNobody = errors.New("no subscriber on the subject")
	// ErrNotConnected means that there is no link to the broker, that it was lost before the reply came (so the request may
	// have been taken), or that the Conn was closed.
	ErrNotConnected = errors.New("not connected to the fabric")
	// ErrTooLarge means that the broker doesn't take messages of that size. Nothing was sent.
	ErrTooLarge = errors.New("message is too large for the fabric")
	// ErrForbidden means that the identity has no right to the subject.
	ErrForbidden = errors.New("the fabric forbids the subject")
)

// Identity is who one is to the broker: a user JWT and the key that proves it. The key never travels.
type Identity struct {
	JWT string
	Key nkeys.KeyPair
	// Area is where replies are awaited: the number of an agent's or a proxy's area, or ServerArea.
	Area string
}

// ServerArea is the Area of servers, which belong to none.
const ServerArea = "server"

// Handler answers one request. What it returns is the reply; nil sends none. The context ends when the handler was told
// to stop and has not done so in time.
type Handler = func(ctx context.Context, subject string, data []byte) []byte

// inboxRoot begins every subject on which replies are awaited.
const inboxRoot = "_INBOX"

// InboxPrefix returns the subject prefix below which the holder of a public key awaits replies. Nobody else may listen there, but for a
// proxy of the same area. Both may also be templates that the broker fills in.
func InboxPrefix(area, publicKey string) string {
	return inboxRoot + "." + area + "." + publicKey
}
