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
