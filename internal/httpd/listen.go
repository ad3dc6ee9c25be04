package httpd

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

const (
	// lingering is how long the sockets of a killed program may stay open.
	lingering  = 2 * time.Second
	listenEach = 20 * time.Millisecond
)

// Listen opens a TCP listener. It tries again for up to 2 s, or until ctx ends, while the address is in use: a child of
// a killed program has the sockets of its parent until it executes its own program.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	return listen(ctx, func() (net.Listener, error) { return (&net.ListenConfig{}).Listen(ctx, "tcp", address) })
}

func listen(ctx context.Context, attempt func() (net.Listener, error)) (net.Listener, error) {
	limit, each := time.NewTimer(lingering), time.NewTicker(listenEach)
	defer limit.Stop()
	defer each.Stop()
	for {
		l, err := attempt()
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		select {
		case <-each.C:
		case <-limit.C:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
}
