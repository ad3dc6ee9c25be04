package specstore_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// TestGroups: they come with the outcome of their operation, in its commit, and stay.
func TestGroups(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boot)
	set := func(item, namespace string, groups ...process.Group) {
		t.Helper()
		id := process.ID{Namespace: namespace}
		accept(t, s, record.Entry{Item: item, Process: id, Op: process.SetGroups, Groups: groups})
		change := specstore.Change{Groups: &specstore.NamespaceGroups{Namespace: namespace, Groups: groups}}
		if err := s.Finish(item, id, process.Outcome{Text: process.Success}, change); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want map[string][]process.Group) {
		t.Helper()
		got, err := s.Groups()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v, groups (-want +got):\n%s", err, diff)
		}
	}
	big, small := process.Group{ID: "big", CPULimit: 50, CPUWeight: 1},
		process.Group{ID: "small", MemLimit: 0.5, MemWeight: 1}
	want(map[string][]process.Group{})
	set("1", "a", big, small)
	set("2", "b", big)
	want(map[string][]process.Group{"a": {big, small}, "b": {big}})
	set("3", "a", small)
	set("4", "b")
	close(t, s)
	s = open(t, dir, "another boot")
	want(map[string][]process.Group{"a": {small}})

	// An item that has an outcome changes nothing any more.
	late := specstore.Change{Groups: &specstore.NamespaceGroups{Namespace: "a", Groups: []process.Group{big}}}
	if err := s.Finish("3", process.ID{Namespace: "a"}, process.Outcome{Text: "again"}, late); err != nil {
		t.Fatal(err)
	}
	want(map[string][]process.Group{"a": {small}})
}
