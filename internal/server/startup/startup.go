// Package startup opens the database of a server, and answers HTTP while the database is not available: the server is
// alive, and not ready.
package startup

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"drover/internal/server/httpapi"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
	"drover/internal/server/store/storeopen"
)

// Config is what the wait for a database needs.
type Config struct {
	// Database is the URL of a PostgreSQL database, or the path of a SQLite file.
	Database string
	// Watch receives notices of what is stored.
	Watch kit.Watch
	// Listener is the listener of the API, and TLS wraps it as the API will.
	Listener net.Listener
	TLS      func(net.Listener) net.Listener
	Log      *slog.Logger
}

// Open opens the database, and waits until ctx ends while the database is not available. Meanwhile HTTP reports that.
// The listener is free again when Open returns.
func Open(ctx context.Context, cfg Config) (_ store.Store, err error) {
	h := &handler{}
	defer func() { err = errors.Join(err, h.end()) }()
	return storeopen.Wait(ctx, cfg.Database, cfg.Watch, cfg.Log, func(err error) {
		h.setReason(err)
		h.begin(func() *http.Server { return httpapi.NewServer(h, cfg.Log) }, cfg.Listener, cfg.TLS)
	})
}

// handler answers HTTP for a server that waits for its database: the server is alive and not ready.
type handler struct {
	mu     sync.Mutex
	reason string

	server   *http.Server // nil until begin
	listener *borrowedListener
	served   sync.WaitGroup
}

func (h *handler) setReason(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reason = "waiting for the database: " + err.Error()
}

// begin serves on a listener, once; end returns the listener.
func (h *handler) begin(server func() *http.Server, l net.Listener, wrapped func(net.Listener) net.Listener) {
	if h.server != nil {
		return
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return
	}
	h.server, h.listener = server(), &borrowedListener{tcp}
	h.served.Go(func() { _ = h.server.Serve(wrapped(h.listener)) }) // end stops it
}

// end stops the server and frees the listener for its caller.
func (h *handler) end() error {
	if h.server == nil {
		return nil
	}
	err := h.server.Close()
	h.served.Wait()
	return errors.Join(err, h.listener.SetDeadline(time.Time{}))
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
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

func writeStatus(rw http.ResponseWriter, status int, fields map[string]string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(fields) // the peer is gone; there is no one to report to
}

// borrowedListener is a listener whose Close ends Accept and leaves the socket open.
type borrowedListener struct{ *net.TCPListener }

// Close ends the wait for connections.
func (l *borrowedListener) Close() error { return l.SetDeadline(time.Unix(1, 0)) }
