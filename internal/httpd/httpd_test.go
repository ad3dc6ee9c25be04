package httpd_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/httpd"
	"drover/internal/httpd/httpdtest"
)

// TestCallsUnderWayMayEnd: they have a while for it, and not for ever.
func TestCallsUnderWayMayEnd(t *testing.T) {
	for _, c := range []struct {
		takes, ends time.Duration
		whole       bool
	}{
		{takes: 2 * time.Second, ends: 2 * time.Second, whole: true},
		{takes: time.Hour, ends: 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			called := make(chan struct{})
			srv := &http.Server{
				ReadHeaderTimeout: time.Second,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					close(called)
					select {
					case <-time.After(c.takes):
					case <-r.Context().Done():
					}
				}),
			}
			l := httpdtest.NewPipes()
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- httpd.Serve(ctx, srv, l) }()
			near := l.Dial()
			defer near.Close()
			if _, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			<-called
			answered := make(chan bool)
			go func() {
				reply, err := http.ReadResponse(bufio.NewReader(near), nil)
				if err == nil {
					if got := reply.Header.Get("X-Content-Type-Options"); got != "nosniff" {
						t.Errorf("the type of the answer may be guessed: %q", got)
					}
					err = reply.Body.Close()
				}
				answered <- err == nil
			}()
			stop()
			began := time.Now()
			if whole := <-answered; whole != c.whole {
				t.Errorf("a call of %s was answered: %v", c.takes, whole)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < c.ends || took > c.ends+time.Second {
				t.Errorf("with a call of %s it took %s to end", c.takes, took)
			}
		})
	}
}

// TestAListenerThatFails: whoever serves is told why.
func TestAListenerThatFails(t *testing.T) {
	l := httpdtest.NewPipes()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := httpd.Serve(t.Context(), &http.Server{ReadHeaderTimeout: time.Second}, l); err == nil ||
		err.Error() != "closed" {
		t.Errorf("it ended with %v", err)
	}
}
