package fabric

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// The broker's answer on a subject without subscribers: a message without data, with this header.
const (
	statusHeader = "Status"
	statusNobody = "503"
)

// Request sends data and returns the first reply. It blocks until the reply or the end of ctx. It fails at once with
// ErrNobody if the subject has no subscriber, with ErrNotConnected if the link is down or goes down, and with
// ErrTooLarge. If the identity may not publish to the subject, the broker drops the request without an answer, so ctx
// decides.
func (c *Conn) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	l := c.link.Load()
	if l == nil {
		return nil, ErrNotConnected
	}
	msg, err := c.replies.request(ctx, l.lost, c.nc, subject, data)
	switch {
	case err == nil && len(msg.Data) == 0 && msg.Header.Get(statusHeader) == statusNobody:
		return nil, ErrNobody
	case err == nil:
		return msg.Data, nil
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return nil, ErrNotConnected
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(data), c.nc.MaxPayload())
	case errors.Is(err, ErrNotConnected):
		return nil, err
	}
	return nil, fmt.Errorf("cannot send request: %w", err)
}

// replyRouter routes the replies of one subscription to their requests. Each request has its own random reply subject.
// A proxy may publish to every inbox of the servers, and must not answer for agents of other areas. The library's reply
// subjects are guessable, so drover does not use them.
type replyRouter struct {
	prefix string

	mu         sync.Mutex
	subscribed bool
	waiting    map[string]chan<- *nats.Msg
}

func newReplyRouter(inbox string) *replyRouter {
	return &replyRouter{prefix: inbox + ".r.", waiting: make(map[string]chan<- *nats.Msg)}
}

// request returns the first reply, unless ctx ends, or lost is closed, which is ErrNotConnected.
func (r *replyRouter) request(ctx context.Context, lost <-chan struct{}, nc *nats.Conn, subject string,
	data []byte,
) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	token, reply, err := r.await(nc)
	if err != nil {
		return nil, err
	}
	defer r.forget(token)
	// A reconnect blocks the library. After that, lost is closed: nobody would wait for the answer to a request over
	// the new link, and while that request is open, the server might drop the client's next one (ServeEach).
	connected := nc.IsConnected()
	select {
	case <-lost:
		connected = false
	default:
	}
	if !connected {
		return nil, ErrNotConnected
	}
	if err := nc.PublishRequest(subject, r.prefix+token, data); err != nil {
		return nil, err
	}
	select {
	case msg := <-reply:
		return msg, nil
	case <-lost:
		return nil, ErrNotConnected
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// await makes a reply subject, and subscribes at the first call. The library renews the subscription with every new
// link.
func (r *replyRouter) await(nc *nats.Conn) (token string, reply <-chan *nats.Msg, err error) {
	token = rand.Text()
	ch := make(chan *nats.Msg, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.subscribed {
		if _, err := nc.Subscribe(r.prefix+"*", r.take); err != nil {
			return "", nil, err
		}
		r.subscribed = true
	}
	r.waiting[token] = ch
	return token, ch, nil
}

// take delivers a reply. It never blocks: only the first reply counts.
func (r *replyRouter) take(msg *nats.Msg) {
	token := strings.TrimPrefix(msg.Subject, r.prefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ch, ok := r.waiting[token]; ok {
		delete(r.waiting, token)
		ch <- msg
	}
}

func (r *replyRouter) forget(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, token)
}
