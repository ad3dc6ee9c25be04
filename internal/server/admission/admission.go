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

// All budgets together are 160 MiB. A body counts with its received bytes, so a large Content-Length alone takes
// nothing.
const (
	// MostKnown and MostStrange are the largest bodies of callers that are authenticated by their headers, and of
	// others.
	MostKnown   = 40 << 20
	MostStrange = 24 << 20

	knownMemory    = MostKnown + piece
	strangeMemory  = 40 << 20
	parsedMemory   = 48 << 20
	mostParsed     = parsedMemory / 2 // of one app, which holds it until its answer has been read
	mostPerAddress = MostStrange + piece
	keptMemory     = 32 << 20
	mostKept       = keptMemory / 2 // of one app, which holds it until its answer has been read
	// mostTurns is how many results are put together at the same time.
	mostTurns = 16
	// Held results grow in steps.
	keptStep = 256 << 10

	// perToken is the memory of a token of YAML with its place in the tree, in bytes.
	perToken = 512
	// free is what a body gets without a budget.
	free = 64 << 10
	// A body is read in pieces, and each piece must arrive within pieceTime.
	piece     = 64 << 10
	pieceTime = 5 * time.Second
	// patience is how long a call waits for memory.
	patience = 20 * time.Second
)

// The errors of Body and Parse, in addition to read errors.
var (
	ErrFull     = errors.New("too many large requests at the same time, try again later")
	ErrTooLarge = errors.New("the body is too large")
	ErrTooSlow  = fmt.Errorf("the body arrives too slowly: expected %d KB in %s", piece>>10, pieceTime)
)

// Limiter bounds the memory of all calls. It is safe for concurrent use.
type Limiter struct {
	known, strange, parsed, kept *semaphore
	turns                        *semaphore

	mu        sync.Mutex
	addresses map[string]*callerShare
	apps      map[string]*callerShare
	keepers   map[string]*callerShare
}

// callerShare is the budget of the address of a stranger, or of an app.
type callerShare struct {
	memory *semaphore
	users  int
}

// New returns empty rooms.
func New() *Limiter {
	return &Limiter{
		known: newSemaphore(knownMemory), strange: newSemaphore(strangeMemory), parsed: newSemaphore(parsedMemory),
		kept:      newSemaphore(keptMemory),
		turns:     newSemaphore(mostTurns),
		addresses: map[string]*callerShare{}, apps: map[string]*callerShare{},
		keepers: map[string]*callerShare{},
	}
}

// Body returns the whole body of a request. release frees the memory when the body is no longer needed; it is never
// nil. known means that the caller is authenticated. Body blocks while the rest arrives, within the deadline of the
// connection, and while there is no memory, for patience.
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

// first returns how much a body gets before it needs a budget.
func first(claimed int64) int64 {
	if claimed >= 0 && claimed < free {
		return claimed + 1
	}
	return free + 1
}

// larger returns the next size of a body's buffer: twice as much, but no more than it will need.
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

// Parse waits until there is memory for the parsed form of a body with many values, for patience at most. No app gets
// all of the memory.
func (l *Limiter) Parse(ctx context.Context, app string, body []byte) (release func(), err error) {
	if len(body) <= free {
		return func() {}, nil
	}
	// A value becomes an entry of a list, which takes more memory than its text; the number of entries is bounded.
	return l.parse(ctx, app, 2*int64(len(body))+perValue*int64(min(bytes.Count(body, []byte{','}), mostValues)))
}

// ParseYAML is Parse for a text in YAML, in which each character may be a token.
func (l *Limiter) ParseYAML(ctx context.Context, app string, text []byte) (release func(), err error) {
	return l.parse(ctx, app, perToken*int64(len(text)))
}

func (l *Limiter) parse(ctx context.Context, app string, size int64) (release func(), err error) {
	size = min(size, mostParsed)
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

// Turn waits until the caller may put results together: if a thousand callers did so at once, none would end soon, and
// all would need memory meanwhile. release ends the turn, is never nil, and may be called again. The caller must not
// wait for a client before that. The error is that of ctx, if ctx ends first.
func (l *Limiter) Turn(ctx context.Context) (release func(), err error) {
	if !l.turns.acquire(ctx, 1) {
		return func() {}, ctx.Err()
	}
	return sync.OnceFunc(func() { l.turns.release(1) }), nil
}

// Keep returns the budget for results of an app that cannot be sent yet. grow reports whether there is memory for so
// many bytes in all, and never blocks; the first bytes need none. release frees the memory, and may be called again.
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

// shareOf returns the budget of an address or an app, which exists until all its users are done.
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

// reservation is the memory of an arriving body.
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

// grow takes memory up to the given size.
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
