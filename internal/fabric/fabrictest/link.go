package fabrictest

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"drover/internal/fabric"
)

const (
	linkPending = 4096            // messages that wait for a worker; the link drops more
	linkGrace   = 3 * time.Second // for handlers after a stop
)

// Faults describes what a Link does to messages. Each crossing, of a request or a reply, is decided on its own. The
// zero value is a working fabric.
type Faults struct {
	// Drop and Duplicate are probabilities from 0 to 1. Of a reply the second copy is never seen.
	Drop, Duplicate float64
	// Delay is the longest time that a crossing takes; with one, messages overtake each other.
	Delay time.Duration
	// Seed makes the same decisions happen again, as far as the order of the requests is the same.
	Seed uint64
}

// Link is a fabric between any number of parties in one process. It consists of goroutines and timers only, so it works
// in a synctest bubble. It is a Messenger for all parties, without rights.
type Link struct {
	faults Faults

	mu       sync.Mutex
	random   *rand.Rand
	services []*linkService
	lost     chan struct{} // closed while the link is cut
	isCut    bool
}

// NewLink returns a Link that is connected.
func NewLink(f Faults) *Link {
	return &Link{faults: f, random: rand.New(rand.NewPCG(f.Seed, 0)), lost: make(chan struct{})}
}

// Cut ends the link: open and new requests fail with fabric.ErrNotConnected, and messages on the way are lost. Running
// handlers continue.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isCut {
		l.isCut = true
		close(l.lost)
	}
}

// Restore ends a Cut.
func (l *Link) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		l.isCut = false
		l.lost = make(chan struct{})
	}
}

// Connected reports whether the link is not cut.
func (l *Link) Connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.isCut
}

// Request does as fabric.Conn's does, faults aside.
func (l *Link) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	lost := l.lost
	var err error
	receivers := l.receivers(subject)
	switch {
	case l.isCut:
		err = fabric.ErrNotConnected
	case len(data) > fabric.MaxMessage:
		err = fabric.ErrTooLarge
	case len(receivers) == 0:
		err = fabric.ErrNobody
	}
	if err != nil {
		l.mu.Unlock()
		return nil, err
	}
	replies := make(chan []byte, 1)
	m := linkMessage{subject: subject, data: append([]byte{}, data...), reply: func(data []byte) {
		l.cross(lost, func() {
			select {
			case replies <- data:
			default: // a reply has already arrived
			}
		})
	}}
	l.mu.Unlock()
	for _, s := range receivers {
		l.cross(lost, func() { s.put(m) })
	}
	select {
	case data := <-replies:
		return data, nil
	case <-lost:
		return nil, fabric.ErrNotConnected
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cross delivers one message: never, once or twice, now or later. Once lost is closed, it delivers nothing.
func (l *Link) cross(lost <-chan struct{}, arrive func()) {
	l.mu.Lock()
	var delays []time.Duration
	if l.random.Float64() >= l.faults.Drop {
		delays = append(delays, l.delay())
		if l.random.Float64() < l.faults.Duplicate {
			delays = append(delays, l.delay())
		}
	}
	l.mu.Unlock()
	for _, d := range delays {
		if d == 0 {
			arrive()
			continue
		}
		time.AfterFunc(d, func() {
			select {
			case <-lost:
			default:
				arrive()
			}
		})
	}
}

func (l *Link) delay() time.Duration {
	if l.faults.Delay <= 0 {
		return 0
	}
	return time.Duration(l.random.Int64N(int64(l.faults.Delay)))
}

// receivers returns all services on the subject, but only one of each queue.
func (l *Link) receivers(subject string) []*linkService {
	var all []*linkService
	queues := make(map[string][]*linkService)
	var names []string // the order of a map would make the seed useless
	for _, s := range l.services {
		switch {
		case !matches(s.subject, subject):
		case s.queue == "":
			all = append(all, s)
		default:
			if queues[s.queue] == nil {
				names = append(names, s.queue)
			}
			queues[s.queue] = append(queues[s.queue], s)
		}
	}
	for _, name := range names {
		members := queues[name]
		all = append(all, members[l.random.IntN(len(members))])
	}
	return all
}

// matches reports whether a subject matches a pattern, in which * stands for one token, and > for one or more tokens at
// the end.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case i >= len(s):
			return false
		case token == ">":
			return true
		case token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

// Close stops every Serve and waits for their handlers.
func (l *Link) Close() {
	l.mu.Lock()
	all := append([]*linkService(nil), l.services...)
	l.mu.Unlock()
	for _, s := range all {
		s.stop()
	}
}
