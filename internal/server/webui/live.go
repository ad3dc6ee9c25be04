package webui

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"drover/internal/server/pulse"
)

// Pulse tells that something has changed.
type Pulse interface {
	Versions() map[pulse.Topic]int64
	Listen() (changed <-chan struct{}, stop func())
}

const (
	// hintPause is the least time between two hints of a stream, and hintShare that between two hints of all streams on
	// average: each hint may have a page read again. A stream pauses for longestPause at most, because it checks its
	// person after the pause.
	hintPause    = 500 * time.Millisecond
	hintShare    = 25 * time.Millisecond
	longestPause = 5 * time.Second
	// recheck is how often a stream sends all versions, and checks that its person may still be here.
	recheck = 10 * time.Second
	// A person may have personStreams open streams, and all people together allStreams: a browser needs one.
	personStreams, allStreams = 20, 1000
	// streamWrite is how long a browser may take to receive a hint.
	streamWrite = 10 * time.Second
)

// streams counts open streams.
type streams struct {
	mu   sync.Mutex
	of   map[string]int
	open int
}

// enter adds a stream of a person, unless there are too many.
func (s *streams) enter(person string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= allStreams || s.of[person] >= personStreams {
		return nil, false
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.open++
	s.of[person]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		if s.of[person]--; s.of[person] == 0 {
			delete(s.of, person)
		}
	}, true
}

// pause is how long each stream waits after a hint. It grows with the number of streams, so that the pages of many
// people take no more of the server than those of some.
func (s *streams) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(hintPause, time.Duration(s.open)*hintShare), longestPause)
}

// Stop ends the streams, so that a server that shuts down need not wait for them.
func (h *Handler) Stop() { h.stop() }

// live sends hints to a browser, as server-sent events: versions of topics, as a JSON object. A hint has the topics
// that have changed since the hint before; every 10 s it has all topics. The stream ends when the browser hangs up,
// when the person may not be here any more, which an event named over says, and when the server stops.
func (h *Handler) live(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.stopping, cancel)() //nolint:contextcheck // both end the stream
	who, _, err := h.person(ctx, r)
	if err != nil {
		http.Error(w, "There is no session.", http.StatusUnauthorized) // not the page that signs in
		return
	}
	leave, ok := h.streams.enter(who.User)
	if !ok {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "There are too many streams.", http.StatusTooManyRequests)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not hold hints back
	s := hints{w: w, control: http.NewResponseController(w), pulse: h.Pulse, pause: h.streams.pause}
	s.run(ctx, func() bool {
		_, _, err := h.person(ctx, r)
		return err == nil
	})
}

// hints is one stream.
type hints struct {
	w       http.ResponseWriter
	control *http.ResponseController
	pulse   Pulse
	pause   func() time.Duration // after each hint
	sent    map[pulse.Topic]int64
}

// run sends hints until ctx ends, the browser is gone or allowed returns false.
func (s *hints) run(ctx context.Context, allowed func() bool) {
	changed, stop := s.pulse.Listen()
	defer stop()
	all := time.NewTicker(recheck)
	defer all.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for whole := true; s.send(whole); {
		pause.Reset(s.pause())
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		select {
		case <-all.C: // it is due, whatever has changed
			whole = true
		default:
			select {
			case <-changed:
				whole = false
			case <-all.C:
				whole = true
			case <-ctx.Done():
				return
			}
		}
		if whole && !allowed() {
			s.write("event: over\ndata: {}\n\n") // so that the page looks at once
			return
		}
	}
}

// send sends the versions that have changed, or all; false means that the browser is gone or too slow.
func (s *hints) send(whole bool) bool {
	now := s.pulse.Versions()
	told := maps.Clone(now)
	if !whole {
		maps.DeleteFunc(told, func(t pulse.Topic, version int64) bool { return s.sent[t] == version })
	}
	if s.sent = now; len(told) == 0 {
		return true
	}
	data, _ := json.Marshal(told) // a map of numbers always encodes
	return s.write("data: " + string(data) + "\n\n")
}

func (s *hints) write(event string) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := io.WriteString(s.w, event); err != nil {
		return false
	}
	return s.control.Flush() == nil
}
