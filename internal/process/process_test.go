package process_test

import (
	"slices"
	"strings"
	"testing"

	"drover/internal/process"
)

func TestHash(t *testing.T) {
	ids := []process.ID{
		{},
		{Name: "a"},
		{Namespace: "a"},
		{Namespace: "a", Name: "b"},
		{Namespace: "ab"},
		{Name: "ab"},
		{Namespace: "a/b", Name: "c"},
		{Namespace: "a", Name: "b/c"},
		{Namespace: "A", Name: "b"},
		{Namespace: "a", Name: "b "},
		{Namespace: ">", Name: "*"},
		{Namespace: "世", Name: "界"},
	}
	seen := map[string]process.ID{}
	for _, id := range ids {
		h := process.Hash(id)
		if len(h) != 32 || strings.Trim(h, "0123456789abcdef") != "" {
			t.Errorf("%v: %q is not 32 hexadecimal digits", id, h)
		}
		if other, ok := seen[h]; ok {
			t.Errorf("%v and %v have the same hash", id, other)
		}
		seen[h] = id
		if h != process.Hash(id) {
			t.Errorf("%v has two hashes", id)
		}
	}
	// It names things on disk, so it must stay what it is.
	if got, want := process.Hash(process.ID{Namespace: "ns", Name: "nginx"}),
		"b12a8e8bb44c59c20d60a2fb2e9272f6"; got != want {
		t.Errorf("the hash has changed from %s to %s", want, got)
	}
	if got := (process.ID{Namespace: "ns", Name: "nginx"}).String(); got != "ns/nginx" {
		t.Errorf("it is called %q", got)
	}
}

func TestError(t *testing.T) {
	err := process.Errorf(process.CheckFailed, "%d of %d", 1, 2)
	if err.Error() != "1 of 2" || err.Fault != process.CheckFailed {
		t.Errorf("got %+v", err)
	}
}

func TestRunning(t *testing.T) {
	for pid, want := range map[int]bool{-1: false, 0: false, 2: true} {
		if got := (process.Status{Instance: process.Instance{PID: pid}}).Running(); got != want {
			t.Errorf("pid %d is running: %v", pid, got)
		}
	}
}

// TestCompareNatural: numbers in names count as numbers, and different names are never equal.
func TestCompareNatural(t *testing.T) {
	want := []string{
		"", "0:10.0.0.2", "0:10.0.0.10", "a", "a@1", "a@2", "a@10", "a@100", "b1c2", "b1c10", "b02c1", "b2c1", "b10c1",
		"web-2", "web-9", "web-10", "web-99999999999999999999998", "web-99999999999999999999999",
	}
	got := slices.Clone(want)
	slices.Sort(got)
	slices.SortFunc(got, process.CompareNatural)
	if !slices.Equal(got, want) {
		t.Errorf("sorted\n%q, want\n%q", got, want)
	}
	for i, a := range want {
		for j, b := range want {
			if c := process.CompareNatural(a, b); c < 0 != (i < j) || c > 0 != (i > j) {
				t.Errorf("%q and %q: %d", a, b, c)
			}
		}
	}
}
