package fabric_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/fabric/fabrictest"
)

// asked is what a broker of an attacker's own asks whoever connects to sign, and whether it may get an answer.
type asked struct {
	challenge string
	answered  bool
}

func challenges() map[string]asked {
	return map[string]asked{
		"of the library's form":  {"bm9uY2Utb2YtMTE", true},
		"longer":                 {strings.Repeat("x", 31), true},
		"as long as a digest":    {"\x01\x7fabc{}\"\\ \tdefghijklmnopqrstuvwx", false},
		"32 letters":             {strings.Repeat("x", 32), false},
		"a statement":            {"drover report 1\nfrom U\nto A\nabout 00\nsaid 00\n", false},
		"short and with a blank": {"drover report 1", false},
		"too short":              {"abcdefghij", false},
		"no ASCII":               {"abcdefghijklé", false},
		"a token's first part":   {"eyJ0eXAiOiJKV1QifQ.e30", false},
	}
}

// broker lets one connection in after the challenge, and returns the line with which whoever is there has answered; ""
// is a connection that was ended.
func broker(t *testing.T, challenge string, dial func(address string)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was written
	lines := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			lines <- err.Error()
			return
		}
		defer conn.Close() //nolint:errcheck // the reader has had what counts
		info, err := json.Marshal(map[string]any{
			"server_id": "N", "version": "2.10.0", "proto": 1, "headers": true,
			"max_payload": 1 << 20, "auth_required": true, "nonce": challenge,
		})
		if err != nil {
			lines <- err.Error()
			return
		}
		_, _ = fmt.Fprintf(conn, "INFO %s\r\n", info)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		lines <- line
	}()
	dial(l.Addr().String())
	return <-lines
}

// TestABrokerGetsNoOtherSignature: whoever poses as a broker is answered what has the form of a challenge, and has
// nothing else signed.
func TestABrokerGetsNoOtherSignature(t *testing.T) {
	key, public := fabrictest.NewKey(t)
	for name, c := range challenges() {
		line := broker(t, c.challenge, func(address string) {
			conn, err := fabric.Dial(t.Context(), fabric.DialConfig{
				URLs: []string{"nats://" + address}, Identity: fabric.Identity{JWT: "j", Key: key, Area: "0"},
				Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		})
		var answer struct {
			Signature string `json:"sig"`
		}
		if line != "" {
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "CONNECT ")), &answer); err != nil {
				t.Errorf("%s: %q: %v", name, line, err)
			}
		}
		if (answer.Signature != "") != c.answered {
			t.Errorf("%s: it got %q", name, line)
		}
		signature, err := fabric.SignChallenge(key, []byte(c.challenge))
		if (err == nil) != c.answered {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if pair, err := nkeys.FromPublicKey(public); err != nil || pair.Verify([]byte(c.challenge), signature) != nil {
			t.Errorf("%s: the signature is not one of it (%v)", name, err)
		}
	}
}
