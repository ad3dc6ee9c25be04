package webui

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/bus"
	"drover/internal/words"
)

const (
	// hintPause is the least time between two hints of a stream, and hintShare that between two hints of all streams on
	// average: each hint may have a page read again. A stream pauses for longestPause at most, because it checks its
	// person after the pause.
	hintPause    = 500 * time.Millisecond
	hintShare    = 25 * time.Millisecond
	longestPause = 5 * time.Second
	// recheck is the interval at which a stream sends all versions, and checks that its person is still signed in.
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
	s := hints{w: w, control: http.NewResponseController(w), bus: h.Bus, pause: h.streams.pause}
	s.run(ctx, func() bool {
		_, _, err := h.person(ctx, r)
		return err == nil
	})
}

// hints is one stream.
type hints struct {
	w       http.ResponseWriter
	control *http.ResponseController
	bus     *bus.Bus
	pause   func() time.Duration // after each hint
	sent    map[bus.Topic]int64
}

// run sends hints until ctx ends, the browser is gone or allowed returns false.
func (s *hints) run(ctx context.Context, allowed func() bool) {
	changed, stop := s.bus.Listen(bus.PageTopics()...)
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
	now := s.bus.Versions()
	told := maps.Clone(now)
	if !whole {
		maps.DeleteFunc(told, func(t bus.Topic, version int64) bool { return s.sent[t] == version })
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

// pastEvents is the number of past events with which followed events begin.
const pastEvents = 200

// followEvents sends events as they arrive, as lines of a pane, after the last ones before. It is the stream of
// /api/v1, which also limits how many an app has open. It ends as that of a log does.
func (v *view) followEvents(ctx context.Context) error {
	f := eventFilter(v.r.URL.Query(), pastEvents)
	past, _ := v.client.EventPage(ctx, f, "") // the stream says in a form for the pane what is wrong
	lines, last := &eventLines{ResponseWriter: v.w, lang: v.lang}, int64(0)
	for i := range slices.Backward(past.Items) {
		lines.begin = append(lines.begin, lines.line(&past.Items[i])...)
		last = max(last, past.Items[i].Cursor)
	}
	q := url.Values{"namespace": f.Namespaces, "host": f.Hosts, "kind": f.Kinds}
	for name, value := range map[string]string{"name": f.Name, "selector": f.Selector} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if last > 0 {
		q.Set("after", strconv.FormatInt(last, 10))
	}
	return v.stream(ctx, lines, v1.RouteStreamEvents, q)
}

// eventLines turns the stream of events of /api/v1 into lines of a pane. It passes on every other answer.
type eventLines struct {
	http.ResponseWriter
	lang words.Lang
	// begin are the lines before the stream, and rest is a line of it that has no end yet.
	begin, rest []byte
	streams     bool
}

// Unwrap is for http.ResponseController.
func (w *eventLines) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *eventLines) WriteHeader(status int) {
	if w.streams = status == http.StatusOK; w.streams {
		w.Header().Set("Content-Type", "application/x-ndjson")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *eventLines) Write(p []byte) (int, error) {
	if !w.streams {
		return w.ResponseWriter.Write(p)
	}
	out := w.begin
	w.begin, w.rest = nil, append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			break
		}
		w.rest = rest
		var e v1.Event
		if data, isEvent := bytes.CutPrefix(line, []byte("data: ")); isEvent && json.Unmarshal(data, &e) == nil {
			out = append(out, w.line(&e)...)
		} else if bytes.HasPrefix(line, []byte(":")) {
			out = append(out, '\n') // it is alive
		}
	}
	if _, err := w.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// line is an event as a line of the pane.
func (w *eventLines) line(e *v1.Event) []byte {
	who := byline(e.Actor, w.lang)
	if who == "" {
		who = words.Actor(e.Actor.Kind).In(w.lang)
	}
	subject := e.Host.ID
	if e.Name != "" {
		subject += "  " + e.Namespace + "/" + e.Name
	}
	parts := []string{subject, words.Kind(e.Kind).In(w.lang)}
	if state := words.EventState(e.Kind, e.To); state != "" {
		parts = append(parts, words.State(state).In(w.lang))
	}
	parts = append(parts, who)
	if e.Cause != nil {
		parts = append(parts, words.CauseSentence(e.Cause.ID, e.Cause.Text, w.lang))
	}
	line, _ := json.Marshal(map[string]any{"at": e.At, "text": strings.Join(parts, "  ")}) // it always encodes
	return append(line, '\n')
}
