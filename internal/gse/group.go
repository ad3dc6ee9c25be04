package gse

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"drover/internal/process"
)

// GroupSetting is the request of set_process_group_info. The process of the operation has no name, only a namespace.
type GroupSetting struct {
	Operation
	// Groups are all groups that each target has from now on.
	Groups []process.Group
}

// GroupRow is one element of process_group_infos.
type GroupRow struct {
	Meta     RowMeta       `json:"meta"`
	Host     Host          `json:"host"`
	ID       string        `json:"id"`
	Resource groupResource `json:"resource"`
	Usage    GroupUsage    `json:"usage"`
}

// groupResource is the resources of a group: limits are a percentage of the whole machine, a weight is 0 or 1.
type groupResource struct {
	CPULimit  float64 `json:"cpu_pool_limit"`
	MemLimit  float64 `json:"mem_pool_limit"`
	CPUWeight int     `json:"cpu_pool_weight"`
	MemWeight int     `json:"mem_pool_weight"`
}

// GroupUsage is the present use of all processes of the namespace together, in percent of the whole machine, and the
// number of measured processes. Only drover has it.
type GroupUsage struct {
	CPU       float64 `json:"cpu"`
	Mem       float64 `json:"mem"`
	Processes int     `json:"processes"`
}

// maxGroups bounds the groups of one namespace on one host.
const maxGroups = 100

type (
	groupBody struct {
		Meta *meta `json:"meta"`
		targets
		Spec *groupsBody `json:"spec"`
	}
	groupsBody struct {
		Groups []poolBody `json:"process_group"`
	}
	poolBody struct {
		ID       Str           `json:"id"`
		Resource *poolResource `json:"resource"`
	}
	poolResource struct {
		CPULimit  Float `json:"cpu_pool_limit"`
		MemLimit  Float `json:"mem_pool_limit"`
		CPUWeight Int   `json:"cpu_pool_weight"`
		MemWeight Int   `json:"mem_pool_weight"`
	}
)

// ReadSetGroups reads the body of set_process_group_info. After an error there is no key for an answer.
func ReadSetGroups(body []byte) (GroupSetting, error) {
	var b groupBody
	if err := scan(body, b.read); err != nil {
		return GroupSetting{}, err
	}
	namespace, targets, err := b.list()
	if err != nil {
		return GroupSetting{}, err
	}
	if b.Spec == nil || b.Spec.Groups == nil {
		return GroupSetting{}, missing("spec.process_group")
	}
	s := GroupSetting{Operation: Operation{
		ID: process.ID{Namespace: namespace}, Op: process.SetGroups,
		Targets: targets,
	}}
	s.Groups, s.Problem = b.groups()
	return s, nil
}

// ReadGetGroups reads the body of get_process_group_info: a namespace, and the hosts whose groups are wanted.
func ReadGetGroups(body []byte) (namespace string, targets []Target, err error) {
	var b groupBody
	if err := scan(body, b.read); err != nil {
		return "", nil, err
	}
	return b.list()
}

// list returns the namespace and the hosts of a request. Their keys have the form of the first generation, without a
// name.
func (b *groupBody) list() (string, []Target, error) {
	namespace, err := b.Meta.namespace("")
	if err != nil {
		return "", nil, err
	}
	if err := b.Meta.Namespace.fits(process.MaxName, func() string { return "meta.namespace" }); err != nil {
		return "", nil, err
	}
	targets, err := b.targets.list("", process.ID{Namespace: namespace}, groupKey)
	return namespace, targets, err
}

func groupKey(t Target, id process.ID) string {
	if t.AgentID != "" {
		return t.AgentID + ":" + id.Namespace
	}
	h := t.Host
	return strconv.Itoa(h.Cloud) + ":" + strconv.Itoa(h.Supplier) + ":" + h.IP + ":" + id.Namespace
}

// groups reads the groups. Of groups with the same id the last counts.
func (b *groupBody) groups() ([]process.Group, *process.Error) {
	if n := len(b.Spec.Groups); n > maxGroups {
		return nil, process.Errorf(process.Failed, "spec.process_group has %d entries: expected at most %d", n,
			maxGroups)
	}
	var r reader
	groups := make([]process.Group, 0, len(b.Spec.Groups))
	for i := range b.Spec.Groups {
		g, at := &b.Spec.Groups[i], fmt.Sprintf("spec.process_group[%d].", i)
		id := r.text(at+"id", g.ID)
		switch {
		case id == "":
			r.fail("%sid is empty: expected the name of the group", at)
		case len(id) > process.MaxName:
			r.fail("%sid is %d bytes long: expected at most %d", at, len(id), process.MaxName)
		}
		if g.Resource == nil {
			r.fail("%sresource is missing", at)
			continue
		}
		groups = slices.DeleteFunc(groups, func(before process.Group) bool { return before.ID == id })
		groups = append(groups, process.Group{
			ID:        id,
			CPULimit:  r.pool(at+"resource.cpu_pool_limit", g.Resource.CPULimit),
			MemLimit:  r.pool(at+"resource.mem_pool_limit", g.Resource.MemLimit),
			CPUWeight: r.weight(at+"resource.cpu_pool_weight", g.Resource.CPUWeight),
			MemWeight: r.weight(at+"resource.mem_pool_weight", g.Resource.MemWeight),
		})
	}
	return groups, problemOf(r.faults)
}

// pool reads the limit of a pool. 0 is no limit, and so is a missing or a negative value.
func (r *reader) pool(field string, v Float) float64 {
	n := r.number(field, v)
	if n > 100 {
		r.fail("%s is %v: expected a percentage of the whole machine, up to 100", field, n)
	}
	return max(n, 0)
}

func (r *reader) weight(field string, v Int) int {
	n := r.integer(field, v)
	if n != 0 && n != 1 {
		r.fail("%s is %d: expected 0 or 1", field, n)
	}
	return int(n)
}

// GroupRowOf returns the row of a group on a host.
func GroupRowOf(namespace string, h Host, g process.Group, usage GroupUsage) GroupRow {
	usage.CPU, usage.Mem = hundredths(usage.CPU), hundredths(usage.Mem)
	return GroupRow{
		Meta: RowMeta{Namespace: namespace, Labels: json.RawMessage("{}")}, Host: h, ID: g.ID, Usage: usage,
		Resource: groupResource{
			CPULimit: g.CPULimit, MemLimit: g.MemLimit, CPUWeight: g.CPUWeight,
			MemWeight: g.MemWeight,
		},
	}
}

// hundredths rounds a sum of numbers with two decimals.
func hundredths(v float64) float64 { return math.Round(v*100) / 100 }
