package edge

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// accountKey is the key of the account in the context of a connection.
type accountKey struct{}

// WithAccount lets Account tell who is at the other end of a TCP connection. It looks when Account asks first.
func WithAccount(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, accountKey{}, sync.OnceValue(func() string {
		return accountOf(addressOf(conn.RemoteAddr()), addressOf(conn.LocalAddr()))
	}))
}

// Account names the account of this machine whose process opened the connection of a call. It is empty for a caller of
// another machine, and where the kernel does not tell: in another network namespace, or after the end of the
// connection.
func Account(ctx context.Context) string {
	account, ok := ctx.Value(accountKey{}).(func() string)
	if !ok {
		return ""
	}
	return account()
}

// addressOf is the address and port of one end of a TCP connection; it is not valid for another kind of connection.
func addressOf(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// accountOf returns the account that has the socket at an address of this machine, connected to another address.
func accountOf(socket, to netip.AddrPort) string {
	if !socket.IsValid() || !ofThisMachine(socket.Addr()) {
		return ""
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		file, err := os.Open(table)
		if err != nil {
			continue // a machine may have no IPv6
		}
		account := ownerIn(file, socket, to)
		_ = file.Close() // it was only read
		if account != "" {
			return account
		}
	}
	return ""
}

// ofThisMachine reports whether an address is one of this machine.
func ofThisMachine(ip netip.Addr) bool {
	if ip.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().WithZone("") == ip
	})
}

// ownerIn finds the owner of a connected socket in a table of the kernel (proc_pid_net(5)). Its columns are: number,
// local address, remote address, state, queues, timer, retransmits, uid, timeout, inode. The kernel shows root as the
// owner of a socket that its process has closed. Such a socket has no inode, and proves nothing.
func ownerIn(table io.Reader, socket, to netip.AddrPort) string {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		columns := strings.Fields(lines.Text())
		if len(columns) < 10 || columns[9] == "0" {
			continue
		}
		if kernelAddress(columns[1]) == socket && kernelAddress(columns[2]) == to {
			return columns[7]
		}
	}
	return ""
}

// kernelAddress parses an address of the kernel's tables: words of four bytes in the order of the machine, then a port.
func kernelAddress(text string) netip.AddrPort {
	host, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}
	}
	words, err := hex.DecodeString(host)
	if err != nil {
		return netip.AddrPort{}
	}
	for i := 0; i+4 <= len(words); i += 4 {
		binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	ip, _ := netip.AddrFromSlice(words) // else it is not valid
	return netip.AddrPortFrom(ip.Unmap(), uint16(number))
}
