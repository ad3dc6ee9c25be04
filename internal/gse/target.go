package gse

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"drover/internal/process"
)

// maxTarget bounds an agent id or an address, in bytes.
const maxTarget = 64

// Host is a host by address.
type Host struct {
	IP       string `json:"ip"`
	Cloud    int    `json:"bk_cloud_id"`
	Supplier int    `json:"bk_supplier_id"`
}

// Agent returns the id of a host that has no agent id of its own.
func (h Host) Agent() string { return strconv.Itoa(h.Cloud) + ":" + h.IP }

// HostOf parses an agent id of the form cloud:ip; the address of an IPv6 host may be in brackets. It returns a host
// without an address for any other id.
func HostOf(agentID string) Host {
	left, ip, found := strings.Cut(agentID, ":")
	cloud, err := strconv.Atoi(left)
	if !found || err != nil {
		return Host{}
	}
	if inner, ok := strings.CutPrefix(ip, "["); ok {
		ip = strings.TrimSuffix(inner, "]")
	}
	if _, err := netip.ParseAddr(ip); err != nil {
		return Host{}
	}
	return Host{IP: ip, Cloud: cloud}
}

// sameAddress reports whether two hosts have the same address, in any spelling.
func sameAddress(a, b Host) bool {
	first, err := netip.ParseAddr(a.IP)
	if err != nil {
		return false
	}
	second, err := netip.ParseAddr(b.IP)
	return err == nil && a.Cloud == b.Cloud && first.Unmap() == second.Unmap()
}

// keyFunc makes the result key of a process on a target.
type keyFunc func(t Target, id process.ID) string

// key is the key of the second generation, cloud:ip:namespace:name, and of the third, agent_id:namespace:name.
func key(t Target, id process.ID) string {
	return t.Asked() + ":" + id.Namespace + ":" + id.Name
}

// keyWithSupplier is the key of the first generation, cloud:supplier:ip:namespace:name. An agent id has no supplier.
func keyWithSupplier(t Target, id process.ID) string {
	if t.AgentID != "" {
		return key(t, id)
	}
	h := t.Host
	return strconv.Itoa(h.Cloud) + ":" + strconv.Itoa(h.Supplier) + ":" + h.IP + ":" + id.Namespace + ":" + id.Name
}

// keyOfJob is JOB's key, value_key:cloud:ip. The name of the process is its value_key.
func keyOfJob(t Target, id process.ID) string { return id.Name + ":" + t.Host.Agent() }

// list returns the agents of a request; hosts count only if there is no list of ids.
func (b *targets) list(at string, id process.ID, key keyFunc) ([]Target, error) {
	if len(b.Agents) > 0 {
		list := make([]Target, len(b.Agents))
		for i, a := range b.Agents {
			field := func() string { return fmt.Sprintf("%sagent_id_list[%d]", at, i) }
			if err := checkTarget(a, field); err != nil {
				return nil, err
			}
			list[i] = Target{AgentID: a.value}
			list[i].Key = key(list[i], id)
		}
		return list, nil
	}
	if len(b.Hosts) == 0 {
		return nil, misreadf("%shosts and %sagent_id_list are missing: one of them must name an agent", at, at)
	}
	return listHosts(at+"hosts", b.Hosts, id, key)
}

// listHosts returns the targets of a list of addresses; field is the caller's name of the list.
func listHosts(field string, hosts []host, id process.ID, key keyFunc) ([]Target, error) {
	list := make([]Target, len(hosts))
	for i, h := range hosts {
		if err := checkTarget(h.IP, func() string { return fmt.Sprintf("%s[%d].ip", field, i) }); err != nil {
			return nil, err
		}
		if h.Cloud.state != given || h.Cloud.value != int64(int32(h.Cloud.value)) {
			name := fmt.Sprintf("%s[%d].bk_cloud_id", field, i)
			if err := h.Cloud.required(name); err != nil {
				return nil, err
			}
			return nil, misreadf("%s is out of range: %d", name, h.Cloud.value)
		}
		if h.Supplier.state == bad || h.Supplier.value != int64(int32(h.Supplier.value)) {
			return nil, misreadf("%s is not a small integer", fmt.Sprintf("%s[%d].bk_supplier_id", field, i))
		}
		list[i] = Target{Host: Host{IP: h.IP.value, Cloud: int(h.Cloud.value), Supplier: int(h.Supplier.value)}}
		list[i].Key = key(list[i], id)
	}
	return list, nil
}

// checkTarget rejects a value that cannot name an agent. field is a function, so that the name is made only for an
// error: a request may have 30,000 of them.
func checkTarget(v Str, field func() string) error { return v.fits(maxTarget, field) }

// longestName is longer than any valid name of a process. A longer name fails the whole request, because otherwise
// every result key would contain it.
const longestName = 1 << 10

// short rejects a missing value, and one that is too long for a name.
func (v Str) short(field string) error {
	if n := len(v.value); n > longestName {
		return misreadf("%s is %d bytes long: expected at most %d", field, n, longestName)
	}
	return v.required(field)
}

// fits rejects a value that is not one short line of text.
func (v Str) fits(most int, field func() string) error {
	switch text := v.value; {
	case v.state != given:
		return v.required(field())
	case text == "":
		return misreadf("%s is empty", field())
	case len(text) > most:
		return misreadf("%s is %d bytes long: expected at most %d", field(), len(text), most)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return misreadf("%s holds a control character", field())
	default:
		return nil
	}
}
