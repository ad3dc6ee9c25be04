package httpd_test

import (
	"errors"
	"net"
	"testing"

	"drover/internal/httpd"
)

// strangers is a listener whose connections come from the addresses that it is given.
type strangers struct {
	net.Listener
	from chan string
}

type stranger struct {
	net.Conn
	addr net.Addr
}

func (s stranger) RemoteAddr() net.Addr { return s.addr }

func (s *strangers) Accept() (net.Conn, error) {
	from, ok := <-s.from
	if !ok {
		return nil, errors.New("closed")
	}
	near, far := net.Pipe()
	_ = far.Close()
	addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(from, "1"))
	if err != nil {
		return nil, err
	}
	return stranger{near, addr}, nil
}

// TestLimited: an address has so many connections, and all together have; who leaves makes room, once.
func TestLimited(t *testing.T) {
	s := &strangers{from: make(chan string, 10_000)}
	l := httpd.Limited(s)
	var open []net.Conn
	come := func(n int, from string) {
		for range n {
			s.from <- from
		}
		s.from <- "127.0.0.1" // always let in, unless all are too many
		for {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if c.RemoteAddr().(*net.TCPAddr).IP.IsLoopback() {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				return
			}
			open = append(open, c)
		}
	}
	want := func(when string, n int) {
		t.Helper()
		if len(open) != n {
			t.Fatalf("%s: %d connections are open, want %d", when, len(open), n)
		}
	}
	come(300, "10.0.0.1")
	want("of one address", 256)
	come(300, "::ffff:10.0.0.1")
	want("of the same address in IPv6", 256)
	come(300, "2001:db8::1")
	come(300, "2001:db8::2")
	want("of one network of IPv6", 512)
	for range 2 {
		_ = open[0].Close()
	}
	open = open[1:]
	come(2, "10.0.0.1")
	want("after one has left", 512)
	for i := range 13 {
		come(256, net.IPv4(10, 1, 0, byte(i)).String())
	}
	want("of many", 3840)
	for range 4096 - 3840 {
		s.from <- "127.0.0.1"
	}
	for range 4096 - 3840 {
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	s.from <- "127.0.0.1"
	close(s.from)
	if _, err := l.Accept(); err == nil {
		t.Error("one more than all is let in")
	}
}
