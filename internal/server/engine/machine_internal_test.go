package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// TestHostOf: an agent may send anything, and the server keeps what is valid.
func TestHostOf(t *testing.T) {
	h := wire.Host{
		OS: "linux", Arch: "x86_64", CPUs: -1, Memory: -1, Distribution: "debian\x1b[2J", Version: "12",
		Kernel: strings.Repeat("k", 256),
		Labels: map[string]string{"role": "web", "os": "x", "fact.a": "x", "a b": "c", "zone": "\n", "": ""},
		Facts:  map[string]string{"rack": "4", "bad\x00": "x", "long": strings.Repeat("x", 256), "text": "a b, c"},
		Disks:  []wire.Mount{{Path: "/", Size: 5}, {Path: "/\x1b", Size: 5}, {Path: "/none"}, {Size: 5}},
		Full:   map[string]int64{"/data": 7, "/\x1b": 7, "/never": 0},
		Notes:  []string{"few descriptors", "\x1b[2J", strings.Repeat("n", 256)},
	}
	want := store.Host{
		System: "linux", Arch: "x86_64", Version: "12", Labels: map[string]string{"role": "web"},
		Facts: map[string]string{"rack": "4", "text": "a b, c"}, Disks: []store.Mount{{Path: "/", Size: 5}},
		Full: map[string]int64{"/data": 7}, Notes: []string{"few descriptors"},
	}
	known := store.Host{
		OS: "ubuntu", Version: "24", Kernel: "old", Labels: map[string]string{"old": "x"},
		Disks: []store.Mount{{Path: "/old", Size: 1}}, Facts: map[string]string{"old": "1"},
		Full: map[string]int64{"/old": 1}, Notes: []string{"old"},
	}
	if diff := cmp.Diff(want, hostOf(h, known)); diff != "" {
		t.Errorf("kept (-want +got): %s", diff)
	}
	h.Gathering = true
	want.OS, want.Version, want.Disks, want.Facts = known.OS, known.Version, known.Disks, known.Facts
	want.Full, want.Notes = known.Full, known.Notes
	if diff := cmp.Diff(want, hostOf(h, known)); diff != "" {
		t.Errorf("while the agent gathers facts (-want +got): %s", diff)
	}
	var many wire.Host
	many.Labels, many.Facts = map[string]string{}, map[string]string{}
	for i := range 1000 {
		name := fmt.Sprintf("n%04d", i)
		many.Labels[name], many.Facts[name] = "x", "x"
		many.Notes = append(many.Notes, name)
		many.Disks = append(many.Disks, wire.Mount{Path: name, Size: 1})
	}
	got := hostOf(many, store.Host{})
	if len(got.Labels) != 64 || len(got.Facts) != 64 || len(got.Disks) != 32 || len(got.Notes) != 8 ||
		got.Facts["n0063"] == "" {
		t.Errorf("kept %d labels, %d facts and %d disks", len(got.Labels), len(got.Facts), len(got.Disks))
	}
	if diff := cmp.Diff(store.Host{}, hostOf(wire.Host{}, store.Host{})); diff != "" {
		t.Errorf("of an agent that tells nothing: %s", diff)
	}
}

func TestLoadOf(t *testing.T) {
	for _, tt := range []struct {
		told wire.Load
		want fleet.Load
	}{
		{wire.Load{CPU: 125, Memory: 402}, fleet.Load{CPU: 125, Memory: 402}},
		{wire.Load{CPU: -1, Memory: 1 << 40}, fleet.Load{CPU: 0, Memory: 1000}},
	} {
		if got := loadOf(tt.told); got != tt.want {
			t.Errorf("%+v is kept as %+v", tt.told, got)
		}
	}
}
