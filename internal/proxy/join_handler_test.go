package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"drover/internal/wire"
)

func TestJoinHandler(t *testing.T) {
	var passed []wire.RelayedJoin
	var fault error
	d := newJoinHandler(func(_ context.Context, r wire.RelayedJoin) (wire.RelayedAnswer, error) {
		passed = append(passed, r)
		return wire.RelayedAnswer{Status: 409, Body: []byte("no"), Header: map[string]string{
			"Content-Type":   "text/x",
			wire.ProofHeader: "p",
		}}, fault
	}, func() error { return fault }, slog.New(slog.DiscardHandler))
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.RemoteAddr = "10.0.0.5:4711"
		d.handler().ServeHTTP(w, r)
		return w
	}
	if w := ask("POST", wire.JoinPath, "question"); w.Code != 409 || w.Body.String() != "no" ||
		w.Header().Get(wire.ProofHeader) != "p" {
		t.Errorf("answered %d %s, %v", w.Code, w.Body, w.Header())
	}
	if len(passed) != 1 || passed[0].Remote != "10.0.0.5" || string(passed[0].Request) != "question" ||
		passed[0].Version != wire.Version {
		t.Errorf("passed on were %+v", passed)
	}
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", wire.JoinPath, "", 405},
		{"POST", wire.JoinPath + "/x", "", 404},
		{"POST", "/api/v1/tokens", "", 404},
		{"GET", "/", "", 404},
		{"POST", wire.JoinPath, strings.Repeat("x", maxJoin+1), 400},
	} {
		if w := ask(c.method, c.path, c.body); w.Code != c.want {
			t.Errorf("%s %s is answered %d, want %d", c.method, c.path, w.Code, c.want)
		}
	}
	if len(passed) != 1 {
		t.Errorf("%d requests were passed on", len(passed))
	}
	fault = errors.New("no way")
	for _, path := range []string{wire.JoinPath, "/readyz"} {
		method := map[bool]string{true: http.MethodPost, false: http.MethodGet}[path == wire.JoinPath]
		if w := ask(method, path, "x"); w.Code != 503 || !strings.Contains(w.Body.String(), `"detail"`) {
			t.Errorf("%s without a way is answered %d %s", path, w.Code, w.Body)
		}
	}
}

// TestJoinHandlerIsNotOverrun: beyond so many at the same time hosts are asked to come again.
func TestJoinHandlerIsNotOverrun(t *testing.T) {
	waiting, release := make(chan struct{}, joinsAtOnce), make(chan struct{})
	d := newJoinHandler(func(context.Context, wire.RelayedJoin) (wire.RelayedAnswer, error) {
		waiting <- struct{}{}
		<-release
		return wire.RelayedAnswer{Status: 200}, nil
	}, nil, slog.New(slog.DiscardHandler))
	post := func() int {
		w := httptest.NewRecorder()
		d.handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, wire.JoinPath,
			io.NopCloser(strings.NewReader("x"))))
		return w.Code
	}
	var all sync.WaitGroup
	for range joinsAtOnce {
		all.Go(func() {
			if code := post(); code != 200 {
				t.Errorf("answered %d", code)
			}
		})
	}
	for range joinsAtOnce {
		<-waiting
	}
	if code := post(); code != 503 {
		t.Errorf("one too many is answered %d", code)
	}
	close(release)
	all.Wait()
}
