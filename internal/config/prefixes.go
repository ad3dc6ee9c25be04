package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// Prefixes is a flag that may be given several times, each a network such as 10.1.0.0/16 or a single address.
type Prefixes []netip.Prefix

// Set adds the networks of a list with commas.
func (p *Prefixes) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		prefix, err := parsePrefix(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		*p = append(*p, prefix)
	}
	return nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil || prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q: expected a network such as 10.1.0.0/16, or an address", text)
	case prefix.Bits() == 0:
		return netip.Prefix{}, fmt.Errorf("%q contains every address: give the address of the gateway", text)
	default:
		return prefix.Masked(), nil
	}
}

// String returns the networks with commas between them.
func (p *Prefixes) String() string {
	texts := make([]string, len(*p))
	for i, prefix := range *p {
		texts[i] = prefix.String()
	}
	return strings.Join(texts, ",")
}

// Type names the kind of value in help texts.
func (p *Prefixes) Type() string { return "CIDR" }
