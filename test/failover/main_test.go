// Package failover_test runs a real drover server over a real PostgreSQL primary and its synchronous standby, ends the
// primary by force while callers are at work, and promotes the standby.
package failover_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var drover, agent string

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{"./cmd/drover": &drover, "./cmd/drover-agent": &agent},
		harness.Need{Test: "TestFailover", Program: "/usr/lib/postgresql/*/bin/postgres"},
		harness.Need{Test: "TestServerWaitsForItsDatabase", Program: "/usr/lib/postgresql/*/bin/postgres"}))
}
