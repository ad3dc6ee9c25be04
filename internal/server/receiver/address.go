package receiver

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"drover/internal/server/store"
)

// CheckURL returns an error if the address of a receiver is invalid. It does no DNS lookup of the host. The error does
// not quote the address, because it may hold a token.
func CheckURL(kind store.ReceiverKind, address string, local bool) error {
	u, err := url.Parse(address)
	schemes, example := [2]string{"https", "http"}, "https://host/path"
	if kind == store.KindEmail {
		schemes, example = [2]string{schemeStartTLS, schemeTLS}, "smtp://host:587"
	}
	switch {
	case err != nil:
		return fmt.Errorf("is not a URL: expected %s", example)
	case u.Scheme != schemes[0] && u.Scheme != schemes[1]:
		return fmt.Errorf("begins with %.20q: expected %s or %s", u.Scheme, schemes[0], schemes[1])
	case u.Hostname() == "":
		return fmt.Errorf("names no host: expected %s", example)
	case u.User != nil:
		return errors.New("holds a user or a password: expected them in fields of their own")
	case kind == store.KindEmail && strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "":
		return fmt.Errorf("has a path: expected %s", example)
	case kind == store.KindAlertmanager && u.RawQuery+u.Fragment != "":
		return fmt.Errorf("has a query: expected the address of the Alertmanager, such as %s", example)
	case len(address) > longestURL:
		return fmt.Errorf("is %d bytes long: expected at most %d", len(address), longestURL)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("has an invalid port: expected 1 to 65535")
		}
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !local {
		return allowed(ip)
	}
	return nil
}

// longestURL is in bytes.
const longestURL = 2048

// errForbidden is wrapped by the rejection of an address.
var errForbidden = errors.New("not allowed without \"local\"")

// allowed rejects an address through which a caller could reach what only this machine should: itself, its link, the
// metadata services of clouds.
func allowed(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	for _, prefix := range translated() {
		if prefix.Contains(ip) {
			b := ip.As16()
			ip = netip.AddrFrom4([4]byte(b[12:]))
		}
	}
	switch {
	case ip.IsLoopback(), ip.IsUnspecified():
		return fmt.Errorf("%s is this machine: %w", ip, errForbidden)
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), isMetadata(ip):
		return fmt.Errorf("%s is a link-local address or a cloud's metadata service: %w", ip, errForbidden)
	}
	return nil
}

// translated returns the IPv6 prefixes behind which a gateway reaches the IPv4 address in the last four bytes (RFC
// 6052, RFC 8215).
func translated() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48")}
}

// isMetadata reports whether an address is a metadata address that is not link-local: of Alibaba Cloud, Azure and
// Oracle Cloud, and over IPv6 of EC2, Google Cloud and Scaleway.
func isMetadata(ip netip.Addr) bool {
	switch ip.String() {
	case "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fd00:42::42":
		return true
	}
	return false
}

// control is the control function of the net.Dialer. It checks the dialled address itself, so that a DNS answer cannot
// change in between.
func control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("cannot read the address %q: %w", address, err)
	}
	return allowed(at.Addr())
}
