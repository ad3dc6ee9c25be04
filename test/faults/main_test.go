// Package faults_test attacks one host's drover: it is killed at every moment that can be named, its disk is full,
// damaged or not its own, its processes storm, vanish and lend their pids. What must hold is in docs/faults.md, by
// number.
package faults_test

import (
	"fmt"
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, oddd, herald string }

// The test binary is also the drover that dies: TestMain turns into one when this names a part.
const roleVariable = "DROVER_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := runChild(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./test/daemons/oddd": &binaries.oddd, "./test/readiness/herald": &binaries.herald,
	},
		harness.Need{Test: "TestOrdinaryUser", Accounts: true},
		harness.Need{Test: "TestI1_I2_I3_I7_PowerCut", Accounts: true},
		harness.Need{Test: "TestEverythingHeldIsOnThePage", Accounts: true, Program: "/usr/bin/strace"},
		harness.Need{Test: "TestThingsThatAreTakenAway", Accounts: true},
		harness.Need{Test: "TestOperationTimeoutEndsEverything/storm", Groups: true},
	))
}
