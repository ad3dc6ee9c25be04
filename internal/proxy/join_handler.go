package proxy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"drover/internal/httpd"
	"drover/internal/wire"
)

const (
	maxJoin     = 16 << 10 // bytes of a join request
	joinTime    = 25 * time.Second
	joinsAtOnce = 32
)

// joinHandler serves join requests from hosts of the area. It offers only this one path, and forwards the requests to
// a server, which decides.
type joinHandler struct {
	// forward passes a request on and returns the answer.
	forward func(ctx context.Context, r wire.RelayedJoin) (wire.RelayedAnswer, error)
	// ready returns why no server is reachable; nil if one is.
	ready func() error
	slots chan struct{}
	log   *slog.Logger
}

func newJoinHandler(ask func(context.Context, wire.RelayedJoin) (wire.RelayedAnswer, error), ready func() error,
	log *slog.Logger,
) *joinHandler {
	return &joinHandler{forward: ask, ready: ready, slots: make(chan struct{}, joinsAtOnce), log: log}
}

func (h *joinHandler) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+wire.JoinPath, h.join)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := h.ready(); err != nil {
			h.refuse(w, r, http.StatusServiceUnavailable, err.Error())
		}
	})
	return mux
}

// refuse answers with an error in the format of the servers.
func (h *joinHandler) refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	err := json.NewEncoder(w).Encode(map[string]any{
		"title": http.StatusText(status), "status": status,
		"detail": detail,
	})
	if err != nil {
		h.log.DebugContext(r.Context(), "caller did not read the answer", "error", err)
	}
}

func (h *joinHandler) join(w http.ResponseWriter, r *http.Request) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		h.refuse(w, r, http.StatusServiceUnavailable,
			"too many hosts join through this proxy at the same time: try again")
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJoin))
	if err != nil {
		h.refuse(w, r, http.StatusBadRequest, "the request was not understood")
		return
	}
	remote, _, _ := net.SplitHostPort(r.RemoteAddr) // the address of a connection has a port
	ctx, cancel := context.WithTimeout(r.Context(), joinTime)
	defer cancel()
	answer, err := h.forward(ctx, wire.RelayedJoin{Version: wire.Version, Remote: remote, Request: data})
	if err != nil {
		h.log.WarnContext(ctx, "cannot forward join request", "remote", remote, "error", err)
		w.Header().Set("Retry-After", "5")
		h.refuse(w, r, http.StatusServiceUnavailable, "this proxy does not reach its servers at the moment: try again")
		return
	}
	for name, value := range answer.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(answer.Status)
	if _, err := w.Write(answer.Body); err != nil {
		h.log.DebugContext(ctx, "caller did not read the answer", "error", err)
	}
}

// serve answers HTTP on a listener until ctx ends.
func (h *joinHandler) serve(ctx context.Context, l net.Listener, shown *tls.Config) error {
	shown.NextProtos = []string{"http/1.1"}
	srv := &http.Server{
		Handler: h.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 20 * time.Second,
		WriteTimeout: joinTime + 10*time.Second,
		IdleTimeout:  30 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(h.log.Handler(),
			slog.LevelDebug),
	}
	return httpd.Serve(ctx, srv, tls.NewListener(l, shown))
}
