package fabric

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// service is one subscription with its workers.
type service struct {
	conn    *Conn
	subject string
	sub     *nats.Subscription
	answer  Handler
	slots   chan struct{} // one token per running handler
	running sync.WaitGroup
	drained chan struct{} // closed when dispatch will not be called again
	cancel  context.CancelFunc
	stop    func()

	// alone limits the open requests on each subject, from the moment when a request is read (requestAdmission).
	alone bool
}

// Serve answers the requests on subject with fn, on at most workers goroutines. The subject may hold wildcards. Of
// the subscribers with the same queue name, one gets each request; with an empty queue name, all get it. Up to 65,536
// messages or 64 MiB wait in memory; Serve drops and logs further requests.
//
// Serve may be called without a link, and survives lost links. With a link, it returns once the broker has confirmed
// the subscription, and with ErrForbidden if the identity may not subscribe.
//
// stop accepts no new requests and answers received requests for up to 3 s. Then it ends the context of the handlers,
// and returns when the last handler has returned. It may be called more than once; fn must not call it.
func (c *Conn) Serve(subject, queue string, workers int, fn Handler) (stop func(), err error) {
	return c.serve(subject, queue, &service{answer: fn, slots: make(chan struct{}, max(workers, 1))})
}

// ServeEach is Serve with at most one request in progress on each subject. Of the waiting requests on a subject it
// answers only the newest: its client has given up the older one. It drops a request before it reads it if two wait
// on the subject, or if one is open and the request has more than 16 KiB. It also drops a request if more than 24 MiB
// wait, or 40 MiB for a request of at most 16 KiB.
func (c *Conn) ServeEach(subject, queue string, workers int, fn Handler) (stop func(), err error) {
	return c.serve(subject, queue, &service{answer: fn, slots: make(chan struct{}, max(workers, 1)), alone: true})
}

func (c *Conn) serve(subject, queue string, s *service) (stop func(), err error) {
	err = c.subscribe(subject, queue, s)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %q: %w", subject, err)
	}
	if !c.Connected() {
		return s.stop, nil
	}
	if err := c.nc.FlushTimeout(flushTimeout); err != nil {
		// The library renews the subscription with every new link, so a slow or lost confirmation changes nothing.
		c.log.Debug("broker did not confirm subscription", "subject", subject, "error", err)
	}
	if err := c.denied(subject); err != nil {
		s.stop()
		return nil, err
	}
	return s.stop, nil
}

func (c *Conn) subscribe(subject, queue string, s *service) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrNotConnected
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.conn, s.subject, s.drained, s.cancel = c, subject, make(chan struct{}), cancel
	s.stop = sync.OnceFunc(func() { s.end(ctx) })
	c.services[s] = struct{}{}
	c.admission.setServices(c.services) // before the first request
	sub, err := c.nc.QueueSubscribe(subject, queue, func(m *nats.Msg) { s.dispatch(ctx, m) })
	if err != nil {
		cancel()
		c.forget(s)
		return err
	}
	s.sub = sub
	err = sub.SetPendingLimits(pendingLimit, pendingBytes)
	sub.SetClosedHandler(func(string) { close(s.drained) })
	if err != nil || !sub.IsValid() {
		// The library closed the connection meanwhile; the handler may have been set too late to be called.
		cancel()
		c.forget(s)
		return ErrNotConnected
	}
	return nil
}

// forget detaches a service from the connection; the caller holds the lock.
func (c *Conn) forget(s *service) {
	delete(c.services, s)
	c.admission.setServices(c.services)
}

// dispatch is called for one message after another. It blocks while all workers are busy.
func (s *service) dispatch(ctx context.Context, m *nats.Msg) {
	select {
	case <-ctx.Done():
		return
	case s.slots <- struct{}{}:
	}
	if s.alone && !s.conn.admission.begin(m.Subject) {
		<-s.slots
		return
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		data := s.answer(ctx, m.Subject, m.Data)
		if s.alone {
			s.conn.admission.over(m.Subject) // before the next request, which the answer triggers
		}
		s.reply(m, data)
	})
}

// reply sends a reply only to an inbox: the caller chooses the reply subject, and must not use the server's rights to
// reach another client's subject.
func (s *service) reply(m *nats.Msg, data []byte) {
	if data == nil || m.Reply == "" {
		return
	}
	if !strings.HasPrefix(m.Reply, inboxRoot+".") || s.conn.mayReply != nil && !s.conn.mayReply(m.Subject, m.Reply) {
		s.conn.log.Warn("rejected a reply subject that is not an inbox of the caller", "subject", m.Subject,
			"reply", m.Reply)
		return
	}
	if err := m.Respond(data); err != nil {
		s.conn.log.Warn("cannot send reply", "subject", m.Subject, "bytes", len(data), "error", err)
	}
}

func (s *service) end(ctx context.Context) {
	defer s.cancel()
	grace := time.AfterFunc(drainLimit, s.cancel)
	defer grace.Stop()
	s.drain(ctx)
	// This fails only if the subscription has already ended.
	_ = s.sub.Unsubscribe()
	<-s.drained
	s.running.Wait()
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.conn.forget(s)
}

// drain waits until the received requests are answered, unless the link is lost or ctx ends.
func (s *service) drain(ctx context.Context) {
	l := s.conn.link.Load()
	if l == nil || s.sub.Drain() != nil {
		return
	}
	select {
	case <-s.drained:
	case <-l.lost:
	case <-ctx.Done():
	}
}
