// Package httpdtest gives tests of servers a listener without a network, so that they can run in virtual time. It
// owns no connection: the user of either end closes it.
package httpdtest

import (
	"errors"
	"net"
	"sync"
)

// Pipes is a listener whose connections are in memory. It may be used from any goroutine.
type Pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewPipes returns a listener.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

// Dial returns the near end of a connection. It blocks until the other one is accepted.
func (p *Pipes) Dial() net.Conn {
	near, far := net.Pipe()
	p.conns <- far
	return near
}

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, errors.New("closed")
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
