package httpd

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestListen: a listener waits a while for an address in use, and for nothing else.
func TestListen(t *testing.T) {
	inUse := &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	for name, c := range map[string]struct {
		free    time.Duration // when the address is free
		other   error         // what the attempts fail with then
		stopped time.Duration // when the caller gives up; 0 for never
		took    time.Duration
		want    error
	}{
		"free at once":      {},
		"free in a while":   {free: 990 * time.Millisecond, took: time.Second},
		"in use":            {free: time.Hour, took: lingering, want: inUse},
		"the caller leaves": {free: time.Hour, stopped: time.Second, took: time.Second, want: inUse},
		"not permitted":     {free: 20 * time.Millisecond, other: syscall.EACCES, took: 20 * time.Millisecond, want: syscall.EACCES},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.stopped > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.stopped)
					defer cancel()
				}
				began := time.Now()
				_, err := listen(ctx, func() (net.Listener, error) {
					if time.Since(began) < c.free {
						return nil, inUse
					}
					return nil, c.other
				})
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.took {
					t.Errorf("after %v: %v, want %v after %v", took, err, c.want, c.took)
				}
			})
		})
	}
}
