package fleet

import (
	"net/netip"
	"strconv"
	"strings"

	"drover/internal/server/store"
)

// address is the address of an agent, as a map key.
type address struct {
	cloud int
	ip    string
}

// addressOf returns the same address for every spelling of an IP address.
func addressOf(cloud int, ip string) address {
	if parsed, err := netip.ParseAddr(ip); err == nil {
		ip = parsed.Unmap().String()
	}
	return address{cloud, ip}
}

// addressIn returns the address in an id of the form cloud:ip; an IPv6 address may have brackets.
func addressIn(id string) (address, bool) {
	area, ip, found := strings.Cut(id, ":")
	if !found {
		return address{}, false
	}
	cloud, err := strconv.Atoi(area)
	if err != nil {
		return address{}, false
	}
	if inner, ok := strings.CutPrefix(ip, "["); ok {
		ip = strings.TrimSuffix(inner, "]")
	}
	return addressOf(cloud, ip), true
}

// misleads reports whether an id for an agent reads as the address of another host.
func misleads(id string, a store.Agent) bool {
	addr, spelt := addressIn(id)
	if !spelt || addr == addressOf(a.Cloud, a.IP) {
		return false
	}
	_, err := netip.ParseAddr(addr.ip)
	return err == nil
}
