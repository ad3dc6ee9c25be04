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

// A whole fleet comes back at once when a server is started again. To shake hands with all of it at the same time would take so long that
// everybody gives up and comes again before anybody is through; so few are let in at a time, the next wait for a short while, and
// the rest are sent away before they have cost anything. Those come again after a random time of some seconds.
const (
	// handshakesPerProcessor is how many handshakes are worked on at a time: each waits for the network most of the time.
	handshakesPerProcessor = 32
	// turnTime is how long one may wait for its turn, well below the time that a client has for its handshake (fabric.Dial, 12 s). To wait
	// costs far less than to come again, so many may, but what they hold in memory is bounded: about 20 kB each.
	turnTime        = 8 * time.Second
	waitingPerPlace = 512
	// placeTime is how long a handshake that makes no progress keeps others out.
	placeTime = time.Second
	// readBuffer is how much of what a client sends waits in the kernel, in bytes. A broker reads on while there is something, and hands all of
	// it to the server: hundreds that send as fast as they can must not overrun the one connection that the server reads.
	readBuffer = 64 << 10
)

// errBusy ends the connection of a client that is to come again later.
var errBusy = errors.New("too many clients connect at the same time")

// turnstile lets handshakes begin. It may be used from any goroutine.
type turnstile struct {
	places  chan struct{}
	waiting atomic.Int64
	most    int64
}

func newTurnstile(places, waiting int) *turnstile {
	return &turnstile{places: make(chan struct{}, places), most: int64(waiting)}
}

// forProcessors returns a turnstile that is as wide as this machine.
func forProcessors() *turnstile {
	places := handshakesPerProcessor * runtime.GOMAXPROCS(0)
	return newTurnstile(places, places*waitingPerPlace)
}

// guard returns the TLS of a listener whose handshakes begin in their turn, and whose connections keep little for the broker to read.
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

// enter waits for a place, which is given back when the handshake ends, and its context with it.
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
