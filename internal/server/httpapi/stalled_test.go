package httpapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/httpd/httpdtest"
	"drover/internal/server/httpapi"
)

// stall sends the beginning of a request and reads what the server makes of its never going on.
func stall(t *testing.T, beginning string) (after time.Duration, status int, body string) {
	t.Helper()
	w := newWorld(t)
	listener := httpdtest.NewPipes()
	server := httpapi.NewServer(w.handler, slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	client := listener.Dial()
	began := time.Now()
	if _, err := io.WriteString(client, beginning); err != nil {
		t.Fatal(err)
	}
	reply, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err == nil {
		text, _ := io.ReadAll(reply.Body)
		reply.Body.Close()
		status, body = reply.StatusCode, string(text)
	}
	after = time.Since(began)
	if err := errors.Join(client.Close(), server.Close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	return after, status, body
}

func TestABodyThatStallsIsRefused(t *testing.T) {
	credentials := fmt.Sprintf(`X-Bkapi-Authorization: {"bk_app_code": %q, "bk_app_secret": %q, "bk_username": "a"}`,
		appCode, appSecret)
	stranger := strings.Replace(credentials, appCode, "nobody", 1)
	for name, tt := range map[string]struct {
		headers string
		within  time.Duration
	}{
		"of a known caller":           {credentials + "\r\n", 65 * time.Second},
		"of who names himself inside": {"", 65 * time.Second},
		"of a stranger":               {stranger + "\r\n", 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				after, status, body := stall(t, "POST "+gatewayV2+
					"operate_proc_v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"+tt.headers+"\r\n{\"meta\": ")
				if status != 400 || !strings.Contains(body, `"code":1640001`) || after > tt.within {
					t.Errorf("after %v the answer is %d %s", after, status, body)
				}
			})
		})
	}
}

func TestHeadersThatStallEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if after, _, _ := stall(t, "POST / HTTP/1.1\r\nHost: "); after > 30*time.Second {
			t.Errorf("the connection was kept for %v", after)
		}
	})
}
