package metrics

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"drover/internal/idle"
)

// Bounds of the listener.
const (
	// callTime is the longest time for a request, from its first byte to its last.
	callTime = 5 * time.Second
	// maxHead is the largest request, in bytes.
	maxHead = 16 << 10
	// maxCalls is how many requests are answered at the same time; others wait.
	maxCalls = 4
	// acceptAgain is the pause after a failed accept: the process may be short of descriptors.
	acceptAgain = time.Second
)

// Serve answers GET /metrics on a listener until ctx ends, and closes the listener. write writes the page. Serve
// supports only as much of HTTP as Prometheus needs, with one request on a connection: the server of net/http would
// make every agent 0.3 MB larger.
func Serve(ctx context.Context, l net.Listener, write func(io.Writer) error, log *slog.Logger) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // this ends Accept
		defer close(closed)
		_ = l.Close()
	})
	defer func() { // Accept may end before the socket is closed
		if stop() {
			_ = l.Close()
			return
		}
		<-closed
	}()
	room := make(chan struct{}, maxCalls)
	failing := false
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			if !failing {
				log.WarnContext(ctx, "cannot accept calls for metrics", "error", err)
			}
			failing = true
			idle.Sleep(ctx, acceptAgain)
			continue
		}
		failing = false
		room <- struct{}{} // blocks only until a request ends, which callTime bounds
		calls.Go(func() {
			defer func() { <-room }()
			answer(ctx, conn, write, log)
		})
	}
}

// answer answers one request and closes the connection.
func answer(ctx context.Context, conn net.Conn, write func(io.Writer) error, log *slog.Logger) {
	defer conn.Close() //nolint:errcheck // the peer is gone and needs no error
	if err := conn.SetDeadline(time.Now().Add(callTime)); err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	r, err := http.ReadRequest(bufio.NewReader(io.LimitReader(conn, maxHead)))
	if err != nil {
		return
	}
	status, page := http.StatusOK, bytes.Buffer{}
	switch {
	case r.URL.Path != "/metrics":
		status = http.StatusNotFound
	case r.Method != http.MethodGet:
		status = http.StatusMethodNotAllowed
	default:
		if err := write(&page); err != nil {
			log.WarnContext(ctx, "cannot write metrics", "error", err)
			status = http.StatusInternalServerError
		}
	}
	if status != http.StatusOK {
		page.Reset()
		page.WriteString(http.StatusText(status) + "\n")
	}
	_, err = fmt.Fprintf(conn,
		"HTTP/1.1 %d %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), page.Len(), page.Bytes())
	if err != nil {
		log.DebugContext(ctx, "caller did not read metrics", "error", err)
	}
}
