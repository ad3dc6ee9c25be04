package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

// A whole fleet reconnects at once if a server restarts. With all handshakes in parallel, every client would time out
// and retry before any handshake ends. So a few handshakes run at a time, the next clients wait for a short while,
// and the rest are rejected early. Rejected clients retry after a random time of some seconds.
const (
	// handshakesPerProcessor is the number of parallel handshakes: each waits for the network most of the time.
	handshakesPerProcessor = 32
	// turnTime is the longest wait for a turn, well below a client's handshake timeout (fabric.Dial, 12 s). A wait
	// costs far less than a reconnect, so many clients may wait. The bound limits their memory: about 20 kB each.
	turnTime        = 8 * time.Second
	waitingPerPlace = 512
	// placeTime is how long a handshake without progress holds its place.
	placeTime = time.Second
	// readBuffer is the size of the kernel's receive buffer of a client, in bytes. A broker reads all available bytes
	// and forwards them to the server: hundreds of fast senders must not overrun the one connection of the server.
	readBuffer = 64 << 10
)

// errBusy closes the connection of a client that must retry later.
var errBusy = errors.New("too many clients connect at the same time")

// turnstile bounds the number of parallel handshakes. It is safe for concurrent use.
type turnstile struct {
	places  chan struct{}
	waiting atomic.Int64
	most    int64
}

func newTurnstile(places, waiting int) *turnstile {
	return &turnstile{places: make(chan struct{}, places), most: int64(waiting)}
}

// forProcessors returns a turnstile for the number of processors of this machine.
func forProcessors() *turnstile {
	places := handshakesPerProcessor * runtime.GOMAXPROCS(0)
	return newTurnstile(places, places*waitingPerPlace)
}

// guard returns the TLS configuration of a listener whose handshakes wait for their turn, and whose connections have
// small receive buffers.
func (t *turnstile) guard(cfg *tls.Config) *tls.Config {
	cfg = cfg.Clone()
	inner := cfg.GetConfigForClient
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := t.enter(hello.Context()); err != nil {
			return nil, err
		}
		if conn, ok := hello.Conn.(*net.TCPConn); ok {
			_ = conn.SetReadBuffer(readBuffer) // it would take more at a time, and no less would work
		}
		if inner == nil {
			return nil, nil //nolint:nilnil // the configuration at hand counts
		}
		return inner(hello)
	}
	return cfg
}

// enter waits for a place; the end of the handshake, and of its context, frees the place.
func (t *turnstile) enter(handshake context.Context) error {
	if !t.take(handshake) {
		return errBusy
	}
	ctx, cancel := context.WithTimeout(handshake, placeTime)
	context.AfterFunc(ctx, func() {
		cancel()
		<-t.places
	})
	return nil
}

func (t *turnstile) take(ctx context.Context) bool {
	select {
	case t.places <- struct{}{}:
		return true
	default:
	}
	defer t.waiting.Add(-1)
	if t.waiting.Add(1) > t.most {
		return false
	}
	timer := time.NewTimer(turnTime)
	defer timer.Stop()
	select {
	case t.places <- struct{}{}:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}
