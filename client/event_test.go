package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/client"
)

// history is a server with events 1 to n, which are of kind "exited"; it ends streams as it is told to.
type history struct {
	t *testing.T

	mu sync.Mutex
	n  int64
	// asked are the places that streams were asked to begin after.
	asked []string
	// next is how the next stream ends, after it has sent all.
	next func(w http.ResponseWriter)
}

func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.URL.Path == "/behind/api/v1/events" {
		items := []any{}
		for c := h.n; c > 0; c-- {
			items = append(items, map[string]any{"cursor": c, "kind": "exited"})
		}
		if r.URL.Query().Get("limit") == "1" {
			reply(w, map[string]any{"items": items[:min(1, len(items))], "last": h.n, "next_cursor": "x"})
			h.n++ // one more arrives while the list is read
			return
		}
		reply(w, map[string]any{"items": items, "last": h.n})
		return
	}
	after := r.URL.Query().Get("after")
	h.asked = append(h.asked, after)
	var at int64
	if _, err := fmt.Sscan(after, &at); err != nil {
		h.t.Error(err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, ": still here\nid: %d\n\n", at)
	h.n++
	for c := at + 1; c <= h.n; c++ {
		_, _ = fmt.Fprintf(w, "id: %d\nevent: exited\ndata: {\"cursor\":%d,\"kind\":\"exited\"}\n\n", c, c)
	}
	h.n += 2 // these were not for the reader
	_, _ = fmt.Fprintf(w, ": still here\nid: %d\n\nid: 99\nevent: cut", h.n)
	_ = http.NewResponseController(w).Flush()
	if h.next != nil {
		h.next(w)
	}
}

// TestFollowEvents: each event comes once, whatever becomes of the connection in between.
func TestFollowEvents(t *testing.T) {
	h := &history{t: t, n: 3}
	c := serve(t, h.ServeHTTP)
	ends := []func(http.ResponseWriter){
		nil, // as a server does after a while
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		nil,
	}
	var got []string
	lost, streams := 0, 0
	h.next = func(w http.ResponseWriter) {
		end := ends[streams%len(ends)]
		streams++
		if end != nil {
			end(w)
		}
	}
	for e, err := range c.FollowEvents(t.Context(), client.EventFilter{Limit: 10}) {
		if _, away := errors.AsType[*client.UnreachableError](err); away {
			lost++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, fmt.Sprint(e.Cursor)); len(got) == 7 {
			break
		}
	}
	// 4 arrives between the two calls; 6 and 7, 9 and 10 are not for the reader.
	if all := strings.Join(got, " "); all != "1 2 3 4 5 8 11" || lost != 1 {
		t.Errorf("got %s, lost the server %d times", all, lost)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if asked := strings.Join(h.asked, " "); asked != "3 7 10" {
		t.Errorf("asked for what comes after %s", asked)
	}
}

func TestFollowingEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a refusal": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			reply(w, v1.Problem{Title: "T", Detail: "not allowed"})
		}, "not allowed"},
		"something else": {
			func(w http.ResponseWriter, _ *http.Request) { reply(w, map[string]any{}) },
			"is it a drover server?",
		},
		"a bad place": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, "id: x\n\n")
		}, "cannot read the events"},
		"an event that came as another one": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, "id: 7\nevent: exited\ndata: {\"cursor\":6,\"kind\":\"exited\"}\n\n")
		}, "cursor 6 came as 7"},
		"a bad event": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, "id: 1\ndata: {\n\n")
		}, "cannot read an event"},
	} {
		c := serve(t, tt.answer)
		n := 0
		for _, err := range c.EventsAfter(t.Context(), client.EventFilter{}, 5) {
			if n++; err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n != 1 {
			t.Errorf("%s was told %d times", name, n)
		}
	}
}

func TestFollowingIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	})
	n := 0
	for _, err := range c.EventsAfter(ctx, client.EventFilter{}, 0) {
		if n++; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	if n != 1 {
		t.Errorf("it ended with %d errors", n)
	}
}

func TestEventFilter(t *testing.T) {
	var asked string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		reply(w, map[string]any{"items": []any{}})
	})
	day := time.Date(2026, 11, 20, 10, 30, 0, 5000000, time.FixedZone("", 3600))
	f := client.EventFilter{
		Namespaces: []string{"a", "b*"}, Name: "n", Hosts: []string{"h"}, Kinds: []string{"exited", "started"},
		Since: day, Until: day.Add(time.Hour), Limit: 7,
	}
	if _, err := client.Collect(c.Events(t.Context(), f)); err != nil {
		t.Fatal(err)
	}
	want := "host=h&kind=exited&kind=started&limit=7&name=n&namespace=a&namespace=b%2A&since=2026-11-20T09%3A30%3A00.005Z&until=2026-11-20T10%3A30%3A00.005Z"
	if asked != want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
}
