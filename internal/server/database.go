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

// openStore opens the database, and waits for one that is not available. Meanwhile HTTP says so.
func (s *Server) openStore(ctx context.Context, tcp net.Listener) (_ store.Store, err error) {
	name := cmp.Or(s.cfg.Database, filepath.Join(s.cfg.Dir, "drover.db"))
	w := &waiting{}
	defer func() { err = errors.Join(err, w.end()) }()
	return storeopen.Wait(ctx, name, s.metrics, s.cfg.Log, func(err error) {
		w.because(err)
		w.begin(func() *http.Server { return httpapi.NewServer(w, s.cfg.Log) }, tcp, s.joining.listener)
	})
}

// waiting answers HTTP for a server that waits for its database: it is alive, and takes no calls.
type waiting struct {
	mu     sync.Mutex
	reason string

	server   *http.Server // nil until it has begun
	listener *lent
	served   sync.WaitGroup
}

func (w *waiting) because(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reason = "waiting for the database: " + err.Error()
}

// begin serves on a listener that is given back by end; once.
func (w *waiting) begin(server func() *http.Server, l net.Listener, dressed func(net.Listener) net.Listener) {
	if w.server != nil {
		return
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return
	}
	w.server, w.listener = server(), &lent{tcp}
	w.served.Go(func() { _ = w.server.Serve(dressed(w.listener)) }) // it ends with end
}

// end gives the listener back.
func (w *waiting) end() error {
	if w.server == nil {
		return nil
	}
	err := w.server.Close()
	w.served.Wait()
	return errors.Join(err, w.listener.SetDeadline(time.Time{}))
}

// ServeHTTP implements http.Handler.
func (w *waiting) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		tell(rw, http.StatusOK, map[string]string{"status": "ok"})
		return
	}
	w.mu.Lock()
	reason := w.reason
	w.mu.Unlock()
	rw.Header().Set("Retry-After", "5")
	tell(rw, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": reason})
}

func tell(rw http.ResponseWriter, status int, what map[string]string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(what) // the peer is gone: nothing is left to tell it
}

// lent is a listener that Close takes from its server, and leaves open.
type lent struct{ *net.TCPListener }

// Close ends the wait for connections.
func (l *lent) Close() error { return l.SetDeadline(time.Unix(1, 0)) }
