package gate_test

import (
	"testing"

	"drover/internal/server/access"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// TestHost: rights know a host by every name that it has, and one that has left is nowhere.
func TestHost(t *testing.T) {
	known := gate.Host(store.Agent{Key: "A", Cloud: 3, IP: "10.0.0.1", ID: "own", Assigned: "given"})
	if want := (access.Host{Area: 3, IP: "10.0.0.1", ID: "own", Alias: "given"}); known != want {
		t.Errorf("it is %+v, want %+v", known, want)
	}
	if gone := gate.Host(store.Agent{}); gone != (access.Host{Area: access.NoArea}) {
		t.Errorf("a host that has left is %+v", gone)
	}
}
