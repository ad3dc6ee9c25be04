package ready

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"

	"drover/internal/spec"
)

// Answering returns the sockets of this host that would pass the test of a process that has not been started: another
// program listens there. It returns none if the test asks no port. It blocks for one attempt at most, and only if
// somebody listens.
func Answering(ctx context.Context, r spec.Ready, listeners func(port uint16) []uint64) []uint64 {
	port := portOf(ctx, r)
	if port == 0 {
		return nil
	}
	earlier := listeners(port)
	if len(earlier) == 0 {
		return nil
	}
	if r.HTTP != "" { // a load balancer answers with an error as long as nobody is behind it
		if _, err := responds(ctx, r.HTTP, r.Insecure); err != nil {
			return nil
		}
	}
	return earlier
}

// portOf is the port that a test asks; 0 if it asks none.
func portOf(ctx context.Context, r spec.Ready) uint16 {
	address := r.TCP
	if u, err := url.Parse(r.HTTP); err == nil && r.HTTP != "" {
		if address = u.Host; u.Port() == "" {
			address = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		}
	}
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", text)
	if err != nil {
		return 0
	}
	return uint16(port) //nolint:gosec // LookupPort returns nothing above 65535
}

// answered makes an attempt, and notes if another program has given the answer: it may be a load balancer or what the
// process depends on, or it has the port that the process should have.
func (c *Check) answered(address string, ask func(context.Context) (net.Conn, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := ask(ctx)
		if err != nil || len(c.env.Earlier) == 0 {
			return err
		}
		to, ok := conn.RemoteAddr().(*net.TCPAddr)
		if !ok || !here(conn, to) {
			return nil
		}
		now := c.env.Listeners(to.AddrPort().Port())
		since := func(s uint64) bool { return !slices.Contains(c.env.Earlier, s) }
		if len(now) == 0 || slices.ContainsFunc(now, since) {
			return nil
		}
		if who := c.env.Holder(now); who != "" {
			c.note = fmt.Sprintf("%s was answered by %s, which listened there before the start", address, who)
		}
		return nil
	}
}

// here reports whether a connection goes to this host.
func here(conn net.Conn, to *net.TCPAddr) bool {
	from, ok := conn.LocalAddr().(*net.TCPAddr)
	return to.IP.IsLoopback() || ok && from.IP.Equal(to.IP)
}
