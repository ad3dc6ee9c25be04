package fabric

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel asks a peer that has sent nothing for keepAliveIdle whether it still exists, and ends the connection after
// keepAliveCount unanswered questions. Pings of the fabric would wake both programs for that.
const (
	keepAliveIdle     = 10 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	// keepAliveLimit is the sum of these times. Sent bytes that the peer does not confirm within it end the connection,
	// too: while bytes are under way, the kernel does not ask.
	keepAliveLimit = keepAliveIdle + keepAliveCount*keepAliveInterval
)

// KeepAlive makes the kernel end a TCP connection 25 s after its peer has vanished without a word, as a host without
// power does. It does nothing for other connections. A peer whose program hangs has not vanished.
func KeepAlive(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	// Without an option, the connection works, and a loss shows later.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
	})
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(keepAliveLimit.Milliseconds()))
	})
}
