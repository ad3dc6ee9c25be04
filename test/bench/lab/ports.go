package lab

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openPorts brings up loopback in a network that is ours alone, and has connections begin at any port that needs no
// rights. Where most of the ports are taken the kernel goes through all of them for each connection, which hosts of a
// fleet do not know: each has an address of its own.
func openPorts() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot bring up loopback: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("cannot bring up loopback: %w", err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("cannot bring up loopback: %w", err)
	}
	for name, value := range map[string]string{"ip_local_port_range": "1024 65535", "tcp_tw_reuse": "1"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("cannot set up the ports of a network of our own: %w", err)
		}
	}
	return nil
}
