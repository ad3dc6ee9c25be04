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

	// alone says that of each subject one request is under way at a time, from the moment when it is read; busy are those subjects, and waiting
	// are the bytes of requests that have no worker yet.
	alone   bool
	mu      sync.Mutex
	busy    map[string]bool
	waiting int
}

// Serve has fn answer the requests on subject, which may hold wildcards, at most workers of them at a time. Of those who
// serve it with the same queue name each request reaches one; with an empty queue name it reaches all. What can't be
// handled yet waits in memory up to 65,536 messages or 64 MiB; beyond that requests are dropped and the log tells.
//
// Serve may be called while there is no link and outlives lost ones. While there is one it returns once the broker has
// taken note, and with ErrForbidden if the identity may not listen there.
//
// stop takes no new requests, lets those that have arrived be answered for up to 3 s, then ends the context of handlers,
// and returns when the last has returned. It may be called more than once; fn must not call it.
func (c *Conn) Serve(subject, queue string, workers int, fn Handler) (stop func(), err error) {
	return c.serve(subject, queue, &service{answer: fn, slots: make(chan struct{}, max(workers, 1))})
}

// ServeEach is Serve for who has one request under way at a time on each of the subjects: what comes meanwhile on the same one is dropped
// before it is read, without taking the place of others. So is what finds more than 24 MiB that wait, 40 MiB if it is of 16 KiB or less.
func (c *Conn) ServeEach(subject, queue string, workers int, fn Handler) (stop func(), err error) {
	return c.serve(subject, queue, &service{answer: fn, slots: make(chan struct{}, max(workers, 1)), alone: true, busy: map[string]bool{}})
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
		// The library subscribes again with every new link, so a slow or lost one changes nothing.
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
	c.intake.change(c.services) // before the first request
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
		// The library gave the connection up meanwhile; the handler may have been set too late to be called.
		cancel()
		c.forget(s)
		return ErrNotConnected
	}
	return nil
}

// forget ends what a service has to do with the connection; the caller holds the lock.
func (c *Conn) forget(s *service) {
	delete(c.services, s)
	c.intake.change(c.services)
}

// dispatch is called for one message after the other. It blocks while all workers are busy.
func (s *service) dispatch(ctx context.Context, m *nats.Msg) {
	if s.alone {
		defer s.taken(len(m.Data))
	}
	select {
	case <-ctx.Done():
		return
	case s.slots <- struct{}{}:
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		data := s.answer(ctx, m.Subject, m.Data)
		s.over(m.Subject) // before the next request, which the answer brings about
		s.reply(m, data)
	})
}

// reply answers only where replies are awaited: whoever asks may choose the reply subject, and must not use our rights
// to reach a subject of somebody else.
func (s *service) reply(m *nats.Msg, data []byte) {
	if data == nil || m.Reply == "" {
		return
	}
	if !strings.HasPrefix(m.Reply, inboxRoot+".") || s.conn.mayReply != nil && !s.conn.mayReply(m.Subject, m.Reply) {
		s.conn.log.Warn("rejected a reply subject that is not an inbox of the caller", "subject", m.Subject, "reply", m.Reply)
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
	// It fails only where the subscription has ended already.
	_ = s.sub.Unsubscribe()
	<-s.drained
	s.running.Wait()
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.conn.forget(s)
}

// drain lets what has arrived be handled, unless the link is lost or ctx ends.
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
