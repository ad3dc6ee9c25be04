// Package httpd answers HTTP on a listener until a context ends. It owns the shutdown of a server. The caller owns
// the handlers and the limits of a call.
package httpd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// grace is how long calls under way may take to end.
const grace = 3 * time.Second

// Serve answers HTTP on a listener, which it closes, and blocks until ctx ends or nothing can be accepted any more.
// When ctx ends, calls under way have 3 s to end; those that are left are cut off, which is no error. Every answer says
// that its type is not to be guessed.
func Serve(ctx context.Context, srv *http.Server, l net.Listener) error {
	handler := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		handler.ServeHTTP(w, r)
	})
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	<-ended //nolint:errcheck // it says that it was shut down
	return err
}
