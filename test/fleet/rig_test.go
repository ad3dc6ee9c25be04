package fleet_test

import (
	"testing"

	"drover/internal/test/harness"
)

// fleet is a server with agents, all on loopback.
type fleet struct{ *harness.Fleet }

func newFleet(t *testing.T, flags ...string) *fleet {
	t.Helper()
	return &fleet{harness.NewFleet(t, binaries.drover, binaries.agent, flags...)}
}

// daemon is a process to supervise, and its directory. Each host has one of its own, as all hosts of a test share their
// files.
func (f *fleet) daemon(name string) (*harness.Process, string) {
	f.T.Helper()
	return harness.Odd(f.T, nil, binaries.oddd, name, "plain")
}
