package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

// follower reads a stream over a real connection.
type follower struct {
	t    *testing.T
	r    *rig
	body io.ReadCloser
	in   *bufio.Reader
}

// message is one block of a stream; one of a comment has no kind.
type message struct{ id, kind, data string }

// listen serves the rig.
func (r *rig) listen() *httptest.Server {
	s := httptest.NewServer(r.handler)
	r.t.Cleanup(func() {
		r.handler.Stop()
		s.Close()
	})
	return s
}

// follow opens a stream; the header is that of a reader that comes back.
func (r *rig) follow(ctx context.Context, s *httptest.Server, app, query, lastID string) (*follower, *http.Response) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v1/events/stream"+query, nil)
	r.must(err)
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q}`, app))
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := s.Client().Do(req)
	r.must(err)
	r.t.Cleanup(func() { resp.Body.Close() })
	return &follower{r.t, r, resp.Body, bufio.NewReader(resp.Body)}, resp
}

// next returns the next message; io.EOF is the end of the stream.
func (f *follower) next() (m message, err error) {
	f.t.Helper()
	for {
		line, err := f.in.ReadString('\n')
		if err != nil {
			return m, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			m.id = value
		case "event":
			m.kind = value
		case "data":
			m.data = value
			var v any
			f.r.must(json.Unmarshal([]byte(value), &v))
			schema := f.r.doc.Components.Schemas["V1Event"].Value
			if err := schema.VisitJSON(v, openapi3.MultiErrors()); err != nil {
				f.t.Errorf("not as described: %v", err)
			}
		case "":
			if line == "\n" {
				return m, nil
			}
		default:
			f.t.Errorf("a line of %q", line)
		}
	}
}

// wants fails the test unless the next messages are these, as "id kind name", or "id" for a comment.
func (f *follower) wants(want ...string) {
	f.t.Helper()
	for _, w := range want {
		m, err := f.next()
		f.r.must(err)
		got := m.id
		if m.data != "" {
			var v struct {
				Cursor int64
				Kind   string
				Name   string
			}
			f.r.must(json.Unmarshal([]byte(m.data), &v))
			got = fmt.Sprint(v.Cursor, " ", v.Kind, " ", v.Name)
			if m.id != fmt.Sprint(v.Cursor) || m.kind != v.Kind {
				f.t.Errorf("%+v", m)
			}
		}
		if got != w {
			f.t.Errorf("got %q, want %q", got, w)
		}
	}
}

func TestStream(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("a-only", "query on a")
	s := r.listen()
	r.happen("a/old@"+web+" exited 1", "b/old@"+web+" exited 2")

	all, resp := r.follow(t.Context(), s, "admin", "", "")
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" ||
		resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("the header is %v", resp.Header)
	}
	all.wants("2")
	mine, _ := r.follow(t.Context(), s, "a-only", "", "")
	mine.wants("2")
	some, _ := r.follow(t.Context(), s, "admin", "?kind=started&host=web-1&namespace=a", "")
	some.wants("2")
	r.happen("a/x@"+web+" exited 3", "b/y@"+web+" started 4", "a/z@"+plain+" started 5", "a/w@"+web+" started 6")
	all.wants("3 exited x", "4 started y", "5 started z", "6 started w")
	mine.wants("3 exited x", "5 started z", "6 started w")
	some.wants("6 started w")

	// One who comes back goes on where he was, whatever the address says.
	for _, from := range [][2]string{{"?after=4", ""}, {"?after=1", "4"}, {"", "4"}} {
		again, _ := r.follow(t.Context(), s, "admin", from[0], from[1])
		again.wants("4", "5 started z", "6 started w")
	}
	since, _ := r.follow(t.Context(), s, "admin", "?after=0&since=2026-11-20T10:00:05Z", "")
	since.wants("0", "5 started z", "6 started w")
	// A place that was never given out belongs to a database that is gone.
	other, _ := r.follow(t.Context(), s, "admin", "?after=7", "")
	other.wants("0", "1 exited old", "2 exited old", "3 exited x", "4 started y", "5 started z", "6 started w")

	r.handler.Stop()
	for _, f := range []*follower{all, mine, some, other} {
		if m, err := f.next(); err != io.EOF { //nolint:errorlint // the reader returns it as it is
			t.Errorf("a server that stops ended a stream with %+v, %v", m, err)
		}
	}
	r.listening(t, 0)
}

// listening waits until so many listen to the bus.
func (r *rig) listening(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); r.bus.Listeners() > want; {
		if time.Now().After(deadline) {
			t.Fatalf("%d still listen", r.bus.Listeners())
		}
		<-time.After(time.Millisecond)
	}
}

// TestRightsOnAStream: what is taken from an app, or given to it, soon counts for the streams that it has open.
func TestRightsOnAStream(t *testing.T) {
	r := newRig(t)
	r.app("reader", "query on a")
	s := r.listen()
	f, _ := r.follow(t.Context(), s, "reader", "", "")
	f.wants("0")
	r.happen("a/x@"+web+" exited 1", "b/x@"+web+" exited 2", "a/x@"+web+" exited 3")
	f.wants("1 exited x", "3 exited x") // what is between them has passed
	change := func(change func(*store.App)) {
		_, err := r.store.ChangeApp(t.Context(), "reader", func(a *store.App) error {
			change(a)
			return nil
		})
		r.must(err)
		r.ahead.Add(int64(10 * time.Second))
	}
	grant, err := access.ParseGrant("query on b")
	r.must(err)
	change(func(a *store.App) { a.Grants = []access.Grant{grant} })
	r.happen("a/y@"+web+" exited 4", "b/y@"+web+" exited 5")
	f.wants("5 exited y")
	change(func(a *store.App) { a.Disabled = true })
	r.happen("b/z@" + web + " exited 6")
	if m, err := f.next(); !errors.Is(err, io.EOF) {
		t.Errorf("%+v, %v: want the end of the stream of a disabled app", m, err)
	}
}

func TestStreamRefused(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	for query, field := range map[string]string{
		"after=x": "after", "after=-1": "after", "kind=eaten": "kind", "until=2026-11-20T10:00:00Z": "until",
		"cursor=x": "cursor", "limit=1": "limit",
	} {
		r.refused(r.call("admin", "GET", "/events/stream?"+query, nil), 422, field)
	}
	r.want(401, r.call("nobody", "GET", "/events/stream", nil))
}

// TestStreamsAreBounded for each app; one that ends makes room.
func TestStreamsAreBounded(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("other", "query on a")
	s := r.listen()
	ctx, hangUp := context.WithCancel(t.Context())
	for range 16 {
		f, _ := r.follow(ctx, s, "admin", "", "")
		f.wants("0")
	}
	if _, resp := r.follow(ctx, s, "admin", "", ""); resp.StatusCode != http.StatusTooManyRequests ||
		resp.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: HTTP %d, %v", resp.StatusCode, resp.Header)
	}
	f, _ := r.follow(t.Context(), s, "other", "", "")
	f.wants("0")
	hangUp()
	r.listening(t, 1) // the one of the other app
	for {
		f, resp := r.follow(t.Context(), s, "admin", "", "")
		if resp.StatusCode == http.StatusOK {
			f.wants("0")
			break
		}
	}
}

// TestManyEventsOnAStream: more than are read at once arrive in their order, and a reader that does not read holds up
// no other.
func TestManyEventsOnAStream(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	s := r.listen()
	lazy, _ := r.follow(t.Context(), s, "admin", "", "")
	lazy.wants("0")
	eager, _ := r.follow(t.Context(), s, "admin", "", "")
	eager.wants("0")
	var rows []string
	for n := range 1500 {
		rows = append(rows, fmt.Sprintf("a/p%d@%s exited %d", n, web, n))
	}
	r.happen(rows...)
	for n := range rows {
		eager.wants(fmt.Sprintf("%d exited p%d", n+1, n))
	}
	lazy.wants("1 exited p0", "2 exited p1")
}
