// Package process holds the nouns that server and agent share: the name of a process, its spec, the operations on it
// and their outcomes. From drover it imports only the parser of crontab rules and the types of the own API. It does no
// I/O.
package process

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"sort"
	"strings"

	v1 "drover/api/v1"
)

// ID names a process within one agent. Both parts are the caller's own words. drover never alters or trims them, and
// never uses them as a path, a subject or a cgroup name: Hash is for that.
type ID = v1.ProcessID

// Hash returns 32 lower-case hexadecimal digits that represent an id in places that allow only safe characters.
func Hash(id ID) string {
	h := sha256.New()
	h.Write([]byte(id.Namespace))
	h.Write([]byte{0})
	h.Write([]byte(id.Name))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Peer returns the process that a spec of id calls name: NAMESPACE/NAME, or NAME in the same namespace.
func Peer(id ID, name string) ID {
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		return ID{Namespace: namespace, Name: rest}
	}
	return ID{Namespace: id.Namespace, Name: name}
}

// CompareIDs orders ids by namespace and name.
func CompareIDs(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// CompareNatural orders names as people count: @2 is before @10, and web-2 before web-10. It is 0 for equal names only.
func CompareNatural(a, b string) int {
	for i, j := 0, 0; ; {
		n, m := digits(a[i:]), digits(b[j:])
		switch {
		case n > 0 && m > 0:
			x, y := strings.TrimLeft(a[i:i+n], "0"), strings.TrimLeft(b[j:j+m], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			i, j = i+n, j+m
		case i == len(a) || j == len(b) || a[i] != b[j]:
			// The rest decides; names that differ by leading zeros only are equal up to here.
			return cmp.Or(cmp.Compare(a[i:], b[j:]), cmp.Compare(a, b))
		default:
			i, j = i+1, j+1
		}
	}
}

// digits returns how many digits a text begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// SortIDs sorts ids by namespace and name. The agent stays smaller than with slices.SortFunc.
func SortIDs(ids []ID) { sort.Sort(byName(ids)) }

// byName implements sort.Interface.
type byName []ID

func (s byName) Len() int           { return len(s) }
func (s byName) Less(i, j int) bool { return CompareIDs(s[i], s[j]) < 0 }
func (s byName) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// Group limits the sum of what the processes of a namespace use on one host.
type Group struct {
	ID string `json:"id"`
	// CPULimit and MemLimit are percent of the whole machine; 0 is no limit.
	CPULimit float64 `json:"cpu_limit,omitempty"`
	MemLimit float64 `json:"mem_limit,omitempty"`
	// CPUWeight and MemWeight are 0 or 1: whether the choice of a victim considers a process's own limit.
	CPUWeight int `json:"cpu_weight,omitempty"`
	MemWeight int `json:"mem_weight,omitempty"`
}
