package pidns

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for an event that must happen.
const patience = 20 * time.Second

// AwaitEnd blocks until the process behind a pidfd has ended, reaped or not, for up to 20 s.
func AwaitEnd(pidfd int) error { return await(pidfd, unix.POLLIN) }

// AwaitReaped blocks until the process behind a pidfd has ended and somebody has taken its exit status, for up to 20 s.
func AwaitReaped(pidfd int) error { return await(pidfd, 0) }

func await(pidfd int, events int16) error {
	deadline := time.Now().Add(patience)
	for {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: events}} //nolint:gosec // descriptors are small
		n, err := unix.Poll(fds, max(0, int(time.Until(deadline).Milliseconds())))
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("nothing happened within %s", patience)
		default:
			return nil
		}
	}
}
