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

// All rooms together are 128 MiB. A body is charged for what has arrived of it, so a claim alone takes nothing.
const (
	// MostKnown and MostStrange are the largest bodies of callers that have shown who they are in the head, and of
	// others.
	MostKnown   = 40 << 20
	MostStrange = 24 << 20

	roomOfKnown    = MostKnown + piece
	roomOfStrange  = 40 << 20
	roomOfParsed   = 48 << 20
	mostParsed     = roomOfParsed / 2 // of one app: it holds its room until its answer has been read
	mostPerAddress = MostStrange + piece

	// Free is what a body has without asking for room.
	Free = 64 << 10
	// A body is read in pieces, and each has so long to arrive.
	piece     = 64 << 10
	pieceTime = 5 * time.Second
	// Patience is how long a call waits for room.
	Patience = 20 * time.Second
)

// What Body and Parse fail with besides the errors of reading.
var (
	ErrFull     = errors.New("too many large requests at the same time, try again later")
	ErrTooLarge = errors.New("the body is too large")
	ErrTooSlow  = fmt.Errorf("the body arrives too slowly: expected %d KB in %s", piece>>10, pieceTime)
)

// Rooms is what all calls share. It may be used from any goroutine.
type Rooms struct {
	known, strange, parsed *room

	mu        sync.Mutex
	addresses map[string]*share
	apps      map[string]*share
}

// share is the room of an address of strangers, or of an app.
type share struct {
	room  *room
	users int
}

// New returns empty rooms.
func New() *Rooms {
	return &Rooms{
		known: newRoom(roomOfKnown), strange: newRoom(roomOfStrange), parsed: newRoom(roomOfParsed),
		addresses: map[string]*share{}, apps: map[string]*share{},
	}
}

// Body returns the whole body of a request; release gives its room back once nobody needs it any more, and is never
// nil. known says that the caller has shown who it is. Body blocks while the rest arrives, for the time that the
// connection has, and while there is no room, for Patience.
func (r *Rooms) Body(ctx context.Context, w http.ResponseWriter, req *http.Request,
	known bool,
) (body []byte, release func(), err error) {
	most := int64(MostStrange)
	if known {
		most = MostKnown
	}
	if req.ContentLength > most {
		return nil, func() {}, ErrTooLarge
	}
	t := r.newTenant(req, known)
	control := http.NewResponseController(w)
	in := http.MaxBytesReader(w, req.Body, most)
	body = make([]byte, 0, first(req.ContentLength))
	for {
		if len(body) == cap(body) {
			size := larger(cap(body), req.ContentLength, most)
			if err := t.grow(ctx, size); err != nil {
				return nil, t.leave, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		if len(body) > Free {
			_ = control.SetReadDeadline(time.Now().Add(pieceTime))
		}
		n, err := in.Read(body[len(body):min(len(body)+piece, cap(body))])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			_ = control.SetReadDeadline(time.Time{})
			return body, t.leave, nil
		case err == nil:
		case len(body) > Free && isTimeout(err):
			return nil, t.leave, ErrTooSlow
		default:
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				err = ErrTooLarge
			}
			return nil, t.leave, err
		}
	}
}

// first is how much a body gets before it asks for room.
func first(claimed int64) int64 {
	if claimed >= 0 && claimed < Free {
		return claimed + 1
	}
	return Free + 1
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

// Parse waits until there is room for what a body of many values is parsed into, for Patience at most. No app has all
// the room.
func (r *Rooms) Parse(ctx context.Context, app string, body []byte) (release func(), err error) {
	if len(body) <= Free {
		return func() {}, nil
	}
	// A value becomes an entry of some list, which takes more than its text; the number of entries is bounded.
	size := min(2*int64(len(body))+perValue*int64(min(bytes.Count(body, []byte{','}), mostValues)), mostParsed)
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	own, done := r.shareOf(r.apps, app, mostParsed)
	if !own.enter(ctx, size) {
		done()
		return nil, ErrFull
	}
	if !r.parsed.enter(ctx, size) {
		own.leave(size)
		done()
		return nil, ErrFull
	}
	return sync.OnceFunc(func() {
		r.parsed.leave(size)
		own.leave(size)
		done()
	}), nil
}

// shareOf returns the room of an address or an app, which is there until everybody who got it is done.
func (r *Rooms) shareOf(shares map[string]*share, name string, size int64) (own *room, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := shares[name]
	if s == nil {
		s = &share{room: newRoom(size)}
		shares[name] = s
	}
	s.users++
	return s.room, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(shares, name)
		}
	}
}

const (
	perValue   = 600
	mostValues = 100_000
)

// tenant is a body that is arriving.
type tenant struct {
	in   []*room
	has  int64
	done func()
}

func (r *Rooms) newTenant(req *http.Request, known bool) *tenant {
	if known {
		return &tenant{in: []*room{r.known}, done: func() {}}
	}
	where, _, _ := net.SplitHostPort(req.RemoteAddr)
	own, done := r.shareOf(r.addresses, where, mostPerAddress)
	return &tenant{in: []*room{own, r.strange}, done: sync.OnceFunc(done)}
}

// grow takes room up to that size.
func (t *tenant) grow(ctx context.Context, size int64) error {
	more := size - t.has
	if more <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for i, room := range t.in {
		if !room.enter(ctx, more) {
			for _, entered := range t.in[:i] {
				entered.leave(more)
			}
			return ErrFull
		}
	}
	t.has = size
	return nil
}

func (t *tenant) leave() {
	for _, room := range t.in {
		room.leave(t.has)
	}
	t.has, t.in = 0, nil
	t.done()
}
