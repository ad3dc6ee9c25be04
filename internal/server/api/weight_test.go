package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/store"
)

// TestAPageOfLargeProcessesIsShort: what one call holds in memory is bounded, and what is hidden from the caller takes
// nothing of it.
func TestAPageOfLargeProcessesIsShort(t *testing.T) {
	r := newRig(t)
	r.app("reader", "read on mine")
	const all = 40
	var rows []store.Observed
	for i := range all {
		for _, namespace := range []string{"hidden", "mine"} {
			spec := &process.Spec{
				ProcessName: "x", Directory: "/", User: "root", Compat: new(v1.Compat{}.Defaulted()),
				Start: fmt.Sprint(i) + strings.Repeat("x", 500<<10),
			}
			rows = append(rows, store.Observed{
				Agent: web, Process: process.ID{Namespace: namespace, Name: fmt.Sprintf("p%02d", i)}, Spec: spec,
				Status: process.Status{Known: true, State: "stopped", Instance: process.Instance{PID: -1}},
			})
		}
	}
	r.must(r.store.PutObserved(t.Context(), store.ReportMark{}, rows, nil))
	for _, query := range []string{"limit=1000", "limit=1000&spec=true"} {
		cursor, seen := "", 0
		for first := true; first || cursor != ""; first = false {
			path := "/processes?" + query
			if cursor != "" {
				path += "&cursor=" + cursor
			}
			a := r.want(200, r.call("reader", "GET", path, nil))
			n := len(a.items("name"))
			if seen += n; n > 20 && strings.Contains(query, "spec") {
				t.Errorf("a page has %d processes of 500 KiB", n)
			}
			cursor = a.cursor()
		}
		if seen != all {
			t.Errorf("%s: %d processes, want %d", query, seen, all)
		}
	}
}

// TestAPageOfLongResultsIsShort: likewise of what commands have said.
func TestAPageOfLongResultsIsShort(t *testing.T) {
	r := newRig(t)
	r.app("mine", "* on mine")
	var targets []any
	const all = 150
	for i := range all {
		targets = append(targets, map[string]any{
			"namespace": "mine", "name": fmt.Sprintf("p%03d", i),
			"hosts": []string{"web-1"},
		})
	}
	id, _ := r.want(202,
		r.call("mine", "POST", "/tasks", map[string]any{"op": "stop", "targets": targets})).body["id"].(string)
	r.engine.finish(t, web, process.Outcome{Fault: process.Failed, Text: strings.Repeat("x", 128<<10)})
	cursor, seen := "", 0
	for first := true; first || cursor != ""; first = false {
		path := "/tasks/" + id + "/results?limit=1000"
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		a := r.want(200, r.call("mine", "GET", path, nil))
		n := len(a.items("name"))
		if seen += n; n > 100 {
			t.Errorf("a page has %d results of 128 KiB", n)
		}
		cursor = a.cursor()
	}
	if seen != all {
		t.Errorf("%d results, want %d", seen, all)
	}
}

// unread is a caller who does not read his answer until he is told to.
type unread struct {
	http.ResponseWriter
	begun, end chan struct{}
	once       sync.Once
}

func (u *unread) Write(p []byte) (int, error) {
	u.once.Do(func() { close(u.begun) })
	<-u.end
	return u.ResponseWriter.Write(p)
}

// TestLargeAnswersThatAreNotRead: an app has so many at a time, and others are not in its way; small ones do not count.
func TestLargeAnswersThatAreNotRead(t *testing.T) {
	r := newRig(t)
	r.app("slow", "read on mine")
	r.app("other", "read on mine")
	r.observe("mine/x@" + web + " running")
	spec := &process.Spec{
		ProcessName: "x", Directory: "/", User: "root", Compat: new(v1.Compat{}.Defaulted()),
	}
	spec.Start = strings.Repeat("x", 2<<20)
	r.must(r.store.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{{
		Agent: web, Process: process.ID{Namespace: "mine", Name: "large"}, Spec: spec,
		Status: process.Status{Known: true, State: "stopped", Instance: process.Instance{PID: -1}},
	}}, nil))
	end := make(chan struct{})
	var calls sync.WaitGroup
	for range 8 {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/processes?spec=true", http.NoBody)
		req.Header.Set("X-Bkapi-Authorization", `{"bk_app_code":"slow","bk_app_secret":"s","bk_username":"anna"}`)
		w := &unread{ResponseWriter: httptest.NewRecorder(), begun: make(chan struct{}), end: end}
		calls.Go(func() { r.handler.ServeHTTP(w, req) })
		<-w.begun
	}
	if a := r.call("slow", "GET", "/processes?spec=true", nil); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("one more is answered with HTTP %d", a.status)
	}
	r.want(200, r.call("slow", "GET", "/processes", nil))
	r.want(200, r.call("other", "GET", "/processes?spec=true", nil))
	close(end)
	calls.Wait()
	r.want(200, r.call("slow", "GET", "/processes?spec=true", nil))
}
