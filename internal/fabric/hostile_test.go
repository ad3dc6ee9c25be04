package fabric_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"drover/internal/fabric"
	"drover/internal/fabric/fabrictest"
	"drover/internal/test/harness"
)

// liar is a broker of an attacker's own. It lets all in who come, says to the first one what it was told to, and to
// others nothing more. Before each answer to a ping it says early.
type liar struct {
	listener    net.Listener
	early, says string
	came        atomic.Int64
}

func newLiar(t *testing.T, early, says string) *liar {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	made := &liar{listener: l, early: early, says: says}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go made.serve(conn)
		}
	}()
	return made
}

func (l *liar) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // the reader has had what counts
	_, _ = fmt.Fprint(conn,
		"INFO {\"server_id\":\"N\",\"version\":\"2.10.0\",\"proto\":1,\"headers\":true,\"max_payload\":1048576,\"nonce\":\"bm9uY2Utb2YtMTE\"} \r\n")
	first := true
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if lines.Text() != "PING" {
			continue
		}
		if _, _ = fmt.Fprint(conn, l.early, "PONG\r\n"); first && l.came.Add(1) == 1 {
			_, _ = fmt.Fprint(conn, l.says)
		}
		first = false
	}
}

// TestABrokerThatLies: whatever a broker says, whoever is connected does not end, and comes again.
func TestABrokerThatLies(t *testing.T) {
	for name, says := range map[string]string{
		"a message of all memory":       "MSG a 1 9223372036854775807\r\nx",
		"a message of much memory":      "MSG a 1 1099511627776\r\nx",
		"headers of all memory":         "HMSG a 1 12 9223372036854775807\r\nx",
		"a length in two lines":         "MSG a 1 1\r99999999999999999\r\nx",
		"a length in small letters":     "msg a 1 9223372036854775807\r\nx",
		"an end that is none":           "MSG a 1 1\r\nxMSG a 1 9223372036854775807\r\n",
		"an error that nobody knows":    "-ERR 'bye'\r\n",
		"an error like one that counts": "-ERR 'Stale Connection, or so'\r\n",
		"an error behind a blank":       "-ERR ' stale connection'\r\n",
		"too large a payload":           "-ERR 'Maximum Payload Violation'\r\n",
		"a line without an end":         "INFO {\"x\":\"" + strings.Repeat("x", 1<<20),
		"errors without an end":         strings.Repeat("-ERR 'Permissions Violation for Publish to \"a\"'\r\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, _ := fabrictest.NewKey(t)
			l := newLiar(t, "", says)
			conn, err := fabric.Dial(t.Context(), fabric.DialConfig{
				URLs: []string{"nats://" + l.listener.Addr().String()}, Identity: fabric.Identity{
					JWT: "x", Key: key,
					Area: "0",
				}, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Serve("a", "", 1, func(context.Context, string, []byte) []byte {
				return nil
			}); err != nil {
				t.Logf("nobody listens now: %v", err)
			}
			harness.Eventually(t, "a second connection", func() bool { return l.came.Load() > 1 && conn.Connected() })
		})
	}
}

// TestAPingBeforeTheConnectIsAnswered: a broker that is too busy to answer a connect sends a ping after two seconds. The
// link does not end by it: otherwise a fleet that comes back would begin each handshake again.
func TestAPingBeforeTheConnectIsAnswered(t *testing.T) {
	key, _ := fabrictest.NewKey(t)
	conn, err := fabric.Dial(t.Context(), fabric.DialConfig{
		URLs:     []string{"nats://" + newLiar(t, "PING\r\n", "").listener.Addr().String()},
		Identity: fabric.Identity{Key: key, Area: "0"}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !conn.Connected() {
		t.Error("there is no link")
	}
}
