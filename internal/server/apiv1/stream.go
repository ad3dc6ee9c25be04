package apiv1

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"drover/internal/server/store"
)

const (
	// maxStreams is how many streams an app may have at the same time.
	maxStreams = 16
	// streamLife is how long a stream lasts; then its reader reconnects and is authenticated again.
	streamLife = 15 * time.Minute
	heartbeat  = 15 * time.Second
	// recheck is the interval at which a stream reads the rights of its reader again.
	recheck = 10 * time.Second
	// streamWrite is how long a reader may take to receive one write.
	streamWrite = 30 * time.Second
	// streamBatch is how many events are read, and held in memory, at once.
	streamBatch = 100
	// streamPause is the minimum time between two reads of new events, so that a burst of events needs few reads.
	streamPause = 50 * time.Millisecond
)

// streamSlots counts the open streams or replies of each app.
type streamSlots struct {
	mu    sync.Mutex
	byApp map[string]int
}

// enter adds one, unless the app has reached the limit.
func (s *streamSlots) enter(app string, most int) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byApp[app] >= most {
		return nil, false
	}
	if s.byApp == nil {
		s.byApp = map[string]int{}
	}
	s.byApp[app]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.byApp[app]--; s.byApp[app] == 0 {
			delete(s.byApp, app)
		}
	}, true
}

// streamEvents sends events as they arrive, as server-sent events. It ends when the caller hangs up, after streamLife,
// or when the server stops. A reader that reconnects with the id of the last event that it has read misses nothing.
func (h *Handler) streamEvents(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f, hosts := p.events()
	f.Copies = true
	after, resumed := p.cursorNumber("after", c.r.Header.Get("Last-Event-Id"))
	if err := p.done(); err != nil {
		return reply{}, err
	}
	f.Agents = h.chosen(hosts)
	last, err := h.Events.LastCursor(ctx)
	if err != nil {
		return reply{}, failure("read the events", err)
	}
	switch {
	case !resumed:
		after = last
	case after > last: // the cursor is from another database: every event here is new
		after = 0
	}
	leave, ok := h.streams.enter(c.Principal.App, maxStreams)
	if !ok {
		return reply{}, busy(fmt.Sprintf("the app has %d streams of events open", maxStreams),
			int(heartbeat/time.Second))
	}
	defer leave()
	if err := h.Audit.NoteAudit(ctx, c.Audit); err != nil {
		return reply{}, failure("record the call", err)
	}
	c.Audited = true
	s := stream{
		h: h, c: c, filter: f, at: after, reader: eventReader{h: h, who: &c.Principal}, checked: h.Now(),
		control: http.NewResponseController(c.w),
	}
	s.filter.Within = s.reader.eventsWithin(f.Namespaces)
	s.run(ctx)
	return reply{written: true}, nil
}

// cursorNumber reads the cursor that a stream sent with an event. The header of a reconnecting reader overrides the
// query.
func (p *params) cursorNumber(name, header string) (cursor int64, given bool) {
	v := p.text(name)
	if header != "" {
		v, name = header, "Last-Event-ID"
	}
	if v == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		p.fail(invalid(name, "is %.40q: expected the cursor of an event", v))
	}
	return n, true
}

// stream is one open stream.
type stream struct {
	h      *Handler
	c      *call
	filter store.EventFilter
	reader eventReader
	// at is the cursor up to which the stream has read, and looked the time of that read.
	at     int64
	looked time.Time
	// checked is the time at which the reader's rights were read.
	checked time.Time
	control *http.ResponseController
}

func (s *stream) run(ctx context.Context) {
	woken, stop := s.h.Arrivals.ListenEvents()
	defer stop()
	header := s.c.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // a proxy must not hold events back
	_ = s.control.SetReadDeadline(time.Time{})
	s.c.w.WriteHeader(http.StatusOK)
	beat, end := time.NewTicker(heartbeat), time.NewTimer(streamLife)
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
		case <-s.h.stopping.Done():
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
	case <-s.h.stopping.Done():
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
	if now.Sub(s.checked).Abs() < recheck {
		return true
	}
	if s.h.identify(ctx, s.c) != nil {
		return false
	}
	s.checked = now
	s.reader = eventReader{h: s.h, who: &s.c.Principal}
	s.filter.Within = s.reader.eventsWithin(s.filter.Namespaces)
	return true
}

// catchUp sends all new events; false means that the stream ends.
func (s *stream) catchUp(ctx context.Context) bool {
	for ctx.Err() == nil && s.h.stopping.Err() == nil && s.allowed(ctx) {
		s.looked = time.Now()
		events, next, err := s.h.Events.EventsAfter(ctx, s.at, s.filter, streamBatch)
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
		for _, v := range s.reader.views(events) {
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
	if _, err := s.c.w.Write(data); err != nil {
		return false
	}
	return s.control.Flush() == nil
}
