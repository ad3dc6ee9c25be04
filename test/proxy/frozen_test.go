package proxy_test

import (
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"drover/internal/test/harness"
)

// pipe passes connections on. Once one of them is frozen nothing more comes through it, nor through any that is made
// later, and nobody is told.
type pipe struct {
	t      *testing.T
	target string
	l      net.Listener
	ended  chan struct{}
	served sync.WaitGroup

	mu     sync.Mutex
	froze  bool
	passed []*passage

	// back counts the bytes that came back from the target.
	back atomic.Int64
}

// passage is one connection.
type passage struct {
	from, to net.Conn
	mu       sync.Mutex
	thaw     chan struct{} // closed while it is not frozen
}

func newPipe(t *testing.T, target string) *pipe {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pipe{t: t, target: target, l: l, ended: make(chan struct{})}
	p.served.Go(p.accept)
	t.Cleanup(func() {
		close(p.ended)
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.passed {
			_ = c.from.Close()
			_ = c.to.Close()
		}
		p.mu.Unlock()
		p.served.Wait()
	})
	return p
}

func (p *pipe) address() string { return p.l.Addr().String() }

// freeze freezes the n-th connection, from 0, and all to come.
func (p *pipe) freeze(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.froze = true
	c := p.passed[n]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.thaw = make(chan struct{})
}

// melt has new connections pass. Those that were frozen stay so.
func (p *pipe) melt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.froze = false
}

func (p *pipe) accept() {
	for {
		from, err := p.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			p.t.Error(err)
			return
		}
		to, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = from.Close()
			continue
		}
		c := &passage{from: from, to: to, thaw: make(chan struct{})}
		p.mu.Lock()
		if !p.froze {
			close(c.thaw)
		}
		p.passed = append(p.passed, c)
		p.mu.Unlock()
		p.served.Go(func() { p.pass(c, from, to, nil) })
		p.served.Go(func() { p.pass(c, to, from, &p.back) })
	}
}

func (p *pipe) pass(c *passage, from, to net.Conn, count *atomic.Int64) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if count != nil {
			count.Add(int64(n))
		}
		c.mu.Lock()
		thaw := c.thaw
		c.mu.Unlock()
		select {
		case <-thaw:
		case <-p.ended:
			return
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestAWayThatOnlyLooksWhole: the agent goes to the other proxy, and the one that leads nowhere makes its way to the
// server anew.
func TestAWayThatOnlyLooksWhole(t *testing.T) {
	t.Parallel()
	hub := address(hubPort)
	p := newPipe(t, hub)
	f := newFleet(t, "--proxies", hub, "--advertise-proxies", p.address())
	one, two := f.proxy("one", 1), f.proxy("two", 1)
	f.agent("first", "10.0.0.5", 1, one)
	carrying, idle := f.carrier(one, two)
	if carrying == one {
		p.freeze(0)
	} else {
		p.freeze(1)
	}
	f.carries(idle.name, 1)
	f.works("1:10.0.0.5")
	harness.Eventually(t, "the watchdog to give the connection up", func() bool {
		return strings.Contains(f.Logs[carrying.name].String(), "it is open, but nothing comes through")
	})
	p.melt()
	f.reached(carrying.name)
}
