package httpd

import (
	"net"
	"net/netip"
	"sync"
)

const (
	// maxConnections is how many a limited listener has at a time.
	maxConnections = 4096
	// maxPerAddress is how many of one address. An address of IPv6 stands for the network of 64 bits that one host has.
	// This machine's own addresses have no bound of their own.
	maxPerAddress = 256
)

// Limited returns a listener that closes connections at once which are too many.
func Limited(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, from: map[netip.Prefix]int{}}
}

type limitedListener struct {
	net.Listener
	mu   sync.Mutex
	all  int
	from map[netip.Prefix]int
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		where := networkOf(c.RemoteAddr())
		if l.enter(where) {
			return &countedConn{Conn: c, leave: sync.OnceFunc(func() { l.leave(where) })}, nil
		}
		_ = c.Close()
	}
}

func (l *limitedListener) enter(where netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= maxConnections || where.IsValid() && l.from[where] >= maxPerAddress {
		return false
	}
	l.all++
	l.from[where]++
	return true
}

func (l *limitedListener) leave(where netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.from[where]--; l.from[where] == 0 {
		delete(l.from, where)
	}
}

// networkOf is what connections are counted by; it is not valid for those that are only counted with all.
func networkOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap()
	if addr.IsLoopback() {
		return netip.Prefix{}
	}
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	network, err := addr.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}

// countedConn is a connection that is given back when it is closed.
type countedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
