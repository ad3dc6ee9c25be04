package fabric

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestNoRequestOverALaterLink: while the library reconnects, requests wait in it. A request that has waited is not sent
// over the new link: nobody waits for its answer, and the server would drop the next request.
func TestNoRequestOverALaterLink(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was written
	var published atomic.Int64
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // the test has what counts
		_, _ = fmt.Fprint(conn, "INFO {\"server_id\":\"N\",\"proto\":1,\"headers\":true,\"max_payload\":1024} \r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			verb, _, _ := strings.Cut(lines.Text(), " ")
			switch verb {
			case "PUB":
				published.Add(1)
			case "PING":
				_, _ = fmt.Fprint(conn, "PONG\r\n")
			}
		}
	}()
	nc, err := nats.Connect("nats://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	lost := make(chan struct{})
	close(lost)
	_, err = newReplyRouter("_INBOX.x").request(t.Context(), lost, nc, "a", nil)
	if !errors.Is(err, ErrNotConnected) {
		t.Errorf("the request fails with %v, want %v", err, ErrNotConnected)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if published.Load() != 0 {
		t.Error("the request was sent")
	}
}
