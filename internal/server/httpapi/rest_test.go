package httpapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"drover/internal/server/httpapi"
)

// TestARefusalIsHeardOut: a caller sends the whole of its body before it reads, and the connection is to be closed
// after the answer, as a proxy in front of us wants it. Whatever was left unread would reset it.
func TestARefusalIsHeardOut(t *testing.T) {
	w := newWorld(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpapi.NewServer(w.handler, slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	stranger := `X-Bkapi-Authorization: {"bk_app_code": "nobody", "bk_app_secret": "x", "bk_username": "a"}` + "\r\n"
	for name, c := range map[string]struct {
		line, headers string
		status        int
	}{
		"a stranger": {
			"POST " + gatewayV2 + "operate_proc_v2 HTTP/1.1", stranger + "Connection: close\r\n",
			400,
		},
		"a stranger of the ESB": {
			"POST " + esbGSE + "operate_proc_v2/ HTTP/1.1", stranger + "Connection: close\r\n",
			200,
		},
		"by HTTP/1.0":     {"POST " + gatewayV2 + "operate_proc_v2 HTTP/1.0", stranger, 400},
		"an unknown path": {"POST /nowhere HTTP/1.1", "Connection: close\r\n", 404},
		"another method":  {"PUT " + gatewayV2 + "operate_proc_v2 HTTP/1.1", "Connection: close\r\n", 405},
		"a body that is encoded": {
			"POST " + gatewayV2 + "operate_proc_v2 HTTP/1.1",
			"Content-Encoding: gzip\r\nConnection: close\r\n", 400,
		},
	} {
		for _, size := range []int{500, 5_000, 200_000, 2 << 20} {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			head := fmt.Sprintf("%s\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n", c.line, size, c.headers)
			if _, err := io.WriteString(conn, head+strings.Repeat("x", size)); err != nil {
				t.Errorf("%s: %d bytes could not be sent: %v", name, size, err)
			}
			r := bufio.NewReader(conn)
			reply, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Errorf("%s: after %d bytes there is no answer: %v", name, size, err)
				continue
			}
			body, err := io.ReadAll(reply.Body)
			if err != nil || reply.StatusCode != c.status || !strings.HasSuffix(string(body), "}\n") {
				t.Errorf("%s: after %d bytes the answer is %d %s; error %v", name, size, reply.StatusCode, body, err)
			}
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: after %d bytes the connection ends with %v", name, size, err)
			}
			if err := errors.Join(reply.Body.Close(), conn.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}
