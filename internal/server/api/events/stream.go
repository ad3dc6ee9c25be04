package events

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/api/call"
	"drover/internal/server/bus"
	"drover/internal/server/store"
)

// streamLife is how long a stream lasts. Then the reader reconnects, and the server authenticates the reader again.
const streamLife = 15 * time.Minute

// streamWrite is how long a reader may take to receive one write.
const streamWrite = 30 * time.Second

// streamBatch is how many events a stream reads and keeps in memory at once.
const streamBatch = 100

// streamPause is the minimum time between two reads of new events, so that a burst of events needs few reads.
const streamPause = 50 * time.Millisecond

// Stream sends events as they arrive, as server-sent events. It ends when the caller hangs up, after streamLife, or
// when the server stops. A reader that reconnects with the id of its last event misses nothing.
func (h *Handler) Stream(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	f, hosts := filterOf(p)
	f.Copies = true
	after, resumed := cursorNumber(p, "after", c.Request.Header.Get("Last-Event-Id"))
	if err := p.Done(); err != nil {
		return call.Reply{}, err
	}
	f.Agents = h.hosts.KeysOf(hosts) // removed hosts have no further events
	last, err := h.Events.LastCursor(ctx)
	if err != nil {
		return call.Reply{}, call.Failure("read the events", err)
	}
	switch {
	case !resumed:
		after = last
	case after > last: // the cursor is from another database: every event here is new
		after = 0
	}
	leave, ok := h.streams.Enter(c.Principal.App, call.MaxStreams)
	if !ok {
		return call.Reply{}, call.Busy(fmt.Sprintf("the app has %d streams of events open", call.MaxStreams),
			int(call.Heartbeat/time.Second))
	}
	defer leave()
	if err := h.Audit.NoteAudit(ctx, c.Row()); err != nil {
		return call.Reply{}, call.Failure("record the call", err)
	}
	c.Audited = true
	s := stream{
		h: h, c: c, filter: f, at: after, reader: h.Reader(&c.Principal), checked: h.Now(),
		control: http.NewResponseController(c.Response),
	}
	s.filter.Within = s.reader.eventsWithin(f.Namespaces)
	s.run(ctx)
	return call.Reply{Written: true}, nil
}

// cursorNumber reads the cursor that a stream sent with an event. The header of a reconnecting reader overrides the
// query.
func cursorNumber(p *call.Params, name, header string) (cursor int64, given bool) {
	v := p.Text(name)
	if header != "" {
		v, name = header, "Last-Event-ID"
	}
	if v == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		p.Fail(call.Invalid(name, "is %.40q: expected the cursor of an event", v))
	}
	return n, true
}

// stream is one open stream.
type stream struct {
	h      *Handler
	c      *call.Call
	filter store.EventFilter
	reader Reader
	// at is the cursor up to which the stream has read events, and looked the time of that read.
	at     int64
	looked time.Time
	// checked is the time at which the reader's rights were read.
	checked time.Time
	control *http.ResponseController
}

func (s *stream) run(ctx context.Context) {
	woken, stop := s.h.Bus.Listen(bus.Events)
	defer stop()
	header := s.c.Response.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // a proxy must not hold events back
	s.c.Response.WriteHeader(http.StatusOK)
	beat, end := time.NewTicker(call.Heartbeat), time.NewTimer(streamLife)
	defer beat.Stop()
	defer end.Stop()
	alive := true
	for tell := true; alive; {
		if tell {
			alive = s.send(s.place("still here"))
		}
		alive = alive && s.catchUp(ctx)
		if !alive {
			return
		}
		select {
		case <-woken:
			tell = false
			alive = s.pause(ctx)
		case <-beat.C:
			tell = true
		case <-end.C:
			return
		case <-ctx.Done():
			return
		case <-s.h.Stopping.Done():
			return
		}
	}
}

// pause waits until the next read is due; false means that the stream ends.
func (s *stream) pause(ctx context.Context) bool {
	timer := time.NewTimer(streamPause - time.Since(s.looked))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-s.h.Stopping.Done():
		return false
	}
}

// place returns a comment line with the cursor up to which the stream has read, even if no event was for the reader.
func (s *stream) place(comment string) []byte {
	return fmt.Appendf(nil, ": %s\nid: %d\n\n", comment, s.at)
}

// allowed reads the rights of the reader again when they are due; false means that the reader has none now. The reader
// gets the error when it reconnects.
func (s *stream) allowed(ctx context.Context) bool {
	now := s.h.Now()
	if now.Sub(s.checked).Abs() < call.Recheck {
		return true
	}
	if s.h.Authenticate(ctx, s.c) != nil {
		return false
	}
	s.checked = now
	s.reader = s.h.Reader(&s.c.Principal)
	s.filter.Within = s.reader.eventsWithin(s.filter.Namespaces)
	return true
}

// catchUp sends all new events; false means that the stream ends.
func (s *stream) catchUp(ctx context.Context) bool {
	for ctx.Err() == nil && s.h.Stopping.Err() == nil && s.allowed(ctx) {
		s.looked = time.Now()
		events, next, err := s.h.Events.EventsAfter(ctx, s.at, s.filter, streamBatch)
		var views []v1.Event
		if err == nil {
			views, err = s.reader.views(ctx, events)
		}
		if err != nil {
			if ctx.Err() == nil {
				s.h.Log.ErrorContext(ctx, "stream of events ended", "request", s.c.Audit.RequestID, "error", err)
			}
			return false
		}
		if next == s.at {
			return true
		}
		var out bytes.Buffer
		for _, v := range views {
			data, err := json.Marshal(v)
			if err != nil { // not reached: a plain struct always encodes
				continue
			}
			fmt.Fprintf(&out, "id: %d\nevent: %s\ndata: %s\n\n", v.Cursor, lineOf(v.Kind), data)
		}
		s.at = next
		if out.Len() > 0 && !s.send(out.Bytes()) {
			return false
		}
	}
	return false
}

// lineOf returns the kind of an event as a line of the stream. Kinds come from agents: a kind with a line break could
// forge another event.
func lineOf(kind string) string {
	if kind == "" || strings.ContainsFunc(kind, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }) {
		return "other"
	}
	return kind
}

// send writes to the reader; false means that the reader is gone or too slow.
func (s *stream) send(data []byte) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(streamWrite)) // a test recorder has no deadline
	if _, err := s.c.Response.Write(data); err != nil {
		return false
	}
	return s.control.Flush() == nil
}
