package service

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/idle"
)

// watchdog tells systemd that the program lives, by the protocol of sd_notify(3) and sd_watchdog_enabled(3).
type watchdog struct {
	// socket is empty if nobody watches.
	socket string
	// every is the interval of the signs of life while no loop gives them: a third of what systemd waits.
	every time.Duration
	// beating says that a loop gives the signs of life.
	beating *atomic.Bool
}

// openWatchdog returns the watchdog of the environment, if it is for this process: a version of the agent that is being
// tried inherits the variables of the agent that tries it.
func openWatchdog(environment func(string) string) watchdog {
	w := watchdog{beating: &atomic.Bool{}}
	micros, err := strconv.ParseInt(environment("WATCHDOG_USEC"), 10, 64)
	pid := environment("WATCHDOG_PID")
	if err != nil || micros <= 0 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return w
	}
	w.socket = environment("NOTIFY_SOCKET")
	w.every = time.Duration(micros) * time.Microsecond / 3
	return w
}

// hold gives signs of life until ctx ends, as long as no loop does.
func (w *watchdog) hold(ctx context.Context) {
	if w.socket == "" {
		return
	}
	for {
		if !w.beating.Load() {
			w.tell()
		}
		if !idle.Sleep(ctx, w.every) {
			return
		}
	}
}

func (w *watchdog) beat() {
	w.beating.Store(true)
	w.tell()
}

// tell sends a sign of life, unless the socket is full: the next one comes soon, and systemd has the ones before.
func (w *watchdog) tell() {
	if w.socket == "" {
		return
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return // there are no descriptors: if that lasts, a restart helps
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is left in it
	// x/sys takes @ for the abstract name space, as systemd does
	to := &unix.SockaddrUnix{Name: strings.TrimSpace(w.socket)}
	_ = unix.Sendto(fd, []byte("WATCHDOG=1"), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, to)
}
