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
	maxJoin     = 16 << 10 // bytes of a request to join
	joinTime    = 25 * time.Second
	joinsAtOnce = 32
)

// door is where hosts of the area ask to join: the one path that they need, passed on to a server, whose affair
// everything else is.
type door struct {
	// ask passes a request on and returns the answer.
	ask func(ctx context.Context, r wire.RelayedJoin) (wire.RelayedAnswer, error)
	// ready returns why no server can be reached, nil when one can.
	ready func() error
	slots chan struct{}
	log   *slog.Logger
}

func newDoor(ask func(context.Context, wire.RelayedJoin) (wire.RelayedAnswer, error), ready func() error,
	log *slog.Logger,
) *door {
	return &door{ask: ask, ready: ready, slots: make(chan struct{}, joinsAtOnce), log: log}
}

func (d *door) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+wire.JoinPath, d.join)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := d.ready(); err != nil {
			d.refuse(w, r, http.StatusServiceUnavailable, err.Error())
		}
	})
	return mux
}

// refuse answers as servers do.
func (d *door) refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	err := json.NewEncoder(w).Encode(map[string]any{
		"title": http.StatusText(status), "status": status,
		"detail": detail,
	})
	if err != nil {
		d.log.DebugContext(r.Context(), "caller did not read the answer", "error", err)
	}
}

func (d *door) join(w http.ResponseWriter, r *http.Request) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		d.refuse(w, r, http.StatusServiceUnavailable,
			"too many hosts join through this proxy at the same time: try again")
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJoin))
	if err != nil {
		d.refuse(w, r, http.StatusBadRequest, "the request was not understood")
		return
	}
	remote, _, _ := net.SplitHostPort(r.RemoteAddr) // of a connection it has a port
	ctx, cancel := context.WithTimeout(r.Context(), joinTime)
	defer cancel()
	answer, err := d.ask(ctx, wire.RelayedJoin{Version: wire.Version, Remote: remote, Request: data})
	if err != nil {
		d.log.WarnContext(ctx, "cannot forward join request", "remote", remote, "error", err)
		w.Header().Set("Retry-After", "5")
		d.refuse(w, r, http.StatusServiceUnavailable, "this proxy does not reach its servers at the moment: try again")
		return
	}
	for name, value := range answer.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(answer.Status)
	if _, err := w.Write(answer.Body); err != nil {
		d.log.DebugContext(ctx, "caller did not read the answer", "error", err)
	}
}

// serve answers HTTP on a listener until ctx ends.
func (d *door) serve(ctx context.Context, l net.Listener, shown *tls.Config) error {
	shown.NextProtos = []string{"http/1.1"}
	srv := &http.Server{
		Handler: d.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 20 * time.Second,
		WriteTimeout: joinTime + 10*time.Second,
		IdleTimeout:  30 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(d.log.Handler(),
			slog.LevelDebug),
	}
	return httpd.Serve(ctx, srv, tls.NewListener(l, shown))
}
