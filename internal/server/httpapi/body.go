package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Bodies up to smallBody are simply read. What is larger has to find room first, so that no number of callers can make the server
// hold more than this; those who have not shown who they are share less of it.
const (
	smallBody     = 1 << 20
	roomOfCallers = 256 << 20
	roomOfOthers  = 128 << 20
	roomTime      = 20 * time.Second // to wait for room
)

// bodies is the room for large bodies.
type bodies struct{ callers, others *room }

func newBodies() bodies { return bodies{newRoom(roomOfCallers), newRoom(roomOfOthers)} }

// readBody returns the whole body of a request; release gives its room back once nobody needs it any more. known tells that the caller
// has been authenticated.
func (b bodies) readBody(ctx context.Context, w http.ResponseWriter, r *http.Request, known bool) (body []byte, release func(), err error) {
	release = func() {}
	if r.ContentLength > maxBody {
		return nil, release, bodyTooLarge()
	}
	in := http.MaxBytesReader(w, r.Body, maxBody)
	var whole bytes.Buffer
	_, err = whole.ReadFrom(io.LimitReader(in, smallBody+1))
	if err != nil || whole.Len() <= smallBody {
		return whole.Bytes(), release, unreadable(err)
	}
	size := r.ContentLength
	if size < 0 {
		size = maxBody
	}
	place := b.others
	if known {
		place = b.callers
	}
	waiting, cancel := context.WithTimeout(ctx, roomTime)
	defer cancel()
	if !place.enter(waiting, size) {
		return nil, release, refusef(tooMany, "too many large requests at the same time, try again later")
	}
	release = sync.OnceFunc(func() { place.leave(size) })
	if r.ContentLength > 0 {
		whole.Grow(int(r.ContentLength) - whole.Len() + bytes.MinRead) // in one piece, and never copied again
	}
	_, err = whole.ReadFrom(in)
	return whole.Bytes(), release, unreadable(err)
}

func bodyTooLarge() error { return refusef(tooLarge, "request body is larger than %d MB", maxBody>>20) }

// unreadable says what is wrong with a body that could not be read; nil if nothing is.
func unreadable(err error) error {
	if err == nil {
		return nil
	}
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return bodyTooLarge()
	}
	return refusef(badRequest, "request body could not be read to its end")
}

// room is an amount of bytes that is shared; who comes first is served first.
type room struct {
	mu    sync.Mutex
	free  int64
	queue []*guest
}

// guest waits for room; in is closed when it has it.
type guest struct {
	size int64
	in   chan struct{}
}

func newRoom(size int64) *room { return &room{free: size} }

// enter takes room, and reports false when there was none before the context ended.
func (r *room) enter(ctx context.Context, size int64) bool {
	g := &guest{size: size, in: make(chan struct{})}
	r.mu.Lock()
	r.queue = append(r.queue, g)
	r.admit()
	r.mu.Unlock()
	select {
	case <-g.in:
		return true
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, waiting := range r.queue {
		if waiting == g {
			r.queue = append(r.queue[:i], r.queue[i+1:]...)
			r.admit() // it may have stood in the way of smaller ones
			return false
		}
	}
	return true // it was let in at the last moment
}

func (r *room) leave(size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += size
	r.admit()
}

// admit lets in those that there is room for; the caller holds the lock.
func (r *room) admit() {
	for len(r.queue) > 0 && r.queue[0].size <= r.free {
		r.free -= r.queue[0].size
		close(r.queue[0].in)
		r.queue = r.queue[1:]
	}
}
