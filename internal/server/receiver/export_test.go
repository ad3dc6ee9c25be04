package receiver

import (
	"context"

	"drover/internal/server/store"
)

// fake delivers by a function.
type fake func(ctx context.Context, body []byte) error

func (f fake) send(ctx context.Context, m *message) error { return f(ctx, m.body) }
func (fake) close()                                       {}

// DeliverBy has a sender deliver by a function, in virtual time.
func (s *Sender) DeliverBy(send func(ctx context.Context, body []byte) error) {
	s.transport = func(*store.Receiver) transport { return fake(send) }
}
