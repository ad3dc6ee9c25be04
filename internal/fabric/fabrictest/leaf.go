package fabrictest

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"drover/internal/fabric"
)

// Leaf is what somebody makes of a proxy's credential: a connection to a broker that says what it likes, without the
// manners of a relay.
type Leaf struct {
	conn net.Conn
	// ended is closed with the connection.
	ended chan struct{}
}

// leafPatience bounds the handshake of a Leaf.
const leafPatience = 30 * time.Second

// DialLeaf connects as the proxy of an identity, which calls itself by a name of its choice. account is the public key
// of the fleet.
func DialLeaf(t testing.TB, address string, trust *tls.Config, id fabric.Identity, name, account string) *Leaf {
	t.Helper()
	conn, err := (&tls.Dialer{Config: trust}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(leafPatience)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Nonce string `json:"nonce"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	signature, err := id.Key.Sign([]byte(info.Nonce))
	if err != nil {
		t.Fatal(err)
	}
	connect, err := json.Marshal(map[string]any{
		"version": "2.10.0", "jwt": id.JWT, "sig": base64.RawURLEncoding.EncodeToString(signature), "name": name,
		"server_id": name, "cluster": name, "headers": true, "protocol": 1, "remote_account": account,
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &Leaf{conn: conn, ended: make(chan struct{})}
	l.Say("CONNECT " + string(connect))
	l.Say("PING")
	for !strings.HasPrefix(line, "PONG") {
		if line, err = in.ReadString('\n'); err != nil || strings.HasPrefix(line, "-ERR") {
			t.Fatalf("the broker does not take the leaf: %q, %v", line, err)
		}
	}
	_ = conn.SetDeadline(time.Time{})
	go func() {
		defer close(l.ended)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "PING") {
				l.Say("PONG")
			}
		}
	}()
	return l
}

// Say sends a line of the protocol.
func (l *Leaf) Say(line string) { _, _ = fmt.Fprintf(l.conn, "%s\r\n", line) }

// Ended is closed when the broker has ended the connection, or Close has.
func (l *Leaf) Ended() <-chan struct{} { return l.ended }

// Close ends the connection.
func (l *Leaf) Close() { _ = l.conn.Close() }
