// Package servers_test runs several real drover servers over one real PostgreSQL and a cluster of real NATS brokers,
// which are told what 'drover server nats-config' prints, with agents that have joined them, and looks at them from
// outside.
package servers_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent, nats string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
		"github.com/nats-io/nats-server/v2": &binaries.nats,
	}))
}
