package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/fabric"
)

// A whole fleet reconnects at once if a server restarts. With all handshakes in parallel, every client would time out
// and retry before any handshake ends. So a few handshakes run at a time, the next clients wait for a short while,
// and the rest are rejected early. Rejected clients retry after a random time of some seconds.
const (
	// handshakesPerProcessor is the number of parallel handshakes per processor: each waits for the network most of the
	// time.
	handshakesPerProcessor = 32
	// maxSlotWait is the longest wait for a turn, well below a client's handshake timeout (fabric.Dial, 12 s). A wait
	// costs far less than a reconnect, so many clients may wait. The bound limits their memory: about 20 kB each.
	maxSlotWait    = 8 * time.Second
	waitingPerSlot = 512
	// slotTime is how long a handshake without progress holds its place.
	slotTime = time.Second
	// readBuffer is the size of the kernel's receive buffer of a client, in bytes. A broker reads all available bytes
	// and forwards them to the server: hundreds of fast senders must not overrun the one connection of the server.
	readBuffer = 64 << 10
)

// errBusy closes the connection of a client that must retry later, and errLeft that of a client that has given up.
var (
	errBusy = errors.New("too many clients connect at the same time")
	errLeft = errors.New("the client has left while it waited for its turn")
)

// handshakeLimiter bounds the number of parallel handshakes. It is safe for concurrent use.
type handshakeLimiter struct {
	slots   chan struct{}
	waiting atomic.Int64
	most    int64
}

func newHandshakeLimiter(places, waiting int) *handshakeLimiter {
	return &handshakeLimiter{slots: make(chan struct{}, places), most: int64(waiting)}
}

// forProcessors returns a limiter for the number of processors of this machine. Nobody gets a place before ready is
// closed, if it is not nil.
func forProcessors(ready <-chan struct{}) *handshakeLimiter {
	places := handshakesPerProcessor * runtime.GOMAXPROCS(0)
	l := newHandshakeLimiter(places, places*waitingPerSlot)
	if ready != nil {
		l.holdUntil(ready)
	}
	return l
}

// holdUntil takes all places of a new limiter until ready is closed.
func (l *handshakeLimiter) holdUntil(ready <-chan struct{}) {
	for range cap(l.slots) {
		l.slots <- struct{}{}
	}
	go func() {
		<-ready
		for range cap(l.slots) {
			<-l.slots
		}
	}()
}

// limit returns the TLS configuration of a listener for clients: handshakes wait for their turn, and connections have
// small receive buffers.
func (l *handshakeLimiter) limit(cfg *tls.Config) *tls.Config {
	return accepting(cfg, func(hello *tls.ClientHelloInfo) error {
		if err := l.enter(hello.Context()); err != nil {
			return err
		}
		if conn, ok := hello.Conn.(*net.TCPConn); ok {
			if left(conn) { // in a handshake it would hold its place until slotTime is over
				return errLeft
			}
			_ = conn.SetReadBuffer(readBuffer) // the default is larger; a smaller buffer does not work
		}
		return nil
	})
}

// accepting returns the TLS configuration of a listener whose connections the kernel keeps alive. The server turns
// that off, and offers no other place to turn it on. Each handshake begins with first, which may be nil.
func accepting(cfg *tls.Config, first func(*tls.ClientHelloInfo) error) *tls.Config {
	if cfg == nil {
		return nil
	}
	cfg = cfg.Clone()
	inner := cfg.GetConfigForClient
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		fabric.KeepAlive(hello.Conn)
		if first != nil {
			if err := first(hello); err != nil {
				return nil, err
			}
		}
		if inner == nil {
			return nil, nil //nolint:nilnil // nil keeps the current configuration
		}
		return inner(hello)
	}
	return cfg
}

// left reports whether the other end has closed a connection. It reads nothing.
func left(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	n := 0
	peek := func(fd uintptr) { n, _, err = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT) }
	if closed := raw.Control(peek); closed != nil {
		return true
	}
	return n == 0 && err == nil || err != nil && !errors.Is(err, unix.EAGAIN)
}

// enter waits for a place; the end of the handshake, and of its context, frees the place.
func (l *handshakeLimiter) enter(handshake context.Context) error {
	if !l.acquire(handshake) {
		return errBusy
	}
	ctx, cancel := context.WithTimeout(handshake, slotTime)
	context.AfterFunc(ctx, func() {
		cancel()
		<-l.slots
	})
	return nil
}

func (l *handshakeLimiter) acquire(ctx context.Context) bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > l.most {
		return false
	}
	timer := time.NewTimer(maxSlotWait)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}
