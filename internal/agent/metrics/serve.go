package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Times that a caller gets.
const (
	headTime  = 5 * time.Second
	replyTime = 10 * time.Second
	endTime   = time.Second
)

// Serve answers GET /metrics on a listener, which it closes, with what write writes, until ctx ends.
func Serve(ctx context.Context, l net.Listener, write func(io.Writer) error, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		var page bytes.Buffer
		if err := write(&page); err != nil {
			log.WarnContext(r.Context(), "metrics could not be written", "error", err)
			http.Error(w, "cannot write metrics", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(page.Bytes()) // the peer is gone: nothing is left to tell it
	})
	srv := &http.Server{
		Handler: mux, ReadTimeout: headTime, WriteTimeout: replyTime, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("cannot serve metrics: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	err := srv.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	<-ended //nolint:errcheck // it says that it was shut down
	return err
}
