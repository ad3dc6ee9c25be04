package gse

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"drover/internal/process"
)

// GroupTarget is one host of a group call. Key is its result key, which holds a namespace and no name.
type GroupTarget struct {
	Target
	Namespace string
}

// GroupLimits is the resource of one process group, in the words of the wire: limits are percent of the whole machine, a
// weight is 0 or 1.
type GroupLimits struct {
	CPULimit  float64 `json:"cpu_pool_limit"`
	MemLimit  float64 `json:"mem_pool_limit"`
	CPUWeight int     `json:"cpu_pool_weight"`
	MemWeight int     `json:"mem_pool_weight"`
}

// Group is one process group of a namespace on a host.
type Group struct {
	ID     string      `json:"id"`
	Limits GroupLimits `json:"resource"`
}

// GroupSetting is what set_process_group_info asks for: the groups that each target is to have from now on, and no others.
type GroupSetting struct {
	Groups  []Group
	Targets []GroupTarget
	// Problem, when not nil, is the outcome of every target.
	Problem *process.Error
}

// GroupRow is one element of process_group_infos.
type GroupRow struct {
	Meta RowMeta `json:"meta"`
	Host Host    `json:"host"`
	Group
}

// maxGroups bounds the groups of one namespace on one host.
const maxGroups = 100

type groupBody struct {
	Meta *meta `json:"meta"`
	targets
	Spec *struct {
		Groups []struct {
			ID       Str `json:"id"`
			Resource *struct {
				CPULimit  Float `json:"cpu_pool_limit"`
				MemLimit  Float `json:"mem_pool_limit"`
				CPUWeight Int   `json:"cpu_pool_weight"`
				MemWeight Int   `json:"mem_pool_weight"`
			} `json:"resource"`
		} `json:"process_group"`
	} `json:"spec"`
}

// ReadSetGroups reads the body of set_process_group_info. An error means that there is no key to answer for.
func ReadSetGroups(body []byte) (GroupSetting, error) {
	var b groupBody
	if err := decode(body, &b); err != nil {
		return GroupSetting{}, err
	}
	targets, err := b.list()
	if err != nil {
		return GroupSetting{}, err
	}
	if b.Spec == nil || b.Spec.Groups == nil {
		return GroupSetting{}, errors.New("spec.process_group is missing")
	}
	s := GroupSetting{Targets: targets}
	s.Groups, s.Problem = b.groups()
	return s, nil
}

// ReadGetGroups reads the body of get_process_group_info.
func ReadGetGroups(body []byte) ([]GroupTarget, error) {
	var b groupBody
	if err := decode(body, &b); err != nil {
		return nil, err
	}
	return b.list()
}

// list returns the hosts that are named. Their keys are those of the first generation, without a name.
func (b *groupBody) list() ([]GroupTarget, error) {
	namespace, err := b.Meta.namespace("")
	if err != nil {
		return nil, err
	}
	if err := process.ValidateID(process.ID{Namespace: namespace, Name: "any"}); err != nil {
		return nil, err
	}
	list, err := b.targets.list("", process.ID{Namespace: namespace}, groupKey)
	if err != nil {
		return nil, err
	}
	out := make([]GroupTarget, len(list))
	for i, t := range list {
		out[i] = GroupTarget{Target: t, Namespace: namespace}
	}
	return out, nil
}

func groupKey(t Target, id process.ID) string {
	if t.AgentID != "" {
		return t.AgentID + ":" + id.Namespace
	}
	h := t.Host
	return strconv.Itoa(h.Cloud) + ":" + strconv.Itoa(h.Supplier) + ":" + h.IP + ":" + id.Namespace
}

func (b *groupBody) groups() ([]Group, *process.Error) {
	if n := len(b.Spec.Groups); n > maxGroups {
		return nil, process.Errorf(process.Failed, "spec.process_group has %d entries: expected at most %d", n, maxGroups)
	}
	var r reader
	groups, seen := make([]Group, 0, len(b.Spec.Groups)), map[string]bool{}
	for i := range b.Spec.Groups {
		g, at := &b.Spec.Groups[i], fmt.Sprintf("spec.process_group[%d].", i)
		id := r.text(at+"id", g.ID)
		switch {
		case id == "":
			r.fail("%sid is empty: expected the name of the group", at)
		case len(id) > process.MaxName:
			r.fail("%sid is %d bytes long: expected at most %d", at, len(id), process.MaxName)
		case seen[id]:
			r.fail("%sid %q is there twice", at, id)
		}
		seen[id] = true
		if g.Resource == nil {
			r.fail("%sresource is missing", at)
			continue
		}
		groups = append(groups, Group{ID: id, Limits: GroupLimits{
			CPULimit:  r.pool(at+"resource.cpu_pool_limit", g.Resource.CPULimit),
			MemLimit:  r.pool(at+"resource.mem_pool_limit", g.Resource.MemLimit),
			CPUWeight: r.weight(at+"resource.cpu_pool_weight", g.Resource.CPUWeight),
			MemWeight: r.weight(at+"resource.mem_pool_weight", g.Resource.MemWeight),
		}})
	}
	return groups, r.problem
}

// pool reads the limit of a pool; zero or absent is no limit.
func (r *reader) pool(field string, v Float) float64 {
	n := r.number(field, v)
	if n < 0 || n > 100 {
		r.fail("%s is %v: expected a percentage from 0 to 100", field, n)
	}
	return n
}

func (r *reader) weight(field string, v Int) int {
	n := r.integer(field, v)
	if n != 0 && n != 1 {
		r.fail("%s is %d: expected 0 or 1", field, n)
	}
	return int(n)
}

// GroupRowOf returns the row of a group on a host.
func GroupRowOf(namespace string, h Host, g Group) GroupRow {
	return GroupRow{Meta: RowMeta{Namespace: namespace, Labels: json.RawMessage("{}")}, Host: h, Group: g}
}
