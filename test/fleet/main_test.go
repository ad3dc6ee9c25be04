// Package fleet_test runs a real drover server and real agents that have joined it, on addresses of their own on
// loopback, with TLS as between machines, and looks at them from outside.
package fleet_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent, "./test/daemons/oddd": &binaries.oddd,
	}))
}
