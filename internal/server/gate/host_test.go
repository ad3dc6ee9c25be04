package gate_test

import (
	"reflect"
	"testing"

	"drover/internal/server/access"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// TestHost: rights know a host by every name that it has, and one that has left is nowhere.
func TestHost(t *testing.T) {
	web := "web"
	set, joined := map[string]*string{"role": &web}, map[string]string{"zone": "a"}
	known := gate.Host(store.Agent{
		Key: "A", Cloud: 3, IP: "10.0.0.1", ID: "own", Assigned: "given", Labels: joined, SetLabels: set,
		Host: store.Host{OS: "debian", Labels: map[string]string{"rack": "4"}}, // these grant nothing
	})
	if want := (access.Host{
		Area: 3, IP: "10.0.0.1", ID: "own", Alias: "given", Labels: access.Labels{Set: set, Joined: joined},
	}); !reflect.DeepEqual(known, want) {
		t.Errorf("it is %+v, want %+v", known, want)
	}
	if gone := gate.Host(store.Agent{}); !reflect.DeepEqual(gone, access.Host{Area: access.NoArea}) {
		t.Errorf("a host that has left is %+v", gone)
	}
}
