package edge

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestAccountOfACaller: the kernel tells whose process has opened a connection from this machine, over IPv4, over IPv6,
// and over IPv4 to a listener of both.
func TestAccountOfACaller(t *testing.T) {
	own := strconv.Itoa(os.Getuid())
	for _, c := range []struct{ listen, network, to string }{
		{"127.0.0.1:0", "tcp4", "127.0.0.1"}, {"[::]:0", "tcp4", "127.0.0.1"}, {"[::1]:0", "tcp6", "::1"},
	} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", c.listen)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // of a test
		_, port, _ := net.SplitHostPort(l.Addr().String())
		conn, err := (&net.Dialer{}).DialContext(t.Context(), c.network, net.JoinHostPort(c.to, port))
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close() //nolint:errcheck // of a test
		ctx := WithAccount(t.Context(), accepted)
		if got := Account(ctx); got != own {
			t.Errorf("a caller over %s at %s has the account %q, want %q", c.network, c.listen, got, own)
		}
		_ = conn.Close()
		if got := Account(ctx); got != own {
			t.Errorf("after the end of the connection the account is %q: it was known before", got)
		}
		if got := Account(WithAccount(t.Context(), accepted)); got != "" {
			t.Errorf("who has closed the connection before the look has the account %q, want none", got)
		}
	}
	if got := Account(t.Context()); got != "" {
		t.Errorf("a call without a connection has the account %q", got)
	}
}

// TestOwnersInTheKernelsTable: only a socket that a process holds tells its owner.
func TestOwnersInTheKernelsTable(t *testing.T) {
	table := strings.Join([]string{
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
		"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 111 1 0 100 0 0 10 0",
		"   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 222 1 0 20 4 30 10 -1",
		"   2: 0100007F:C351 0100007F:1F90 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1",
		"   3: 0100007F:C352 0100007F:1F91 01 00000000:00000000 00:00000000 00000000  1001        0 333 1 0 20 4 30 10 -1",
		"   4: garbage",
	}, "\n")
	server := netip.MustParseAddrPort("127.0.0.1:8080")
	for caller, want := range map[string]string{
		"127.0.0.1:50000": "1000",
		"127.0.0.1:50001": "", // its process has closed it: the kernel says 0, which is root
		"127.0.0.1:50002": "", // it is connected to another server
		"127.0.0.1:50003": "",
	} {
		if got := ownerIn(strings.NewReader(table), netip.MustParseAddrPort(caller), server); got != want {
			t.Errorf("the caller from %s is %q, want %q", caller, got, want)
		}
	}
}
