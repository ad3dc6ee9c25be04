// Package upgrade_test replaces the agent under processes of all kinds, by a newer version, by an older one and after a
// crash. Nothing of it shows in the processes: they keep their pids, counts, pauses, timetables and operations.
package upgrade_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent, herald string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
		"./test/readiness/herald": &binaries.herald,
	}, harness.Need{Test: "TestKilledAmidUpgrade/.*_power", Accounts: true}))
}
