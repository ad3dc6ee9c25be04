package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"syscall"
)

// CheckURL reports what is wrong with the address of a webhook, as far as that can be seen without asking for its host.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("%.100q is no URL: expected https://host/path", address)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%.100q begins with %.20q: expected http or https", address, u.Scheme)
	case u.Hostname() == "":
		return fmt.Errorf("%.100q names no host: expected https://host/path", address)
	case u.User != nil:
		return errors.New("the URL holds a user and a password: use the signature to tell who is calling")
	}
	return nil
}

// errForbidden is wrapped by the refusal of an address.
var errForbidden = errors.New("not allowed without \"local\"")

// allowed refuses to connect to an address through which a caller could reach what only this machine should: itself, its link, the
// metadata services of clouds. It is asked for the very address that is dialled, so that no name can change its meaning in between.
func allowed(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("cannot read the address %q: %w", address, err)
	}
	ip := at.Addr().Unmap()
	switch {
	case ip.IsLoopback(), ip.IsUnspecified():
		return fmt.Errorf("%s is this machine: %w", ip, errForbidden)
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), isMetadata(ip):
		return fmt.Errorf("%s is a link-local address or a cloud's metadata service: %w", ip, errForbidden)
	}
	return nil
}

// isMetadata knows the metadata addresses that are not link-local: of Alibaba Cloud, Azure, Oracle Cloud and EC2 over IPv6.
func isMetadata(ip netip.Addr) bool {
	switch ip.String() {
	case "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254":
		return true
	}
	return false
}

// control is for net.Dialer.
func control(_, address string, _ syscall.RawConn) error { return allowed(address) }
