// Package admission bounds the resources that calls take before they are authenticated: connections, incoming bodies,
// and the memory for parsing them. It owns the pools that calls share. The HTTP APIs identify the caller and word a
// refusal.
package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// All rooms together are 160 MiB. A body is charged for what has arrived of it, so a claim alone takes nothing.
const (
	// MostKnown and MostStrange are the largest bodies of callers that have shown who they are in the head, and of
	// others.
	MostKnown   = 40 << 20
	MostStrange = 24 << 20

	knownMemory    = MostKnown + piece
	strangeMemory  = 40 << 20
	parsedMemory   = 48 << 20
	mostParsed     = parsedMemory / 2 // of one app: it holds its room until its answer has been read
	mostPerAddress = MostStrange + piece
	keptMemory     = 32 << 20
	mostKept       = keptMemory / 2 // of one app: it holds its room until its answer has been read
	// kept results take room in steps.
	keptStep = 256 << 10

	// free is what a body has without asking for room.
	free = 64 << 10
	// A body is read in pieces, and each has so long to arrive.
	piece     = 64 << 10
	pieceTime = 5 * time.Second
	// patience is how long a call waits for room.
	patience = 20 * time.Second
)

// What Body and Parse fail with besides the errors of reading.
var (
	ErrFull     = errors.New("too many large requests at the same time, try again later")
	ErrTooLarge = errors.New("the body is too large")
	ErrTooSlow  = fmt.Errorf("the body arrives too slowly: expected %d KB in %s", piece>>10, pieceTime)
)

// Limiter is what all calls share. It may be used from any goroutine.
type Limiter struct {
	known, strange, parsed, kept *semaphore

	mu        sync.Mutex
	addresses map[string]*callerShare
	apps      map[string]*callerShare
	keepers   map[string]*callerShare
}

// callerShare is the room of an address of strangers, or of an app.
type callerShare struct {
	memory *semaphore
	users  int
}

// New returns empty rooms.
func New() *Limiter {
	return &Limiter{
		known: newSemaphore(knownMemory), strange: newSemaphore(strangeMemory), parsed: newSemaphore(parsedMemory),
		kept:      newSemaphore(keptMemory),
		addresses: map[string]*callerShare{}, apps: map[string]*callerShare{},
		keepers: map[string]*callerShare{},
	}
}

// Body returns the whole body of a request; release gives its room back once nobody needs it any more, and is never
// nil. known says that the caller has shown who it is. Body blocks while the rest arrives, for the time that the
// connection has, and while there is no room, for patience.
func (l *Limiter) Body(ctx context.Context, w http.ResponseWriter, req *http.Request,
	known bool,
) (body []byte, release func(), err error) {
	most := int64(MostStrange)
	if known {
		most = MostKnown
	}
	if req.ContentLength > most {
		return nil, func() {}, ErrTooLarge
	}
	t := l.newReservation(req, known)
	control := http.NewResponseController(w)
	in := http.MaxBytesReader(w, req.Body, most)
	body = make([]byte, 0, first(req.ContentLength))
	for {
		if len(body) == cap(body) {
			size := larger(cap(body), req.ContentLength, most)
			if err := t.grow(ctx, size); err != nil {
				return nil, t.release, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		if len(body) > free {
			_ = control.SetReadDeadline(time.Now().Add(pieceTime))
		}
		n, err := in.Read(body[len(body):min(len(body)+piece, cap(body))])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			_ = control.SetReadDeadline(time.Time{})
			return body, t.release, nil
		case err == nil:
		case len(body) > free && isTimeout(err):
			return nil, t.release, ErrTooSlow
		default:
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				err = ErrTooLarge
			}
			return nil, t.release, err
		}
	}
}

// first is how much a body gets before it asks for room.
func first(claimed int64) int64 {
	if claimed >= 0 && claimed < free {
		return claimed + 1
	}
	return free + 1
}

// larger is how much a body gets next: twice as much, but no more than it will need.
func larger(now int, claimed, most int64) int64 {
	size := min(2*int64(now), most+1)
	if claimed > 0 {
		size = min(size, claimed+1)
	}
	return size
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// Parse waits until there is room for what a body of many values is parsed into, for patience at most. No app has all
// the room.
func (l *Limiter) Parse(ctx context.Context, app string, body []byte) (release func(), err error) {
	if len(body) <= free {
		return func() {}, nil
	}
	// A value becomes an entry of some list, which takes more than its text; the number of entries is bounded.
	size := min(2*int64(len(body))+perValue*int64(min(bytes.Count(body, []byte{','}), mostValues)), mostParsed)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	own, done := l.shareOf(l.apps, app, mostParsed)
	if !own.acquire(ctx, size) {
		done()
		return nil, ErrFull
	}
	if !l.parsed.acquire(ctx, size) {
		own.release(size)
		done()
		return nil, ErrFull
	}
	return sync.OnceFunc(func() {
		l.parsed.release(size)
		own.release(size)
		done()
	}), nil
}

// Keep returns the room for results of an app that must not leave yet. Grow reports whether there is room for so many
// bytes in all, and never waits; the first bytes need none. Release gives the room back, and may be called again.
func (l *Limiter) Keep(app string) (grow func(size int64) bool, release func()) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	own, done := l.shareOf(l.keepers, app, mostKept)
	r := &reservation{in: []*semaphore{own, l.kept}, done: sync.OnceFunc(done)}
	return func(size int64) bool {
		steps := (size - free + keptStep - 1) / keptStep
		return r.grow(now, steps*keptStep) == nil
	}, r.release
}

// shareOf returns the room of an address or an app, which is there until everybody who got it is done.
func (l *Limiter) shareOf(shares map[string]*callerShare, name string, size int64) (own *semaphore, done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := shares[name]
	if s == nil {
		s = &callerShare{memory: newSemaphore(size)}
		shares[name] = s
	}
	s.users++
	return s.memory, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(shares, name)
		}
	}
}

const (
	perValue   = 600
	mostValues = 100_000
)

// reservation is a body that is arriving.
type reservation struct {
	in   []*semaphore
	has  int64
	done func()
}

func (l *Limiter) newReservation(req *http.Request, known bool) *reservation {
	if known {
		return &reservation{in: []*semaphore{l.known}, done: func() {}}
	}
	where, _, _ := net.SplitHostPort(req.RemoteAddr)
	own, done := l.shareOf(l.addresses, where, mostPerAddress)
	return &reservation{in: []*semaphore{own, l.strange}, done: sync.OnceFunc(done)}
}

// grow takes room up to that size.
func (r *reservation) grow(ctx context.Context, size int64) error {
	more := size - r.has
	if more <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, room := range r.in {
		if !room.acquire(ctx, more) {
			for _, entered := range r.in[:i] {
				entered.release(more)
			}
			return ErrFull
		}
	}
	r.has = size
	return nil
}

func (r *reservation) release() {
	for _, room := range r.in {
		room.release(r.has)
	}
	r.has, r.in = 0, nil
	r.done()
}
