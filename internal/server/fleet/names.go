package fleet

import (
	"net/netip"
	"strconv"
	"strings"

	"drover/internal/server/store"
)

// address is where an agent lives, as a key.
type address struct {
	cloud int
	ip    string
}

// addressOf lets every spelling of an IP address name the same agent.
func addressOf(cloud int, ip string) address {
	if parsed, err := netip.ParseAddr(ip); err == nil {
		ip = parsed.Unmap().String()
	}
	return address{cloud, ip}
}

// addressIn returns the address that an id of the form cloud:ip spells; the address of an IPv6 host may stand in
// brackets.
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

// misleads reports whether an id that an agent is to have reads as the address of another host.
func misleads(id string, a store.Agent) bool {
	addr, spelt := addressIn(id)
	if !spelt || addr == addressOf(a.Cloud, a.IP) {
		return false
	}
	_, err := netip.ParseAddr(addr.ip)
	return err == nil
}
