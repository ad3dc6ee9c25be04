package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"drover/internal/server/httpapi"
	"drover/internal/server/store"
	"drover/internal/server/store/storeopen"
)

// openStore opens the database, and waits while it is not available. Meanwhile HTTP reports that.
func (s *Server) openStore(ctx context.Context, tcp net.Listener) (_ store.Store, err error) {
	name := cmp.Or(s.cfg.Database, filepath.Join(s.cfg.Dir, "drover.db"))
	w := &startupHandler{}
	defer func() { err = errors.Join(err, w.end()) }()
	return storeopen.Wait(ctx, name, s.metrics, s.cfg.Log, func(err error) {
		w.setReason(err)
		w.begin(func() *http.Server { return httpapi.NewServer(w, s.cfg.Log) }, tcp, s.joining.listener)
	})
}

// startupHandler answers HTTP for a server that waits for its database: the server is alive and not ready.
type startupHandler struct {
	mu     sync.Mutex
	reason string

	server   *http.Server // nil until begin
	listener *borrowedListener
	served   sync.WaitGroup
}

func (h *startupHandler) setReason(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reason = "waiting for the database: " + err.Error()
}

// begin serves on a listener, once; end returns the listener.
func (h *startupHandler) begin(server func() *http.Server, l net.Listener, dressed func(net.Listener) net.Listener) {
	if h.server != nil {
		return
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return
	}
	h.server, h.listener = server(), &borrowedListener{tcp}
	h.served.Go(func() { _ = h.server.Serve(dressed(h.listener)) }) // end stops it
}

// end stops the server and frees the listener for its caller.
func (h *startupHandler) end() error {
	if h.server == nil {
		return nil
	}
	err := h.server.Close()
	h.served.Wait()
	return errors.Join(err, h.listener.SetDeadline(time.Time{}))
}

// ServeHTTP implements http.Handler.
func (h *startupHandler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		writeStatus(rw, http.StatusOK, map[string]string{"status": "ok"})
		return
	}
	h.mu.Lock()
	reason := h.reason
	h.mu.Unlock()
	rw.Header().Set("Retry-After", "5")
	writeStatus(rw, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": reason})
}

func writeStatus(rw http.ResponseWriter, status int, what map[string]string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(what) // the peer is gone; there is no one to report to
}

// borrowedListener is a listener whose Close ends Accept and leaves the socket open.
type borrowedListener struct{ *net.TCPListener }

// Close ends the wait for connections.
func (l *borrowedListener) Close() error { return l.SetDeadline(time.Unix(1, 0)) }
