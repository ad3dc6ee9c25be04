package fabrictest

import (
	"context"
	"slices"
	"sync"
	"time"

	"drover/internal/fabric"
)

type linkMessage struct {
	subject string
	data    []byte
	reply   func(data []byte)
}

// linkService is one Serve. Its messages wait in a channel, in the order of their arrival.
type linkService struct {
	subject, queue string
	answer         fabric.Handler
	stop           func()

	mu      sync.Mutex
	stopped bool
	waiting chan linkMessage
}

// Serve does as fabric.Conn's does.
func (l *Link) Serve(subject, queue string, workers int, fn fabric.Handler) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &linkService{subject: subject, queue: queue, answer: fn, waiting: make(chan linkMessage, linkPending)}
	var working sync.WaitGroup
	for range max(workers, 1) {
		working.Go(func() { s.work(ctx) })
	}
	s.stop = sync.OnceFunc(func() {
		l.mu.Lock()
		l.services = slices.DeleteFunc(l.services, func(other *linkService) bool { return other == s })
		l.mu.Unlock()
		s.mu.Lock()
		s.stopped = true
		close(s.waiting)
		s.mu.Unlock()
		grace := time.AfterFunc(linkGrace, cancel)
		working.Wait()
		grace.Stop()
		cancel()
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.services = append(l.services, s)
	return s.stop, nil
}

// put adds a message unless the service was stopped or is full.
func (s *linkService) put(m linkMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	select {
	case s.waiting <- m:
	default:
	}
}

func (s *linkService) work(ctx context.Context) {
	for m := range s.waiting {
		if ctx.Err() != nil {
			continue
		}
		if reply := s.answer(ctx, m.subject, m.data); reply != nil {
			m.reply(reply)
		}
	}
}
