package servers

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"drover/internal/command"
)

// TestReadyTellsWhy: the reason of a server that is not ready reaches the caller, and no control character of it does.
func TestReadyTellsWhy(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{http.StatusOK, `{"status":"ready"}`, ""},
		{http.StatusServiceUnavailable, `{"reason":"the database is away\u001b[2J"}`, `the server is not ready: the database is away?[2J`},
		{http.StatusServiceUnavailable, `{}`, "the server is not ready: it answers with status 503"},
		{http.StatusBadGateway, `<html>`, "the server is not ready: it answers with status 502"},
	} {
		socket := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})}
		go func() { _ = server.Serve(listener) }()
		got := ""
		if err := askReady(t.Context(), socket); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d %s: %q, want %q", c.status, c.body, got, c.want)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		var exit *command.ExitError
		if err := askReady(t.Context(), socket); !errors.As(err, &exit) || exit.Code != command.Unreachable {
			t.Errorf("without a server: %v", err)
		}
	}
}
