package wire_test

import (
	"math"
	"testing"

	"drover/internal/process"
	"drover/internal/wire"
)

func TestGroupsDigest(t *testing.T) {
	a, b := process.Group{ID: "a", CPULimit: 0.1}, process.Group{ID: "b", MemLimit: 20, MemWeight: 1}
	seen := map[string]int{}
	for i, groups := range [][]process.Group{
		nil,
		{a},
		{b},
		{a, b},
		{b, a},
		{{ID: "a", CPULimit: 0.2}},
		{{ID: "a", CPULimit: math.NaN()}},
	} {
		d := wire.GroupsDigest(groups)
		if j, ok := seen[d]; ok {
			t.Errorf("%v has the digest of number %d", groups, j)
		}
		seen[d] = i
	}
	if wire.GroupsDigest([]process.Group{}) != "" ||
		wire.GroupsDigest([]process.Group{a}) != wire.GroupsDigest([]process.Group{{ID: "a", CPULimit: 0.1}}) {
		t.Error("the same groups have two digests")
	}
}
